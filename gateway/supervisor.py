"""The processes of one host: started, watched, replaced when they die, reloaded, drained.

The supervisor opens the listening sockets once and hands them on, so that a connection that arrives while a worker is
being replaced waits in the backlog instead of being refused. It serves nothing itself. Every child has a channel (a
socket pair): the supervisor sends the order, the child says when it serves, and the end of either side is seen by the
other, so that nobody outlives the supervisor.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import gateway
from gateway.app.process import Order, encode_order
from gateway.app.store import metrics_folder
from gateway.settings.sources import SettingsRefused
from gateway.settings.tree import Settings
from gateway.telemetry.exposition import forget_process, prepare_folder
from gateway.telemetry.families import Families

logger = logging.getLogger(__name__)

BACKOFF_SECONDS_MIN: Final = 0.1
BACKOFF_SECONDS_MAX: Final = 5.0
"""Rest before a process that died is replaced; doubles with each death within `STABLE_SECONDS` of its start."""

STABLE_SECONDS: Final = 10.0
KILL_SECONDS: Final = 5.0
"""After the drain time: so long until a process is killed."""

START_SECONDS_MAX: Final = 120.0
"""A child that does not serve after so long is counted as failed."""

FILE_DESCRIPTORS: Final = 65536
CHILD_CODE: Final = "import sys; from gateway.app.process import run; run(int(sys.argv[1]))"


class StartFailed(Exception):
    """A process ended before it served for the first time; its own log says why."""


def open_listener(host: str, port: int, backlog: int) -> socket.socket:
    """A listening socket to hand on. Errors: StartFailed when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise StartFailed(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return listener


@dataclass(slots=True)
class Post:
    """One process that has to run, whoever fills it at the moment."""

    role: str
    index: int
    listener: socket.socket
    process: asyncio.subprocess.Process | None = None
    is_wanted: bool = True
    is_replaced: bool = False
    serving: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """Name in logs and metrics."""
        return f"worker-{self.index}" if self.role == "worker" else self.role

    def terminate(self) -> None:
        """Ask the process to drain."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process at once."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)


class Supervisor:
    """Runs the processes of `settings` until told to stop. `load` reads the settings anew for a reload."""

    def __init__(
        self,
        settings: Settings,
        load: Callable[[], Settings],
        on_serving: Callable[[str, str], None],
        hold: int,
    ) -> None:
        """`on_serving` is called once, with the URLs of the S3 and the admin port, when everything serves.

        `hold` is the descriptor of the store's lock; every process keeps it open until it ends.
        """
        self._hold = hold
        self._settings = settings
        self._load = load
        self._on_serving = on_serving
        self._posts: dict[str, Post] = {}
        self._keepers: dict[str, asyncio.Task[None]] = {}
        self._is_serving = False
        self._stop = asyncio.Event()
        self._failure: StartFailed | None = None
        self._reloading = asyncio.Lock()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then drain. Errors: StartFailed."""
        server = self._settings.server
        folder = metrics_folder(self._settings)
        prepare_folder(folder)
        self._restarts = Families(folder, "supervisor").process_restarts
        for role in ("worker", "control"):
            self._restarts.labels(role)  # a counter that appears with its first event has no rate
        _raise_descriptor_limit()
        self._data = open_listener(server.host, server.port, server.backlog)
        self._admin = open_listener(server.admin_host, server.admin_port, 128)
        self._hear_signals()
        try:
            for index in range(server.worker_count):
                self._add(Post("worker", index, self._data))
            self._add(Post("control", 0, self._admin))
            await self._until_serving()
            await self._stop.wait()
        finally:
            await self._drain()
            self._data.close()
            self._admin.close()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Drain and end; a second call ends what still drains."""
        if self._stop.is_set():
            for post in self._posts.values():
                post.kill()
        self._stop.set()

    def _hear_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        reloads: set[asyncio.Task[None]] = set()

        def reload() -> None:
            task = asyncio.ensure_future(self.reload())
            reloads.add(task)
            task.add_done_callback(reloads.discard)

        loop.add_signal_handler(signal.SIGHUP, reload)

    async def _until_serving(self) -> None:
        everybody = asyncio.gather(*[post.serving.wait() for post in self._posts.values()])
        await first_of(everybody, self._stop.wait())
        if not self._stop.is_set():
            self._is_serving = True
            scheme = "https" if self._settings.server.certificate else "http"
            self._on_serving(_url(scheme, self._data), _url("http", self._admin))
            notify_manager("READY=1")

    def _add(self, post: Post) -> None:
        self._posts[post.name] = post
        self._keepers[post.name] = asyncio.ensure_future(self._keep(post))

    async def _keep(self, post: Post) -> None:
        """Keep one post filled."""
        clock = asyncio.get_running_loop().time
        delay = BACKOFF_SECONDS_MIN
        while post.is_wanted and not self._stop.is_set():
            began = clock()
            code = await self._fill(post)
            forget_process(metrics_folder(self._settings), post.name)
            was_serving = post.serving.is_set()
            post.serving.clear()
            if not post.is_wanted or self._stop.is_set():
                return
            if post.is_replaced:
                post.is_replaced = False
                continue
            logger.error("%s ended with %d, starting another", post.name, code)
            self._restarts.labels(post.role).inc()
            if not self._is_serving and not was_serving:
                self._failure = StartFailed(f"{post.name} ended with {code} before it served")
                self._stop.set()
                return
            delay = BACKOFF_SECONDS_MIN if clock() - began > STABLE_SECONDS else min(delay * 2, BACKOFF_SECONDS_MAX)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), delay)

    async def _fill(self, post: Post) -> int:
        """Start a process for the post and wait until it ends; its exit code, -1 when it could not be started."""
        ours, theirs = socket.socketpair()
        order = Order(post.role, post.index, post.listener.fileno(), self._settings)
        try:
            post.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", CHILD_CODE, str(theirs.fileno())),
                pass_fds=(theirs.fileno(), post.listener.fileno(), self._hold),
                stdin=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(),
            )
        except OSError as error:
            logger.error("%s cannot be started: %s", post.name, error)
            ours.close()
            return -1
        finally:
            theirs.close()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        watch = asyncio.ensure_future(_watch(reader, writer, order, post))
        try:
            return await post.process.wait()
        finally:
            watch.cancel()
            writer.close()

    async def reload(self) -> None:
        """Read the settings anew and replace every process, one after the other, each drained first.

        Wrong settings are logged and change nothing. Addresses and the data directory stay until a restart.
        """
        async with self._reloading:
            try:
                fresh = self._load()
            except SettingsRefused as error:
                logger.error("reload refused, nothing changed: %s", "; ".join(error.lines))
                return
            if fresh.data != self._settings.data or fresh.metadata_url != self._settings.metadata_url:
                logger.error("reload refused, nothing changed: data and database_url need a restart")
                return
            logger.info("reloading")
            self._settings = fresh
            count = fresh.server.worker_count
            for post in [post for post in self._posts.values() if post.role == "worker" and post.index >= count]:
                await self._remove(post)
            for post in list(self._posts.values()):
                await self._replace(post)
            for index in range(count):
                if f"worker-{index}" not in self._posts:
                    self._add(Post("worker", index, self._data))
            logger.info("reloaded")

    async def _replace(self, post: Post) -> None:
        """Drain the process of a post, then wait until its successor serves."""
        if self._stop.is_set():
            return
        post.is_replaced = True
        post.terminate()
        post.serving.clear()  # the successor sets it again
        process = post.process
        while process is not None and process.returncode is None and not self._stop.is_set():
            await self._end_of(process, post)
        await first_of(post.serving.wait(), self._stop.wait())

    async def _remove(self, post: Post) -> None:
        post.is_wanted = False
        post.terminate()
        await self._end_of_keepers([self._keepers.pop(post.name)])
        del self._posts[post.name]

    async def _end_of(self, process: asyncio.subprocess.Process, post: Post) -> None:
        try:
            await asyncio.wait_for(process.wait(), self._settings.limits.drain_seconds + KILL_SECONDS)
        except TimeoutError:
            logger.error("%s did not drain in time, killed", post.name)
            post.kill()

    async def _drain(self) -> None:
        """Ask every process to drain, and kill what has not ended in time."""
        notify_manager("STOPPING=1")
        for post in self._posts.values():
            post.terminate()
        await self._end_of_keepers(list(self._keepers.values()))

    async def _end_of_keepers(self, keepers: list["asyncio.Task[None]"]) -> None:
        limit = self._settings.limits.drain_seconds + KILL_SECONDS
        _, late = await asyncio.wait(keepers, timeout=limit) if keepers else (None, set())
        if late:
            for post in self._posts.values():
                post.kill()
            await asyncio.wait(late)


async def first_of(*waits: Awaitable[object]) -> None:
    """Return when the first of several waits is over; the others are cancelled."""
    futures = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    for future in futures:
        future.cancel()


async def _watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, order: Order, post: Post) -> None:
    """Give the order and wait for the word that the process serves; one that never says so is killed."""
    writer.write(encode_order(order))
    try:
        line = await asyncio.wait_for(reader.readline(), START_SECONDS_MAX)
    except TimeoutError:
        logger.error("%s does not serve after %.0f s, killed", post.name, START_SECONDS_MAX)
        post.kill()
        return
    except OSError:
        return  # it ended; its exit code says so
    if line == b"serving\n":
        post.serving.set()


def _url(scheme: str, listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _environment() -> dict[str, str]:
    """The child's environment. Without the package's root a checkout would only work when it is installed."""
    root = str(Path(gateway.__file__).resolve().parents[1])
    earlier = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{earlier}" if earlier else root}


def _raise_descriptor_limit() -> None:
    """As many descriptors as the host allows; the usual 1,024 is fewer than one worker's connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILE_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(FILE_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def notify_manager(state: str) -> None:
    """Tell the service manager (systemd, Type=notify); nothing without one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(state.encode(), f"\0{address[1:]}" if address.startswith("@") else address)
