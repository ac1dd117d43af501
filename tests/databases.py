"""Real databases for tests: SQLite files, and PostgreSQL from Debian's packages on a free loopback port.

One server a pytest session (one a worker under xdist), flushing as in production; a fresh database for each test.
`ISOTHERM_TEST_POSTGRES_URL` names a server to use instead, as a user who may create databases. PostgreSQL refuses to
run as root: then it runs as the user `postgres`, created when missing.
"""

import asyncio
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy.engine import URL, make_url

from metadata.contract import Metadata, Writer
from metadata.session import open_metadata

SERVER_USER = "postgres"
STOP_SECONDS_MAX = 120  # a busy disk takes long over a shutdown checkpoint
# What flushes (fsync, synchronous_commit) stays at the server's default, which is on, and can be altered by a test.
SETTINGS = {
    "shared_buffers": "32MB",
    "max_connections": "100",
    # Recovery after `crash` flushes every file of every test's database: one by one that took 80 s on a busy disk.
    "recovery_init_sync_method": "syncfs",
}


def find_binaries() -> Path | None:
    """Folder of the newest installed server, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


def _as_server_user(*command: str | Path) -> list[str]:
    if os.geteuid() != 0:
        return list(map(str, command))
    user = pwd.getpwnam(SERVER_USER)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *map(str, command)]


def _ensure_server_user() -> None:
    try:
        pwd.getpwnam(SERVER_USER)
    except KeyError:
        subprocess.run(["useradd", "--system", "--shell", "/bin/sh", SERVER_USER], check=True)


class PostgresServer:
    """A server of our own, or the one that the environment names; databases are dropped with the first."""

    def __init__(self, admin_url: URL, folder: Path | None = None, binaries: Path | None = None) -> None:
        self._admin_url = admin_url
        self._folder = folder
        self._binaries = binaries
        self._names = itertools.count(1)

    @classmethod
    def start(cls, binaries: Path) -> "PostgresServer":
        """A new cluster in a folder of its own under the temporary directory."""
        folder = Path(tempfile.mkdtemp(prefix="isotherm-postgresql-"))
        if os.geteuid() == 0:
            _ensure_server_user()
            shutil.chown(folder, SERVER_USER)
        # A locale whose order is not bytewise, as most installations have it.
        locale = ["--encoding", "UTF8", "--locale", "C.UTF-8", "--locale-provider", "icu", "--icu-locale", "en"]
        options = ["--username", SERVER_USER, "--auth", "trust", "--no-sync", *locale]
        _run(_as_server_user(binaries / "initdb", "--pgdata", folder / "data", *options))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        url = URL.create("postgresql", SERVER_USER, host="127.0.0.1", port=port, database="postgres")
        server = cls(url, folder, binaries)
        server._control("start")
        return server

    @property
    def is_ours(self) -> bool:
        """Whether the server may be crashed and restarted."""
        return self._folder is not None

    def _control(self, verb: str, *options: str) -> None:
        assert self._folder is not None
        assert self._binaries is not None
        settings = {**SETTINGS, "listen_addresses": "127.0.0.1", "port": str(self._admin_url.port)}
        settings["unix_socket_directories"] = str(self._folder)
        arguments = " ".join(f"-c {name}={value}" for name, value in settings.items())
        options = (*options, "--options", arguments) if verb != "stop" else options
        common = ["--pgdata", str(self._folder / "data"), "--wait", "--timeout", str(STOP_SECONDS_MAX), "--silent"]
        log = ["--log", str(self._folder / "log")] if verb != "stop" else []
        _run(_as_server_user(self._binaries / "pg_ctl", verb, *common, *log, *options))

    def crash(self) -> None:
        """Kill every process of the server at once, without a checkpoint, and start it again."""
        self._control("stop", "--mode", "immediate")
        self._control("start")

    def restart(self) -> None:
        """Stop and start in order, so that every setting is read anew."""
        self._control("restart", "--mode", "fast")

    def stop(self) -> None:
        """Stop the server and delete its cluster."""
        if self._folder is not None:
            self._control("stop", "--mode", "immediate")
            shutil.rmtree(self._folder)

    def execute(self, statement: str, database: str | None = None) -> None:
        """Run one statement outside any transaction, as the administrator."""
        url = self._admin_url.set(database=database or self._admin_url.database)

        async def run() -> None:
            connection = await asyncpg.connect(url.render_as_string(hide_password=False))
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        asyncio.run(run())

    def create_database(self, like: str | None = None) -> str:
        """A fresh database, empty or a copy of one that nobody uses; its URL."""
        name = f"isotherm_test_{os.getpid()}_{next(self._names)}"
        template = f' template "{make_url(like).database}"' if like else ""
        self.execute(f'create database "{name}"{template}')
        return self._admin_url.set(database=name).render_as_string(hide_password=False)

    def drop_database(self, url: str) -> None:
        """Drop a database whoever is still connected. Those of our own server go with the server."""
        if not self.is_ours:
            self.execute(f'drop database "{make_url(url).database}" with (force)')


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's PostgreSQL server."""
    named = os.environ.get("ISOTHERM_TEST_POSTGRES_URL")
    if named:
        yield PostgresServer(make_url(named))
        return
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (no /usr/lib/postgresql/*/bin/initdb)")
    server = PostgresServer.start(binaries)
    yield server
    server.stop()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """URL of a fresh, empty database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path}/isotherm.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """URL of a fresh, empty database of either kind."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture(scope="session")
def migrated_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database at the newest schema, to copy: a copy costs a fifth of a migration."""
    url = postgres_server.create_database()
    open_metadata(url).migrate()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def migrated_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """URL of a fresh database of either kind at the newest schema."""
    if request.param == "sqlite":
        url: str = request.getfixturevalue("sqlite_url")
        open_metadata(url).migrate()
        yield url
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.create_database(like=request.getfixturevalue("migrated_postgres_url"))
    yield url
    server.drop_database(url)


@pytest.fixture
def metadata(migrated_url: str) -> Metadata:
    """A fresh database of either kind at the newest schema."""
    return open_metadata(migrated_url)


@pytest.fixture
def writer(metadata: Metadata) -> Iterator[Writer]:
    """A writer of `metadata`."""
    opened = metadata.open_writer()
    yield opened
    opened.close()
