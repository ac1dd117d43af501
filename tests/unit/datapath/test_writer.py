import asyncio
import errno
import random
import threading
from pathlib import Path

import pytest

from metadata.types import BlobKind, BlobState, TierRow
from tests.unit.datapath.parts import NOW, BytesBody, Parts, content, digests_of, opened
from tiers.catalogue import Catalogue
from tiers.datapath.md5 import HashlibStream
from tiers.devices.contract import Area
from tiers.devices.interception import Operation
from tiers.errors import DeviceFull, PlacementShort, QuorumNotReached

SEGMENT = 655360  # rows of 160 KiB: two blocks and a half
SIZES = [0, 1, 4095, 4096, 4097, SEGMENT - 1, SEGMENT, SEGMENT + 1, 3 * SEGMENT, 3 * SEGMENT + 70_000]


def is_clean(parts: Parts) -> bool:
    """Nothing staged, nothing published, no buffer missing."""
    return not parts.files(Area.STAGING) and not parts.files(Area.FRAGMENTS) and not parts.stripes.bytes_taken


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_what_was_written_is_read(kind: str, is_known: bool, tmp_path: Path) -> None:
    async def scenario(parts: Parts) -> None:
        for size in SIZES:
            data = content(size, seed=size)
            body = BytesBody(data, is_known=is_known)
            staged = await parts.writer.stage(body, "hot")
            assert staged.digests == digests_of(data) == body.verified
            assert parts.files(Area.FRAGMENTS) == []  # staged is invisible
            await staged.publish()
            parts.rows.rows[staged.blob.blob_id] = staged.blob
            assert (staged.size, staged.blob.size, staged.blob.live_bytes) == (size, size, 0)
            assert [extent.length for extent in staged.extents] == ([size] if size else [])
            assert await parts.get(staged.extents) == data
            assert parts.files(Area.STAGING) == []
            assert len(parts.files(Area.FRAGMENTS)) == 6
            await staged.discard()
            assert is_clean(parts)
        assert parts.reports == []

    with opened(Parts(root=tmp_path if kind == "directory" else None)) as parts:
        asyncio.run(scenario(parts))


def test_the_row_describes_the_blob() -> None:
    with opened(Parts()) as parts:
        blob = asyncio.run(parts.put(content(100_000))).blob
        assert (blob.tier, blob.kind, blob.layout, blob.state) == (
            "hot",
            BlobKind.STRIPED,
            "4+2:655360",
            BlobState.SEALED,
        )
        assert sorted(blob.placement.split(" ")) == parts.ids
        assert (blob.created_ms, blob.dead_ms, blob.generation) == (int(NOW * 1000), 0, 1)


def test_a_small_body_takes_a_small_buffer() -> None:
    """200 KiB need rows of 52 KiB, not the memory of a whole stripe."""
    with opened(Parts("4+2:4194304", pool_bytes=64 << 20)) as parts:
        asyncio.run(parts.put(content(200 << 10)))
        assert parts.stripes.bytes_peak < 1 << 20


def test_padding_is_zeros_and_not_what_the_buffer_held_before() -> None:
    """A reused buffer carries another content's bytes; none of them may reach a device."""

    async def scenario(parts: Parts) -> None:
        await parts.put(b"\xff" * (40 << 10))
        staged = await parts.put(b"x" * 17)
        assert parts.stripes.buffers_made == 1
        for index in range(4):
            assert b"\xff" * 64 not in parts.read_fragment(staged, index)

    with opened(Parts(pool_bytes=512 << 10)) as parts:
        asyncio.run(scenario(parts))


def test_digests_not_asked_for_are_not_computed() -> None:
    with opened(Parts()) as parts:
        body = BytesBody(content(5000), digests=frozenset({"SHA256"}))
        staged = asyncio.run(parts.writer.stage(body, "hot"))
        assert set(staged.digests) == {"SHA256"}


@pytest.mark.parametrize("size", [1, SEGMENT, 4 * SEGMENT])
def test_a_refused_body_leaves_nothing(size: int) -> None:
    async def scenario(parts: Parts) -> None:
        body = BytesBody(content(size))
        body.failure = ValueError("BadDigest")
        with pytest.raises(ValueError, match="BadDigest"):
            await parts.writer.stage(body, "hot")
        broken = BytesBody(content(size))
        broken.fails_at = size // 2
        with pytest.raises(ConnectionResetError):
            await parts.writer.stage(broken, "hot")
        assert is_clean(parts)

    with opened(Parts("4+2:65536")) as parts:
        asyncio.run(scenario(parts))


def test_one_failing_device_costs_one_fragment() -> None:
    """Every operation of a write, failing on one device of 4+2: the write stands, the fragment has no name."""

    async def scenario(operation: Operation) -> None:
        with opened(Parts()) as parts:
            parts.devices["d2"].fail({operation}, times=None)
            data = content(2 * SEGMENT)
            staged = await parts.put(data)
            names = staged.blob.placement.split(" ")
            assert sorted(names) == ["", "d0", "d1", "d3", "d4", "d5"]
            assert len(parts.files(Area.FRAGMENTS)) == 5
            assert parts.files(Area.STAGING) == []
            assert await parts.get(staged.extents) == data

    for operation in (Operation.STAGE, Operation.WRITE, Operation.FLUSH, Operation.PUBLISH):
        asyncio.run(scenario(operation))


def test_two_failing_devices_are_one_too_many() -> None:
    async def scenario(operation: Operation, first: int) -> None:
        with opened(Parts()) as parts:
            parts.devices["d2"].fail({operation}, times=None, first=first)
            parts.devices["d4"].fail({operation}, times=None)
            with pytest.raises(QuorumNotReached):
                await _write(parts, content(5 * SEGMENT))
            assert is_clean(parts)

    for operation in (Operation.STAGE, Operation.WRITE, Operation.FLUSH, Operation.PUBLISH):
        asyncio.run(scenario(operation, first=1))
    asyncio.run(scenario(Operation.WRITE, first=4))


def test_with_one_parity_fragment_all_must_be_durable() -> None:
    with opened(Parts("1+1:65536")) as parts:
        parts.devices["d1"].fail({Operation.FLUSH})
        with pytest.raises(QuorumNotReached):
            asyncio.run(parts.writer.stage(BytesBody(content(10)), "hot"))
        assert is_clean(parts)


def test_full_devices_say_so() -> None:
    with opened(Parts()) as parts:
        for device in ("d1", "d5"):
            parts.devices[device].fail({Operation.WRITE}, error_number=errno.ENOSPC, times=None)
        with pytest.raises(DeviceFull):
            asyncio.run(parts.writer.stage(BytesBody(content(SEGMENT)), "hot"))
        assert is_clean(parts)


def test_too_few_devices() -> None:
    """One device short of 4+2 still makes a quorum, without its last parity fragment; two short do not."""
    with opened(Parts()) as parts:
        devices = parts.catalogue.devices("hot")
        tiers = [TierRow("hot", parts.catalogue.tier("hot").to_json())]
        for missing, works in ((1, True), (2, False)):
            rows = [one._replace(state=int(number < missing)) for number, one in enumerate(devices)]
            parts.writer.catalogue = Catalogue(tiers, rows)
            if works:
                staged = asyncio.run(parts.put(content(9)))
                assert staged.blob.placement.split(" ")[5] == ""
                asyncio.run(staged.discard())
            else:
                with pytest.raises(PlacementShort):
                    asyncio.run(parts.put(content(9)))
        assert is_clean(parts)


def test_cancelled_anywhere_nothing_is_left() -> None:
    """A write cancelled at a random step leaves no staged file and no lost buffer."""

    async def scenario(parts: Parts, rng: random.Random) -> int:
        task = asyncio.create_task(_write(parts, content(rng.choice([1, SEGMENT, 5 * SEGMENT + 3]))))
        for _ in range(rng.randrange(40)):
            await asyncio.sleep(0 if rng.random() < 0.5 else 0.0003)
        task.cancel()
        if rng.random() < 0.3:
            await asyncio.sleep(0)
            task.cancel()  # a second time, during the clean-up
        try:
            await task
        except asyncio.CancelledError:
            assert is_clean(parts)
            return 1
        assert len(parts.files(Area.FRAGMENTS)) % 6 == 0
        for device in parts.inner.values():
            for name in [found.name for found in device.survey(Area.FRAGMENTS)]:
                device.delete(Area.FRAGMENTS, name)
        return 0

    rng = random.Random(11)
    cancelled = 0
    with opened(Parts("4+2:65536")) as parts:
        for _ in range(150):
            cancelled += asyncio.run(scenario(parts, rng))
        assert is_clean(parts)
    assert 20 < cancelled < 150  # both ends were met


async def _write(parts: Parts, data: bytes) -> None:
    """A write as the namespace does it: discard unless everything went well."""
    staged = await parts.writer.stage(BytesBody(data), "hot")
    try:
        await staged.publish()
    except BaseException:
        await staged.discard()
        raise


def test_many_uploads_share_the_pool() -> None:
    """Twenty uploads of more stripes than the pool has: all end, the limit holds, every buffer comes back."""

    async def scenario(parts: Parts) -> None:
        bodies = [content(7 * 65536 + number, seed=number) for number in range(20)]
        staged = await asyncio.gather(
            *[parts.put(body, is_known=number % 2 == 0) for number, body in enumerate(bodies)]
        )
        for one, body in zip(staged, bodies, strict=True):
            assert one.digests == digests_of(body)
            assert await parts.get(one.extents) == body

    with opened(Parts("4+2:65536", pool_bytes=1 << 20)) as parts:
        asyncio.run(scenario(parts))
        assert parts.stripes.bytes_peak <= 1 << 20
        assert parts.stripes.bytes_taken == 0


def test_uploads_in_flight_share_the_md5_kernel() -> None:
    """Beyond `ALONE_MAX` uploads MD5 runs in lanes, where the extension is built; refused ones give their lane back."""

    async def scenario(parts: Parts) -> None:
        bodies = [content(3 * 65536 + number, seed=number) for number in range(6)]
        for one, body in zip(await asyncio.gather(*[parts.put(body) for body in bodies]), bodies, strict=True):
            assert one.digests == digests_of(body)
        refused = [BytesBody(body) for body in bodies]
        for body in refused:
            body.failure = ValueError()
        outcomes = await asyncio.gather(*[parts.writer.stage(body, "hot") for body in refused], return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ValueError}
        assert isinstance(parts.lanes.open_stream(), HashlibStream)  # no stream is under way

    with opened(Parts("4+2:65536")) as parts:
        asyncio.run(scenario(parts))


def test_a_hanging_write_holds_no_other_device() -> None:
    """While d0 hangs in a write, the rows of the other devices land and the loop turns."""

    async def scenario(parts: Parts) -> None:
        released = threading.Event()
        parts.devices["d0"].hang = lambda operation: _block(operation, released)
        task = asyncio.create_task(parts.put(content(SEGMENT)))
        while any(parts.devices[one].calls[Operation.WRITE] < 1 for one in parts.ids[1:]):  # noqa: ASYNC110 -- threads
            await asyncio.sleep(0.001)
        assert not task.done()
        released.set()
        staged = await task
        assert "" not in staged.blob.placement.split(" ")

    with opened(Parts()) as parts:
        asyncio.run(scenario(parts))


def _block(operation: Operation, released: threading.Event) -> None:
    if operation is Operation.WRITE:
        released.wait(20)
