"""The admin application: the gate that admits, and FastAPI behind it with exactly the routes of the table."""

import logging
import re
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from gateway.admin.access import Gatekeeper, Scope
from gateway.admin.health import PREFIXES, Checks, add_health
from gateway.admin.problems import MEDIA_TYPE, Problem, problem_response
from gateway.admin.routes import ROUTES, Route
from gateway.admin.services import Services
from tiers.errors import MetadataUnavailable, StorageError, StoreBusy

logger = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 1 << 20
"""The largest admin document is a fraction of this."""

_PROBLEM_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"description": text, "content": {MEDIA_TYPE: {}}}
    for status, text in ((400, "Refused."), (401, "No valid token."), (403, "The token lacks the scope."))
}


def admin_application(services: Services, gatekeeper: Gatekeeper, checks: Checks, version: str) -> ASGIApp:
    """The application of the admin port."""
    application = FastAPI(
        title="Isotherm admin API", version=version, docs_url=None, redoc_url=None, openapi_url=None,
        exception_handlers=_HANDLERS, redirect_slashes=False,
    )  # fmt: skip
    application.state.services = services
    for route in ROUTES:
        application.add_api_route(
            route.path,
            route.handler,
            methods=[route.method],
            status_code=route.status,
            responses=_PROBLEM_ANSWERS,
            openapi_extra={"x-scope": route.scope.value, "security": [{"bearer": []}]},
        )
    add_health(application, checks)
    _describe_security(application)
    return Gate(application, gatekeeper, services.new_id)


class Gate:
    """Stands before everything: health passes, all else needs a token with the scope of its route, and a bounded body.

    The decision is made from the table of routes before the body is read, so that nobody without the right makes the
    process read or parse anything. What the table does not name is answered here and never reaches the application: its
    router may read a path otherwise than the table does (Starlette's lets a line feed follow a whole path).
    """

    def __init__(self, application: ASGIApp, gatekeeper: Gatekeeper, new_id: Callable[[], bytes]) -> None:
        self._application = application
        self._gatekeeper = gatekeeper
        self._new_id = new_id
        self._open_paths = frozenset(f"{prefix}/{name}" for prefix in PREFIXES for name in ("live", "ready", "cluster"))

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http" or scope["path"] in self._open_paths:
            await self._application(scope, receive, send)
            return
        request = Request(scope)
        request.state.request_id = self._new_id().hex()
        try:
            self._admit(request)
        except Problem as problem:
            await problem_response(problem, request.state.request_id)(scope, receive, send)
            return
        await self._application(scope, receive, send)

    def _admit(self, request: Request) -> None:
        source = request.client.host if request.client else ""
        needed = _scope_of(request.method, request.scope["path"])
        headers = request.headers.getlist("authorization")
        if len(headers) > 1:
            raise Problem(400, "HeaderRepeated", "The Authorization header occurs more than once.")
        token = self._gatekeeper.admit(headers[0] if headers else None, source=source, scope=needed)
        if needed is None:
            raise _not_routed(request.scope["path"])
        request.state.token_name = token.name
        length = request.headers.get("content-length")
        if "transfer-encoding" in request.headers:
            raise Problem(411, "LengthRequired", "A body needs a Content-Length.")
        if length is not None and (not length.isascii() or not length.isdigit() or int(length) > BODY_BYTES_MAX):
            raise Problem(413, "BodyTooLarge", f"A body has at most {BODY_BYTES_MAX} bytes.")


_PATTERNS: Final[Sequence[tuple[re.Pattern[str], Route]]] = tuple(
    (re.compile(re.sub(r"\{[a-z_]+\}", r"[^/\\s]+", route.path.replace("{key:path}", ".+"))), route) for route in ROUTES
)


def _scope_of(method: str, path: str) -> Scope | None:
    """The scope of the route that will serve this, None when none will."""
    for pattern, route in _PATTERNS:
        if pattern.fullmatch(path) and method == route.method:
            return route.scope
    return None


def _not_routed(path: str) -> Problem:
    """The refusal of a method and path that no route has."""
    methods = sorted({route.method for pattern, route in _PATTERNS if pattern.fullmatch(path)})
    if not methods:
        return Problem(404, "NotFound", "The request is not served.")
    return Problem(405, "MethodNotAllowed", "The request is not served.", headers={"allow": ", ".join(methods)})


def _request_id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))


async def _on_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return problem_response(error, _request_id(request))


async def _on_invalid(request: Request, error: Exception) -> Response:
    """Says which member is wrong and why, never what was sent."""
    assert isinstance(error, RequestValidationError)
    faults = [
        {"where": ".".join(str(part) for part in fault["loc"]), "what": str(fault["msg"])[:200]}
        for fault in error.errors()[:20]
    ]
    problem = Problem(422, "RequestInvalid", "The request does not fit its description.", faults=faults)
    return problem_response(problem, _request_id(request))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "NotFound", 405: "MethodNotAllowed"}.get(error.status_code, "Refused")
    problem = Problem(error.status_code, code, "The request is not served.", headers=error.headers)
    return problem_response(problem, _request_id(request))


async def _on_storage(request: Request, error: Exception) -> Response:
    logger.warning("admin request %s: %s", _request_id(request), error)
    is_busy = isinstance(error, StoreBusy | MetadataUnavailable)
    problem = Problem(503, "StoreBusy" if is_busy else "StoreUnavailable", "The store cannot serve this now.")
    problem.headers["retry-after"] = "1"
    return problem_response(problem, _request_id(request))


async def _on_fault(request: Request, error: Exception) -> Response:
    logger.error("admin request %s failed", _request_id(request), exc_info=error)
    return problem_response(Problem(500, "InternalError", "The request failed."), _request_id(request))


_Handler = Callable[[Request, Exception], Coroutine[Any, Any, Response]]
_HANDLERS: Final[dict[int | type[Exception], _Handler]] = {
    Problem: _on_problem,
    RequestValidationError: _on_invalid,
    HTTPException: _on_http,
    StorageError: _on_storage,
    Exception: _on_fault,
}


def _describe_security(application: FastAPI) -> None:
    """Name the bearer scheme in the OpenAPI document; the gate enforces it, not FastAPI."""
    document = application.openapi()
    document.setdefault("components", {})["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
