"""Reads around damage: byte-equal with any m fragments bad, an error and no wrong byte beyond that."""

import asyncio
import itertools
import random
import threading
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.datapath.parts import Parts, content, opened
from tiers.datapath.writer import StagedFragments
from tiers.devices.contract import Area
from tiers.devices.interception import Operation
from tiers.errors import ContentUnreadable

SEGMENT = 655360  # rows of 160 KiB: two blocks and a half
BLOCK = 65536
DAMAGES = ["lost", "flipped", "truncated", "extended", "zeroed", "swapped", "emptied"]


def spoilt(data: bytearray, neighbour: bytearray, kind: str, rng: random.Random) -> bytes | None:
    """One fragment's bytes made bad: wherever they are read, or in one place (`flipped`, `zeroed`)."""
    match kind:
        case "lost":
            return None
        case "flipped":
            data[rng.randrange(4096, len(data))] ^= 1 << rng.randrange(8)
        case "truncated":
            del data[rng.randrange(1, len(data) // 4096) * 4096 :]
        case "extended":
            data += bytes(4096)
        case "zeroed":
            at = rng.randrange(len(data) // 4096) * 4096
            data[at : at + 4096] = bytes(4096)
        case "swapped":
            return bytes(neighbour)
        case "emptied":
            return b""
    return bytes(data)


def damage(
    parts: Parts, staged: StagedFragments, indexes: Iterable[int], rng: random.Random, kind: str | None = None
) -> None:
    """Spoil fragments, each in a way of its own unless `kind` names one."""
    count = parts.layout.fragments
    whole = [parts.read_fragment(staged, index) for index in range(count)]
    for index in indexes:
        bad = spoilt(bytearray(whole[index]), whole[(index + 1) % count], kind or rng.choice(DAMAGES), rng)
        parts.write_fragment(staged, index, bad)


SIZES = st.one_of(
    st.sampled_from([1, 4095, 4096, 4097, 16384, SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 2 * SEGMENT + 5]),
    st.integers(1, 3 * SEGMENT),
)


@pytest.mark.parametrize("is_cold", [False, True])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(size=SIZES, seed=st.integers(0, 2**32), layout=st.sampled_from(["4+2:655360", "1+1:262144", "2+3:65536"]))
def test_any_m_bad_fragments_read_equal(is_cold: bool, size: int, seed: int, layout: str) -> None:
    """Whole and ranged reads with up to m fragments spoilt in any way, bytes equal, and each damage met is reported."""

    async def scenario(parts: Parts, rng: random.Random) -> None:
        data = content(size, seed)
        staged = await parts.put(data)
        m = parts.layout.parity_fragments
        bad = rng.sample(range(parts.layout.fragments), rng.randint(0, m))
        damage(parts, staged, bad, rng)
        parts.new_reader(ahead_bytes_max=rng.choice([0, 2 << 20, 16 << 20]))
        for _ in range(4):
            start = rng.randrange(size + 1)
            stop = rng.randint(start, size)
            assert await parts.get(staged.extents, start, stop) == data[start:stop]
        assert await parts.get(staged.extents) == data
        assert {index for index, _ in parts.reports} <= set(bad)
        assert parts.reader.buffers.units_taken == 0
        assert parts.reader.buffers.ahead_taken == 0

    with opened(Parts(layout, is_cold=is_cold)) as parts:
        asyncio.run(scenario(parts, random.Random(seed)))


def test_every_pattern_of_lost_fragments() -> None:
    """All 64 patterns of 4+2: equal up to two lost, an error and only right bytes beyond."""
    data = content(SEGMENT + 100_000)

    async def scenario(lost: tuple[int, ...], kind: str) -> None:
        with opened(Parts()) as parts:
            rng = random.Random(1)
            staged = await parts.put(data)
            damage(parts, staged, lost, rng, kind)
            received = bytearray()
            if len(lost) <= 2:
                await parts.get_into(received, staged.extents)
                assert received == data
            else:
                with pytest.raises(ContentUnreadable):
                    await parts.get_into(received, staged.extents)
                assert data.startswith(received)
            expected = {index for index in lost if index < 4 or len(lost) > 2 or (set(lost) & {0, 1, 2, 3})}
            assert {index for index, _ in parts.reports} <= expected

    for count in range(7):
        for lost in itertools.combinations(range(6), count):
            asyncio.run(scenario(lost, "lost"))
            asyncio.run(scenario(lost, "truncated"))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 2 * SEGMENT))
def test_more_damage_than_parity_gives_no_wrong_byte(seed: int, size: int) -> None:
    """Three to six spoilt fragments: what is read is right as far as it goes, and it ends in an error or complete."""

    async def scenario(parts: Parts, rng: random.Random) -> None:
        data = content(size, seed)
        staged = await parts.put(data)
        damage(parts, staged, rng.sample(range(6), rng.randint(3, 6)), rng)
        received = bytearray()
        try:
            await parts.get_into(received, staged.extents)
        except ContentUnreadable:
            assert data.startswith(received)
        else:
            assert received == data
        assert parts.reader.buffers.units_taken == 0

    with opened(Parts(is_cold=bool(seed % 2))) as parts:
        asyncio.run(scenario(parts, random.Random(seed)))


@pytest.mark.parametrize("is_cold", [False, True])
def test_devices_that_flip_bits_on_the_way(is_cold: bool) -> None:
    """Every tenth read comes back with one bit flipped, of trailers, tables and rows alike: never a wrong byte."""

    async def scenario(parts: Parts) -> None:
        data = content(4 * SEGMENT, 3)
        staged = await parts.put(data)
        for device in parts.devices.values():
            device.corruption = 0.1
        complete = 0
        for _ in range(60):
            parts.new_reader()
            received = bytearray()
            try:
                await parts.get_into(received, staged.extents)
                complete += received == data
            except ContentUnreadable:
                pass
            assert data.startswith(received)
        assert complete > 10
        assert any(reason == "corrupt" for _, reason in parts.reports)

    with opened(Parts(is_cold=is_cold)) as parts:
        asyncio.run(scenario(parts))


def test_a_hung_device_is_read_around() -> None:
    """The hedge: a device that never answers costs one wait a stream, and its fragment is reported late."""

    async def scenario(parts: Parts) -> None:
        data = content(3 * SEGMENT)
        staged = await parts.put(data)
        index = staged.blob.placement.split(" ").index("d1")
        released = threading.Event()
        parts.devices["d1"].hang = lambda operation: _block(operation, released)
        parts.new_reader(hedge_seconds=0.02)
        try:
            assert await asyncio.wait_for(parts.get(staged.extents), 15) == data
            assert await asyncio.wait_for(parts.get(staged.extents, 5, 200_000), 15) == data[5:200_000]
            assert {one for one, _ in parts.reports} <= {index}
            assert index >= 4 or (index, "late") in parts.reports
        finally:
            released.set()

    for seed in range(4):
        with opened(Parts(is_cold=True, seed=seed)) as parts:
            asyncio.run(scenario(parts))


def test_memory_of_a_late_read_is_not_handed_on() -> None:
    """A thread that hangs in a read may write into its buffer at any time: nobody else gets it until then."""

    async def scenario(parts: Parts) -> None:
        data = content(3 * SEGMENT)
        staged = await parts.put(data)
        hung = staged.blob.placement.split(" ")[1]
        assert await parts.get(staged.extents) == data  # the files are open: what hangs is a read
        released = threading.Event()
        parts.devices[hung].hang = lambda operation: _block(operation, released)
        parts.reader._tools.hedge_seconds = 0.02
        buffers = parts.reader.buffers
        try:
            assert await asyncio.wait_for(parts.get(staged.extents), 15) == data
            assert buffers.units_taken + buffers.ahead_taken > 0
        finally:
            released.set()
        await asyncio.wrap_future(parts.fleet.submit(hung, int))
        await asyncio.wrap_future(parts.fleet.submit(hung, int))
        await asyncio.sleep(0.005)
        assert buffers.units_taken + buffers.ahead_taken == 0

    with opened(Parts(is_cold=True)) as parts:
        asyncio.run(scenario(parts))


def _block(operation: Operation, released: threading.Event) -> None:
    if operation in {Operation.OPEN, Operation.READ}:
        released.wait(20)


@pytest.mark.parametrize("is_cold", [False, True])
def test_ranges_read_little(is_cold: bool) -> None:
    """At most 1.5 times the bytes served and one block at each end, once the tables are known."""

    async def scenario(parts: Parts) -> None:
        data = content(4 * SEGMENT)
        staged = await parts.put(data)
        assert await parts.get(staged.extents) == data
        rng = random.Random(2)
        for _ in range(100):
            start = rng.randrange(len(data))
            stop = min(len(data), start + rng.choice([1, 100, 5000, 70_000, 300_000, 2 * SEGMENT]))
            parts.bytes_read = 0
            assert await parts.get(staged.extents, start, stop) == data[start:stop]
            pieces = list(parts.layout.pieces(len(data), start=start, stop=stop))
            assert parts.bytes_read <= 1.5 * (stop - start) + 2 * BLOCK * len(pieces)
            if stop - start > 2 * BLOCK:
                assert parts.bytes_read >= stop - start  # the count counts

    with opened(Parts(is_cold=is_cold)) as parts:
        asyncio.run(scenario(parts))


def test_readers_of_one_lost_range_share_its_decode() -> None:
    """Eight readers of a stripe with a lost fragment read each surviving row once for it, not eight times."""

    async def scenario(parts: Parts) -> None:
        data = content(SEGMENT)
        staged = await parts.put(data)
        damage(parts, staged, [0], random.Random(1), "lost")
        row = SEGMENT // 4
        assert await parts.get(staged.extents, 0, row) == data[:row]  # opens the files
        parts.bytes_read = 0
        results = await asyncio.gather(*[parts.get(staged.extents, 0, row) for _ in range(8)])
        assert set(results) == {data[:row]}
        assert parts.bytes_read == 4 * row

    with opened(Parts(is_cold=True)) as parts:
        asyncio.run(scenario(parts))


def test_a_cancelled_or_abandoned_read_loses_no_buffer() -> None:
    async def scenario(parts: Parts, rng: random.Random) -> None:
        data = content(3 * SEGMENT)
        staged = await parts.put(data)
        if rng.random() < 0.5:
            damage(parts, staged, [rng.randrange(6)], rng, "lost")
        parts.new_reader(ahead_bytes_max=3 << 20)
        tasks = [asyncio.create_task(parts.get(staged.extents)) for _ in range(3)]
        for _ in range(rng.randrange(30)):
            await asyncio.sleep(0 if rng.random() < 0.5 else 0.0002)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await parts.get(staged.extents) == data
        for device in parts.ids:  # threads that were still reading are done when the pool answers
            await asyncio.wrap_future(parts.fleet.submit(device, int))
            await asyncio.wrap_future(parts.fleet.submit(device, int))
        await asyncio.sleep(0.005)
        assert parts.reader.buffers.units_taken == 0
        assert parts.reader.buffers.ahead_taken == 0

    for seed in range(40):
        with opened(Parts(is_cold=seed % 2 == 0)) as parts:
            asyncio.run(scenario(parts, random.Random(seed)))


def test_a_blob_that_moved_is_found_again() -> None:
    """The cached row names the old place; everything there is gone; the row is read again, once."""

    async def scenario(parts: Parts) -> None:
        data = content(SEGMENT + 1)
        staged = await parts.put(data)
        assert await parts.get(staged.extents) == data
        seen = staged.blob
        moved = seen._replace(generation=2)
        for index in range(6):
            old = parts.read_fragment(staged, index)
            parts.write_fragment(staged, index, None)
            staged.blob = moved
            parts.write_fragment(staged, index, _regenerated(parts, staged, index, old))
            staged.blob = seen
        parts.reader.close()  # open files would go on serving the old place
        with pytest.raises(ContentUnreadable):
            await parts.get(staged.extents)  # the row has not moved yet: asked once, unchanged
        parts.rows.rows[seen.blob_id] = moved
        asked = parts.rows.asked
        assert await parts.get(staged.extents) == data
        assert parts.rows.asked == asked + 1
        assert await parts.get(staged.extents) == data
        assert parts.rows.asked == asked + 1

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))


def _regenerated(parts: Parts, staged: StagedFragments, index: int, old: bytearray) -> bytes:
    from tiers.erasure.fragment import CHECKSUM_BYTES, Identity, encode_header, encode_tail

    layout, blob = parts.layout, staged.blob
    identity = Identity(blob.blob_id, layout, index, blob.generation)
    at = layout.table_offset(blob.size)
    table = bytes(old[at : at + layout.block_count(blob.size) * CHECKSUM_BYTES])
    return encode_header(identity, blob.size) + bytes(old[4096:at]) + encode_tail(identity, blob.size, table)


def test_an_unknown_blob_is_an_error() -> None:
    async def scenario(parts: Parts) -> None:
        staged = await parts.put(content(10))
        parts.rows.rows.clear()
        parts.new_reader()
        with pytest.raises(ContentUnreadable):
            await parts.get(staged.extents)

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))


def test_contents_of_several_extents() -> None:
    """Parts of several blobs and sub-ranges of one, joined in order, any range."""

    async def scenario(parts: Parts) -> None:
        rng = random.Random(4)
        blobs = [content(rng.choice([1, 70_000, SEGMENT, SEGMENT + 9]), seed=number) for number in range(5)]
        staged = [await parts.put(blob) for blob in blobs]
        extents, data = [], b""
        for _ in range(9):
            number = rng.randrange(5)
            start = rng.randrange(len(blobs[number]))
            length = rng.randint(1, len(blobs[number]) - start)
            extents.append(staged[number].extents[0]._replace(offset=start, length=length))
            data += blobs[number][start : start + length]
        assert await parts.get(extents) == data
        for _ in range(40):
            start = rng.randrange(len(data) + 1)
            stop = rng.randint(start, len(data))
            assert await parts.get(extents, start, stop) == data[start:stop]
        assert await parts.get([]) == b""

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))


def test_idle_files_are_closed() -> None:
    async def scenario(parts: Parts) -> None:
        staged = await parts.put(content(SEGMENT))
        await parts.get(staged.extents)
        assert len(parts.reader.files) == 4
        parts.reader.close_idle()
        assert len(parts.reader.files) == 4  # used since the last call
        parts.reader.close_idle()
        assert len(parts.reader.files) == 0
        assert await parts.get(staged.extents) == content(SEGMENT)
        await staged.discard()
        assert parts.files(Area.FRAGMENTS) == []

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))
