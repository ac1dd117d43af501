"""Requests made of plain values, for tests: what the protocol class would hand over."""

from collections.abc import Mapping
from urllib.parse import quote

from gateway.http.call import BodyTooLong, Call

HOST = "s3.test:9000"


class HeldBody:
    """A body that has already arrived. `reads` counts how often somebody asked for it."""

    def __init__(self, content: bytes) -> None:
        self._left = memoryview(content)
        self.reads = 0

    async def fill(self, view: memoryview) -> int:
        self.reads += 1
        count = min(len(view), len(self._left))
        view[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    async def read_all(self, limit: int) -> bytes:
        self.reads += 1
        if len(self._left) > limit:
            raise BodyTooLong
        content, self._left = bytes(self._left), self._left[:0]
        return content


def make_call(
    method: str,
    path: str,
    headers: Mapping[str, str | bytes] | None = None,
    body: bytes | None = None,
    *,
    request_id: str = "REQUEST1",
) -> Call:
    """A call. `path` is the request target as it stands in the request line, query included; it is not quoted here.

    Content-Length is that of the body unless `headers` say otherwise.
    """
    raw_path, _, query = path.encode("ascii").partition(b"?")
    lines = [(b"host", HOST.encode())]
    for name, value in (headers or {}).items():
        lines.append((name.lower().encode(), value if isinstance(value, bytes) else value.encode("latin-1")))
    announced = next((value for name, value in lines if name == b"content-length"), None)
    if announced is None and body is not None:
        announced = str(len(body)).encode()
        lines.append((b"content-length", announced))
    return Call(
        method=method,
        raw_path=raw_path,
        query=query,
        headers=lines,
        body=HeldBody(body or b""),
        request_id=request_id,
        peer="127.0.0.1",
        content_length=None if announced is None else int(announced),
        fields=dict(lines),
    )


def quoted(bucket: str, key: str = "") -> str:
    """A path for a bucket and key."""
    return f"/{bucket}/{quote(key, safe='/~')}" if key else f"/{bucket}"
