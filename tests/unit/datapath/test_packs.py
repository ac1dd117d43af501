import asyncio
import mmap
import random
import threading

import pytest
from awscrt.checksums import crc64nvme

from metadata.types import Blob, BlobId, BlobKind, BlobState, Extent
from tests.unit.datapath.parts import Parts, content, opened
from tiers.datapath.contract import ReadPlan
from tiers.devices.contract import Area
from tiers.devices.interception import Operation
from tiers.errors import ContentUnreadable

PACK = BlobId(b"\x99" * 16)
SIZES = [1, 10, 4096, 65_536, 100_000, 131_072, 300_000]


def write_pack(parts: Parts, data: bytes, copies: tuple[int, ...] = (0, 1, 2)) -> None:
    """Pack copies as a pack writer leaves them: page-aligned appends, an open blob row."""
    page = mmap.mmap(-1, -(-len(data) // 4096) * 4096)
    page[: len(data)] = data
    for index in copies:
        log = parts.inner[f"d{index}"].create_log(f"{PACK.hex()}.{index}")
        log.append(0, memoryview(page))
        log.close()
    parts.rows.rows[PACK] = Blob(
        PACK, "hot", BlobKind.PACK, "copies:3", len(page), 0, BlobState.OPEN, "d0 d1 d2", 0, 0, 0, 0, 0
    )


def extents_in(data: bytes) -> list[Extent]:
    found, at = [], 37
    for size in SIZES:
        found.append(Extent(PACK, at, size, crc64nvme(data[at : at + size])))
        at += size
    return found


DATA = content(37 + sum(SIZES))
EXTENTS = extents_in(DATA)


def bytes_of(extent: Extent) -> bytes:
    return DATA[extent.offset : extent.offset + extent.length]


def spoil(parts: Parts, copy: int, at: int | None) -> None:
    """Flip one bit of a copy, or remove it."""
    device = parts.inner[f"d{copy}"]
    name = f"{PACK.hex()}.{copy}"
    file = device.open(Area.PACKS, name)
    data = bytearray(file.size)
    file.read_into(0, memoryview(data))
    file.close()
    device.delete(Area.PACKS, name)
    if at is not None:
        data[at] ^= 4
        device.store(Area.PACKS, name, bytes(data))


@pytest.mark.parametrize("is_cold", [False, True])
def test_extents_whole_and_in_part(is_cold: bool) -> None:
    async def scenario(parts: Parts) -> None:
        write_pack(parts, DATA)
        for extent in EXTENTS:
            whole = bytes_of(extent)
            assert await parts.get([extent]) == whole
            for start, stop in (
                (0, 0),
                (0, 1),
                (extent.length - 1, extent.length),
                (extent.length // 3, extent.length),
            ):
                assert await parts.get([extent], start, stop) == whole[start:stop]
        assert await parts.get(EXTENTS) == DATA[37:]
        assert await parts.get(EXTENTS, 3, 200_000) == DATA[40 : 37 + 200_000]
        assert parts.reports == []
        assert parts.rows.asked == 1
        assert parts.reader.buffers.units_taken == 0

    with opened(Parts(is_cold=is_cold)) as parts:
        asyncio.run(scenario(parts))


def test_an_open_pack_in_the_cache_suspends_nowhere() -> None:
    """The second read runs to its end in one step of its coroutine: no loop, no thread."""

    async def first(parts: Parts) -> None:
        await parts.get([EXTENTS[3]])

    with opened(Parts()) as parts:
        write_pack(parts, DATA)
        asyncio.run(first(parts))
        opening = parts.reader.open(ReadPlan([EXTENTS[3]], 0, EXTENTS[3].length))
        with pytest.raises(StopIteration) as ended:
            opening.send(None)
        stream = ended.value.value
        with pytest.raises(StopIteration) as run:
            stream.next().send(None)
        assert bytes(run.value.value) == bytes_of(EXTENTS[3])
        stream.close()
        stream.close()
        assert parts.reader.buffers.units_taken == 0


@pytest.mark.parametrize("bad", [(0,), (0, 1), (1, 2), (0, 2)])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_bad_copy_is_passed_over_and_reported(bad: tuple[int, ...], is_lost: bool) -> None:
    async def scenario(parts: Parts) -> None:
        write_pack(parts, DATA)
        extent = EXTENTS[4]
        for copy in bad:
            spoil(parts, copy, None if is_lost else extent.offset + 5)
        assert await parts.get([extent]) == bytes_of(extent)
        met = [copy for copy in bad if all(other in bad for other in range(copy))]
        assert parts.reports == [(copy, "missing" if is_lost else "corrupt") for copy in met]
        assert await parts.get([EXTENTS[1]]) == bytes_of(EXTENTS[1])

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))


@pytest.mark.parametrize("is_lost", [False, True])
def test_no_good_copy_is_an_error(is_lost: bool) -> None:
    async def scenario(parts: Parts) -> None:
        write_pack(parts, DATA)
        extent = EXTENTS[4]
        for copy in range(3):
            spoil(parts, copy, None if is_lost else extent.offset + 5)
        with pytest.raises(ContentUnreadable):
            await parts.get([extent])
        assert parts.reader.buffers.units_taken == 0

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))


def test_a_wrong_extent_is_never_served() -> None:
    """Right bytes of another place have another checksum."""

    async def scenario(parts: Parts) -> None:
        write_pack(parts, DATA)
        for wrong in (EXTENTS[3]._replace(offset=EXTENTS[3].offset + 1), EXTENTS[3]._replace(offset=1 << 40)):
            with pytest.raises(ContentUnreadable):
                await parts.get([wrong])

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))


def test_a_pack_that_moved_is_found_again() -> None:
    async def scenario(parts: Parts) -> None:
        write_pack(parts, DATA)
        extent = EXTENTS[2]
        parts.rows.rows[PACK] = parts.rows.rows[PACK]._replace(placement="d3 d4 ")
        with pytest.raises(ContentUnreadable):
            await parts.get([extent])
        assert parts.rows.asked == 2
        parts.rows.rows[PACK] = parts.rows.rows[PACK]._replace(placement="d0 d4 d2", generation=1)
        assert await parts.get([extent]) == bytes_of(extent)
        assert parts.rows.asked == 3

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))


def test_a_pack_grows_under_its_readers() -> None:
    """An extent appended after the file was opened is read through the same descriptor."""

    async def scenario(parts: Parts) -> None:
        write_pack(parts, DATA)
        assert await parts.get([EXTENTS[0]]) == bytes_of(EXTENTS[0])
        page = mmap.mmap(-1, 4096)
        page[:5] = b"fresh"
        offset = 1 << 20
        for index in range(3):
            log = parts.inner[f"d{index}"].reopen_log(f"{PACK.hex()}.{index}")
            log.append(offset, memoryview(page))
            log.close()
        assert await parts.get([Extent(PACK, offset, 5, crc64nvme(b"fresh"))]) == b"fresh"

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))


def test_a_hung_copy_is_hedged() -> None:
    async def scenario(parts: Parts) -> None:
        write_pack(parts, DATA)
        released = threading.Event()
        parts.devices["d0"].hang = lambda operation: _block(operation, released)
        parts.new_reader(hedge_seconds=0.02)
        try:
            assert await asyncio.wait_for(parts.get([EXTENTS[3]]), 15) == bytes_of(EXTENTS[3])
            assert parts.reports == [(0, "late")]
        finally:
            released.set()

    with opened(Parts(is_cold=True)) as parts:
        asyncio.run(scenario(parts))


def _block(operation: Operation, released: threading.Event) -> None:
    if operation in {Operation.OPEN, Operation.READ}:
        released.wait(20)


def test_flipped_bits_on_the_way_never_reach_the_reader() -> None:
    async def scenario(parts: Parts) -> None:
        write_pack(parts, DATA)
        for device in parts.devices.values():
            device.corruption = 0.5
        rng = random.Random(3)
        served = 0
        for _ in range(300):
            extent = rng.choice(EXTENTS)
            try:
                assert await parts.get([extent]) == bytes_of(extent)
                served += 1
            except ContentUnreadable:
                pass
        assert 200 < served < 300

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))
