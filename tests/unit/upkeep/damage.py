"""Damage to fragments and pack copies, and what is left of them, for the tests of repair."""

from collections.abc import Mapping
from contextlib import suppress

from metadata.tables import BLOB, REPAIR
from metadata.types import Blob, BlobKind, Repair
from tests.audit import all_rows
from tests.world import World
from tiers.devices.contract import Area
from tiers.devices.interception import InterceptedDevice
from tiers.errors import FragmentNotFound
from tiers.upkeep.reports import NoteRepair
from tiers.upkeep.sweeps import files_of

LARGE = bytes(range(256)) * 2000
"""Four stripes of 128 KiB, the last one short."""


async def queue(world: World) -> list[Repair]:
    """The repair queue, everything reported by now in it."""
    await world.cursors.save("barrier", b"")
    return await all_rows(world.reader, REPAIR)


async def enter(world: World, blob: Blob, *indexes: int, reason: str = "missing") -> None:
    """Put fragments into the queue."""
    for index in indexes:
        await world.committer.submit(NoteRepair(blob.blob_id, index, reason))


async def row_of(world: World, blob: Blob) -> Blob:
    """The blob's row as it is now."""
    row = await world.reader.get_row(BLOB, (blob.blob_id,))
    assert row is not None
    return row


async def striped_blobs(world: World) -> list[Blob]:
    return [blob for blob in await all_rows(world.reader, BLOB) if blob.kind == BlobKind.STRIPED]


def places(blob: Blob) -> list[tuple[str, Area, str]]:
    """Device, area and name of every file of a blob, by index."""
    return list(files_of(blob))


def content_of(world: World, device_id: str, area: Area, name: str) -> bytes | None:
    """A file's bytes, None when it is not there; asked beneath every planned fault."""
    device: InterceptedDevice = world.devices[device_id]
    with suppress(FragmentNotFound):
        file = device._inner.open(area, name)
        buffer = bytearray(file.size)
        file.read_into(0, memoryview(buffer))
        file.close()
        return bytes(buffer)
    return None


def contents_of(world: World, blob: Blob) -> dict[int, bytes | None]:
    """The bytes of every fragment or copy, by index."""
    return {index: content_of(world, *place) for index, place in enumerate(places(blob))}


def delete(world: World, blob: Blob, *indexes: int) -> None:
    for index in indexes:
        device_id, area, name = places(blob)[index]
        world.devices[device_id]._inner.delete(area, name)


def flip(world: World, blob: Blob, index: int, offset: int) -> None:
    """Change one byte where it lies."""
    device_id, area, name = places(blob)[index]
    raw = bytearray(content_of(world, device_id, area, name) or b"")
    raw[offset] ^= 0x55
    world.devices[device_id]._inner.store(area, name, bytes(raw))


def wipe(world: World, device_id: str) -> None:
    """Lose everything on a device."""
    device = world.devices[device_id]._inner
    for area in Area:
        for found in list(device.survey(area)):
            device.delete(area, found.name)


def quarantined(world: World) -> Mapping[str, str]:
    """Name to device of every file set aside."""
    return {name: device_id for device_id, name in world.files(Area.QUARANTINE)}
