"""`isotherm doctor`: looks at everything a start needs, says what is wrong and what to do. Changes nothing."""

import asyncio
import os
import resource
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from mmap import mmap
from pathlib import Path
from typing import Final

from gateway.app.store import default_catalogue, open_store_metadata, stored_catalogue
from gateway.http.private import private_api_differences
from gateway.settings.first_start import MASTER_KEY_FILE, folder_of
from gateway.settings.tree import Settings
from metadata.errors import StorageError
from tiers.catalogue import Catalogue
from tiers.datapath import md5
from tiers.erasure.codec import isal

PAGE_BYTES: Final = 4096
FREE_RATIO_LOW: Final = 0.05
VOLATILE: Final = frozenset({"tmpfs", "ramfs", "overlay"})


class Verdict(StrEnum):
    """What a check found."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `advice` is empty when there is nothing to do."""

    check: str
    verdict: Verdict
    detail: str
    advice: str = ""


def examine(settings: Settings) -> Iterator[Finding]:
    """Every finding, in the order in which a start would meet it."""
    yield Finding(
        "settings", Verdict.OK, f"{settings.server.worker_count} data workers, region {settings.server.region}"
    )
    for check in (_data, _secrets, _database, _file_system, _devices, _kernels, _fast_lane, _ports, _descriptors):
        try:
            yield from check(settings)
        except (OSError, StorageError) as error:
            yield Finding(check.__name__.strip("_"), Verdict.FAIL, str(error), "see the error; repair it and run again")


def _data(settings: Settings) -> Iterator[Finding]:
    data = settings.data.absolute()
    if not data.exists():
        parent = next(folder for folder in data.parents if folder.exists())
        yield _judged(
            "data", os.access(parent, os.W_OK), f"{data} will be created", f"make {parent} writable for this user"
        )
        return
    writable = os.access(data, os.R_OK | os.W_OK | os.X_OK)
    yield _judged("data", writable, str(data), f"make {data} readable and writable for this user")


def _secrets(settings: Settings) -> Iterator[Finding]:
    folder = folder_of(settings)
    files = [folder / name for name in ("root", "admin", MASTER_KEY_FILE) if (folder / name).exists()]
    open_files = [file for file in files if file.stat().st_mode & 0o077]
    if open_files:
        names = " ".join(str(file) for file in open_files)
        yield Finding("secrets", Verdict.FAIL, f"readable by others: {names}", f"chmod 600 {names}")
    elif (folder / MASTER_KEY_FILE).exists():
        yield Finding("secrets", Verdict.OK, "present, readable by the owner only")
    else:
        yield Finding("secrets", Verdict.OK, "generated at first start and printed once")


def _database(settings: Settings) -> Iterator[Finding]:
    if not _database_exists(settings):
        yield Finding("database", Verdict.OK, "SQLite, created at first start")
        return
    if not (folder_of(settings) / MASTER_KEY_FILE).exists():
        yield Finding(
            "database", Verdict.FAIL, "there is a database but no master key", "restore secrets/master from your backup"
        )
    try:
        metadata = open_store_metadata(settings)
        metadata.check()
    except StorageError as error:
        yield Finding("database", Verdict.FAIL, str(error), "start the database, or mend its settings as said")
        return
    yield Finding("database", Verdict.OK, f"{metadata.dialect}, durability settings as promised")


def _file_system(settings: Settings) -> Iterator[Finding]:
    folder = _existing(settings.data.absolute())
    kind = _file_system_of(folder)
    if kind in VOLATILE:
        yield Finding(
            "file system", Verdict.WARN, f"{folder} is on {kind}", "use a disk: what is here dies with the host"
        )
    else:
        yield Finding("file system", Verdict.OK, f"{folder} is on {kind}")
    space = os.statvfs(folder)
    free = space.f_bavail / space.f_blocks if space.f_blocks else 0.0
    if free < FREE_RATIO_LOW:
        yield Finding("space", Verdict.WARN, f"{free:.1%} free", "make room: writes are refused below the reserve")
    else:
        yield Finding("space", Verdict.OK, f"{free:.1%} free")
    if os.access(folder, os.W_OK):
        works = _takes_direct_io(folder)
        advice = "" if works else "use ext4 or XFS: without O_DIRECT writes of large objects cost more CPU"
        yield Finding("direct I/O", Verdict.OK if works else Verdict.WARN, "works" if works else "refused", advice)


def _devices(settings: Settings) -> Iterator[Finding]:
    catalogue = default_catalogue(settings)
    if _database_exists(settings):
        catalogue = asyncio.run(_stored(settings))
    for tier in catalogue.tiers():
        yield from _tier(catalogue, tier.name)


async def _stored(settings: Settings) -> Catalogue:
    reader = await open_store_metadata(settings).open_reader()
    try:
        return (await stored_catalogue(settings, reader))[0]
    finally:
        await reader.close()


def _tier(catalogue: Catalogue, tier: str) -> Iterator[Finding]:
    folders = [Path(device.location) for device in catalogue.devices(tier) if device.kind == "directory"]
    present = [folder for folder in folders if folder.exists()]
    name = f"tier {tier}"
    if present and len(present) < len(folders):
        gone = ", ".join(str(folder) for folder in folders if not folder.exists())
        yield Finding(name, Verdict.FAIL, f"missing: {gone}", "mount the device; its fragments are repaired otherwise")
    disks = {_existing(folder).stat().st_dev for folder in folders}
    if len(folders) > 1 and len(disks) == 1:
        yield Finding(
            name,
            Verdict.WARN,
            f"{len(folders)} devices on one disk",
            "losing that disk loses the tier: spread the devices",
        )
    else:
        yield Finding(name, Verdict.OK, f"{len(folders)} devices on {len(disks)} disks")


def _kernels(settings: Settings) -> Iterator[Finding]:
    del settings
    if isal() is None:
        yield Finding("erasure coding", Verdict.WARN, "pyeclib, copying", "install pyeclib's wheel: it brings ISA-L")
    else:
        yield Finding("erasure coding", Verdict.OK, "ISA-L, in place")
    if md5.installed() is None:
        yield Finding("MD5", Verdict.WARN, md5.describe(), "install with a C compiler present, or a binary wheel")
    else:
        yield Finding("MD5", Verdict.OK, md5.describe())


def _fast_lane(settings: Settings) -> Iterator[Finding]:
    if not settings.server.fast_lane:
        yield Finding("fast lane", Verdict.WARN, "switched off", "set server.fast_lane = true")
        return
    differences = private_api_differences()
    if differences:
        yield Finding(
            "fast lane", Verdict.WARN, "; ".join(differences), "install the pinned versions of pyproject.toml"
        )
    else:
        yield Finding("fast lane", Verdict.OK, "as tested")


def _ports(settings: Settings) -> Iterator[Finding]:
    server = settings.server
    for host, port in ((server.host, server.port), (server.admin_host, server.admin_port)):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                detail = f"{host}:{port}: {error.strerror}"
                yield Finding(
                    "port", Verdict.WARN, detail, "fine if Isotherm runs; else stop who has it, or set another"
                )
            else:
                yield Finding("port", Verdict.OK, f"{host}:{port} is free")


def _descriptors(settings: Settings) -> Iterator[Finding]:
    del settings
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    is_enough = hard == resource.RLIM_INFINITY or hard >= 8192
    verdict = Verdict.OK if is_enough else Verdict.WARN
    yield Finding("descriptors", verdict, f"limit {hard}", "" if is_enough else "raise LimitNOFILE to 65536")


def _judged(check: str, is_good: object, detail: str, advice: str) -> Finding:
    return Finding(check, Verdict.OK, detail) if is_good else Finding(check, Verdict.FAIL, detail, advice)


def _database_exists(settings: Settings) -> bool:
    return not settings.is_embedded or (settings.data / "metadata.db").exists()


def _existing(path: Path) -> Path:
    """The path or its nearest ancestor that exists."""
    return path if path.exists() else next(folder for folder in path.parents if folder.exists())


def _takes_direct_io(folder: Path) -> bool:
    """Whether a file of the folder can be written past the page cache."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".isotherm-doctor-") as file, mmap(-1, PAGE_BYTES) as page:
        try:
            descriptor = os.open(file.name, os.O_WRONLY | os.O_DIRECT)
        except OSError:
            return False
        try:
            return os.write(descriptor, page) == PAGE_BYTES
        except OSError:
            return False
        finally:
            os.close(descriptor)


def _file_system_of(folder: Path) -> str:
    """Type of the file system that holds the folder, by the longest mount point above it."""
    best, kind = "", "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, found, *_ = line.split(" ")
        if folder.is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, found
    return kind
