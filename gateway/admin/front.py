"""The front door of a data worker: health goes to FastAPI, everything else is S3 and goes to the plane as it came."""

from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.http.call import Answer, Call, Plane

_HEALTH: Final = (b"/health/", b"/minio/health/")

NamesBucket = Callable[[bytes], bool]
"""Whether a Host header names a bucket: below such a host every path is a key, also `/health/live`."""


class FrontPlane:
    """The S3 plane, except for requests of the health paths: those take the application's way."""

    def __init__(self, plane: Plane, names_bucket: NamesBucket) -> None:
        self._plane = plane
        self._names_bucket = names_bucket

    def takes(self, call: Call) -> bool:
        """See `Plane`."""
        if call.raw_path.startswith(_HEALTH) and not self._names_bucket(call.fields.get(b"host", b"")):
            return False
        return self._plane.takes(call)

    async def answer(self, call: Call) -> Answer:
        """See `Plane`."""
        return await self._plane.answer(call)


class FrontDoor:
    """The ASGI application of the S3 port."""

    def __init__(self, health: ASGIApp, data: ASGIApp, names_bucket: NamesBucket) -> None:
        self._health = health
        self._data = data
        self._names_bucket = names_bucket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http" and scope["raw_path"].startswith(_HEALTH):
            host = dict(scope["headers"]).get(b"host", b"")
            if not self._names_bucket(host):
                await self._health(scope, receive, send)
                return
        await self._data(scope, receive, send)
