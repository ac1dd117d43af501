"""One child process of the supervisor: takes its order, serves until told to stop, drains.

The channel is a socket: one line of JSON from the supervisor, `serving` back, and then silence. Its end means that the
supervisor is gone, and is answered like SIGTERM.
"""

import asyncio
import contextlib
import gc
import json
import logging
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import uvicorn
import uvloop
from starlette.types import ASGIApp

from gateway.app.accepting import Acceptor
from gateway.http.asgi import UVICORN_OPTIONS
from gateway.http.limits import Limits
from gateway.settings.sources import dump_settings, parse_settings
from gateway.settings.tree import Settings
from gateway.telemetry.logs import configure_logs

logger = logging.getLogger(__name__)

ORDER_BYTES_MAX: Final = 1 << 20
TLS_DEADLINES: Final = {"ssl_handshake_timeout": 10.0, "ssl_shutdown_timeout": 5.0}
"""Seconds. The second bounds how long a client that does not answer a close holds up a drain."""

GC_THRESHOLDS: Final = (50_000, 20, 20)
"""Young garbage is looked at less often; what start-up made is never looked at again."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a child has to be. `listener` is the inherited descriptor of its listening socket."""

    role: str
    index: int
    listener: int
    settings: Settings

    @property
    def name(self) -> str:
        """Name in logs and metrics."""
        return f"worker-{self.index}" if self.role == "worker" else self.role


def encode_order(order: Order) -> bytes:
    """The order as one line."""
    members = {"role": order.role, "index": order.index, "listener": order.listener}
    return json.dumps({**members, "settings": dump_settings(order.settings)}).encode() + b"\n"


def decode_order(line: bytes) -> Order:
    """Inverse of `encode_order`."""
    members = json.loads(line)
    return Order(members["role"], members["index"], members["listener"], parse_settings(members["settings"]))


class Channel:
    """The child's end of the channel."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def take_order(self) -> Order:
        """Wait for the order. Errors: EOFError when the supervisor is gone."""
        with self._socket.makefile("rb") as file:
            line = file.readline(ORDER_BYTES_MAX)
        if not line.endswith(b"\n"):
            raise EOFError("the supervisor is gone")
        self._socket.settimeout(0)
        return decode_order(line)

    def say_serving(self) -> None:
        """Tell the supervisor that connections are accepted."""
        with contextlib.suppress(OSError):
            self._socket.send(b"serving\n")

    def on_end(self, act: Any) -> None:  # noqa: ANN401  # a plain callback of the loop
        """Call `act` when the supervisor is gone."""
        loop = asyncio.get_running_loop()

        def ended() -> None:
            loop.remove_reader(self._socket)
            act()

        loop.add_reader(self._socket, ended)


class Server(uvicorn.Server):
    """uvicorn's server on an inherited socket, with our way to accept, our signals and our word when it serves."""

    def __init__(self, config: uvicorn.Config, channel: Channel, listener: socket.socket) -> None:
        super().__init__(config)
        self._channel = channel
        self._listener = listener
        self._acceptor = Acceptor(listener, self._take)
        self._joining: set[asyncio.Task[object]] = set()
        has_tls = config.ssl_certfile is not None
        self._deadlines: dict[str, float] = dict(TLS_DEADLINES) if has_tls else {}

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are heard by the process, from before there is a server."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, and say so."""
        await super().startup(sockets=[])
        self._acceptor.start()
        self._channel.say_serving()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, then drain as uvicorn does: what was accepted before is answered."""
        await asyncio.to_thread(self._acceptor.stop)
        self._listener.close()
        await super().shutdown(sockets=[])

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.ensure_future(self._join(connection))
        self._joining.add(task)
        task.add_done_callback(self._joining.discard)

    async def _join(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(self._make_protocol, connection, ssl=self.config.ssl, **self._deadlines)
        except (OSError, ssl.SSLError) as error:  # the client is gone already, or speaks no TLS
            logger.debug("connection lost before its first request: %s", error)
            connection.close()

    def _make_protocol(self) -> asyncio.Protocol:
        """A protocol as uvicorn's own `startup` makes it."""
        http_class: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = http_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


class Process:
    """The life of a child: from its order to the end of its drain."""

    def __init__(self, channel: Channel, order: Order) -> None:
        self.order = order
        self.settings = order.settings
        self._channel = channel
        self._server: Server | None = None
        self._is_stopping = False

    def hear(self) -> None:
        """Listen to SIGTERM and to the end of the supervisor; call on the loop, before anything is opened."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stop)
        self._channel.on_end(self.stop)

    def stop(self) -> None:
        """Drain: no new connection, every request in flight is answered."""
        self._is_stopping = True
        if self._server is not None:
            self._server.should_exit = True

    async def serve(self, application: ASGIApp, http_class: type[asyncio.Protocol], *, is_data: bool) -> None:
        """Accept connections until `stop`, then drain for at most `limits.drain_seconds`."""
        limits, server = self.settings.limits, self.settings.server
        has_tls = is_data and server.certificate is not None
        options: dict[str, Any] = dict(UVICORN_OPTIONS)
        config = uvicorn.Config(
            application,
            http=http_class,
            loop="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            backlog=server.backlog,
            timeout_keep_alive=int(limits.idle_seconds),
            timeout_graceful_shutdown=int(limits.drain_seconds),
            ssl_certfile=str(server.certificate) if has_tls else None,
            ssl_keyfile=str(server.private_key) if has_tls else None,
            **options,
        )
        self._server = Server(config, self._channel, socket.socket(fileno=self.order.listener))
        self._server.should_exit = self._is_stopping
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        await self._server.serve()


def connection_limits(settings: Settings) -> Limits:
    """The limits of one connection."""
    limits = settings.limits
    return Limits(
        header_block_bytes=limits.header_block_bytes,
        header_count=limits.header_count,
        target_bytes=limits.header_block_bytes // 2,
        header_seconds=limits.header_seconds,
        idle_seconds=limits.idle_seconds,
        body_silence_seconds=limits.body_silence_seconds,
        body_rate_bytes=limits.body_rate_bytes,
        send_silence_seconds=limits.send_silence_seconds,
        vigil_seconds=limits.vigil_seconds,
    )


def run(descriptor: int) -> None:
    """Entry point of every child process."""
    channel = Channel(descriptor)
    try:
        order = channel.take_order()
    except EOFError:
        return
    configure_logs(order.settings.log_level, order.name)
    if order.role == "worker":
        from gateway.app.worker import run_worker as run_role
    else:
        from gateway.app.control import run_control as run_role
    process = Process(channel, order)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_role(process))
    except Exception:
        logger.exception("%s cannot go on", order.name)
        sys.exit(1)
