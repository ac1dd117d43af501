"""The private names of uvicorn and httptools that the protocol class rests on, and the check that they are still there.

The versions are pinned in `pyproject.toml`; `tests/contract/test_uvicorn_private.py` touches every name and behaviour.
"""

import asyncio
import logging
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final, cast

import httptools
from uvicorn import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

log = logging.getLogger("isotherm.http")

TESTED_VERSIONS: Final = {"uvicorn": "0.54.0", "httptools": "0.9.0", "uvloop": "0.23.0"}

PRIVATE_NAMES: Final = (
    # state of a connection
    *("url", "headers", "scope", "parser", "transport", "loop", "flow", "cycle", "pipeline", "config"),
    *("server_state", "connections", "tasks", "timeout_keep_alive_task", "limit_concurrency", "client", "scheme"),
    *("expect_100_continue", "app_state"),
    # callbacks and hooks
    *("_unset_keepalive_if_required", "_should_upgrade", "on_message_begin", "on_url", "on_header"),
    *("on_headers_complete", "on_body", "on_message_complete", "on_response_complete", "data_received"),
    *("connection_made", "connection_lost", "eof_received", "shutdown", "pause_writing", "resume_writing"),
)
CYCLE_NAMES: Final = (
    "transport",
    "flow",
    "disconnected",
    "keep_alive",
    "message_event",
    "response_complete",
    "more_body",
)
FLOW_NAMES: Final = ("read_paused", "write_paused", "pause_reading", "resume_reading", "pause_writing", "drain")
STATE_NAMES: Final = ("connections", "tasks", "total_requests", "default_headers")
PARSER_NAMES: Final = ("feed_data", "get_method", "should_keep_alive", "should_upgrade", "get_http_version")


async def _no_application(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI's own types are Any
    """Never called."""


def private_api_differences() -> list[str]:
    """Everything that is not as it was tested, in words; empty when the fast lane may run."""
    found = [f"{name} is {_installed(name)}, tested with {tested}" for name, tested in TESTED_VERSIONS.items()]
    found = [
        text for text, name in zip(found, TESTED_VERSIONS, strict=True) if _installed(name) != TESTED_VERSIONS[name]
    ]
    state = ServerState()
    # The constructor only stores the loop; no loop has to exist yet when the gateway starts.
    loop = cast("asyncio.AbstractEventLoop", object())
    protocol = HttpToolsProtocol(Config(_no_application, lifespan="off", log_config=None), state, {}, loop)
    owners: tuple[tuple[object, tuple[str, ...]], ...] = (
        (protocol, tuple(name for name in PRIVATE_NAMES if name not in ("url",))),
        (state, STATE_NAMES),
        (httptools.HttpRequestParser, PARSER_NAMES),
        (FlowControl, tuple(name for name in FLOW_NAMES if not name.endswith("_paused"))),
    )
    for owner, names in owners:
        found += [f"{owner!r} has no {name}" for name in names if not hasattr(owner, name)]
    stored = RequestResponseCycle.__init__.__code__.co_names
    found += [f"RequestResponseCycle stores no {name}" for name in CYCLE_NAMES if name not in stored]
    return found


def private_api_intact() -> bool:
    """Whether the fast lane may run. Says once what differs; everything goes through ASGI then."""
    differences = private_api_differences()
    if differences:
        log.warning("the fast lane is off, all requests take ASGI: %s", "; ".join(differences))
    return not differences


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
