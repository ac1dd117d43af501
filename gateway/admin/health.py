"""Health: a state word for probes and balancers, without authentication and without any detail."""

from collections.abc import Sequence
from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tiers.upkeep.vitals import Vital

PREFIXES: Sequence[str] = ("/health", "/minio/health")
"""The second is an alias that existing probes use."""


class Checks(Protocol):
    """What is asked of the store; `tiers.upkeep.vitals.Vitals` satisfies it."""

    async def ready(self) -> Vital:
        """OK when this process can serve now: the database answers and the default tier has a write quorum."""

    async def cluster(self) -> Vital:
        """OK with full redundancy, DEGRADED while reads and writes go on without it, else UNAVAILABLE."""


def add_health(application: Starlette, checks: Checks) -> None:
    """Add the health routes: GET and HEAD, 200 while requests can be served and 503 otherwise."""

    async def live(request: Request) -> Response:
        del request
        return _answer(Vital.OK)

    async def ready(request: Request) -> Response:
        del request
        return _answer(await checks.ready())

    async def cluster(request: Request) -> Response:
        del request
        return _answer(await checks.cluster())

    for prefix in PREFIXES:
        for name, handler in (("live", live), ("ready", ready), ("cluster", cluster)):
            application.add_route(f"{prefix}/{name}", handler, ["GET", "HEAD"], include_in_schema=False)


def health_application(checks: Checks) -> Starlette:
    """The front application of a data worker: health and nothing else; S3 is served beside it."""
    application = Starlette()
    application.router.redirect_slashes = False  # a redirect would answer with whatever host the client named
    add_health(application, checks)
    return application


def _answer(state: Vital) -> Response:
    status = 503 if state is Vital.UNAVAILABLE else 200
    return JSONResponse({"status": state.value}, status, {"cache-control": "no-store"})
