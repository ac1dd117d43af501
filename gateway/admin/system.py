"""The store as a whole: facts, metrics, the API's own description."""

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool

from gateway.admin.services import Serving
from gateway.telemetry.exposition import CONTENT_TYPE


async def show_info(services: Serving) -> dict[str, str | int]:
    """Version, processes and settings that matter to an operator."""
    return dict(services.facts)


async def show_metrics(services: Serving) -> Response:
    """The metrics of all processes of this host in the Prometheus text format."""
    return Response(await run_in_threadpool(services.expose), media_type=CONTENT_TYPE)


async def show_openapi(request: Request) -> Response:
    """This API as an OpenAPI document."""
    return JSONResponse(request.app.openapi())
