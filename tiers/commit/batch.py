"""Building one batch: decisions in the transaction, bytes in the staging buffer, then flush and commit."""

import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, Protocol

from awscrt.checksums import crc64nvme

from metadata.contract import Transaction, Writer
from metadata.errors import TooManyChanges
from metadata.types import ChainHead, Extent
from tiers.commit.contract import Mutation, Slot
from tiers.commit.log import (
    GENESIS,
    HEADER_BYTES,
    PAGE,
    RECORD_BYTES_MAX,
    BatchHeader,
    encode_header,
    encode_record,
    padded,
)
from tiers.commit.pack import Append, OpenPack
from tiers.commit.packs import PackSet
from tiers.datapath import md5

ROWS_MAX: Final = 10_000
"""Rows put or deleted after which a batch takes no further mutation: bounds its time under the lock and its record."""


class RecordTooLarge(Exception):
    """The changes of a batch do not fit a record that recovery would read; nothing was flushed or committed."""


class Queued(Protocol):
    """A mutation on its way; the builder fills in `checksum` (of the body), then `result` or `error`."""

    mutation: Mutation[Any]
    checksum: int | None
    result: Any
    error: BaseException | None


class _Section:
    """The bodies of one batch that go to one tier's pack, laid out behind a header to come."""

    def __init__(self, pack: OpenPack, packs: PackSet, tier: str) -> None:
        self.pack = pack
        self.staging = packs.staging(tier)
        self.end = HEADER_BYTES

    def extent_for(self, body: bytes, checksum: int) -> Extent:
        return Extent(self.pack.blob_id, self.pack.end + self.end, len(body), checksum)

    def add(self, body: bytes) -> None:
        stop = self.end + len(body)
        self.staging.room(stop)[self.end : stop] = body
        self.end = stop

    def finish(self, header: BatchHeader, record: bytes) -> memoryview:
        """The whole batch, padded, in the staging buffer."""
        stop = self.end + len(record)
        size = padded(stop)
        view = self.staging.room(size)
        view[self.end : stop] = record
        view[stop:size] = bytes(size - stop)
        view[:HEADER_BYTES] = encode_header(header)
        return view[:size]


class BatchBuilder:
    """Commits batches for one commit thread. After most exceptions the outcome of the batch is unknown to callers."""

    def __init__(self, writer: Writer, packs: PackSet, clock: Callable[[], float], new_id: Callable[[], bytes]) -> None:
        self._writer = writer
        self._packs = packs
        self._clock = clock
        self._new_id = new_id
        self.flushes = 0
        self.body_bytes = 0

    def commit(self, batch: Sequence[Queued], changes_max: int = sys.maxsize) -> Generator[Append, None, int]:
        """Decide, flush and commit mutations from the first on; fill in each result or error. Returns how many.

        Yields each flush when it has begun, so that whoever has something better to do need not wait for it here; it
        must be gone on with, by whichever thread, until it ends: it holds the write lock.
        At least one of those there are is committed; the rest, untouched, when these change many rows.
        Errors: RecordTooLarge, TooManyChanges above `changes_max` (nothing happened); QuorumNotReached,
        MetadataUnavailable and bugs: then no mutation of the batch may be acknowledged, nor refused, as it was judged
        beside changes that may not stand.
        """
        with self._writer.transaction() as transaction:
            first = self._writer.next_sequence(len(batch) + 1, transaction.head.sequence)
            transaction.prefetch(key for p in batch for key in p.mutation.reads())
            sections: dict[str, _Section] = {}
            now_ms = int(self._clock() * 1000)
            transaction.limit_changes(changes_max)
            self._packs.settle(transaction, now_ms)
            taken = 0
            while taken < len(batch) and (not taken or transaction.change_count < ROWS_MAX):
                slot = Slot(first + taken, now_ms, None)
                self._step(transaction, batch[taken], slot, sections)
                taken += 1
            yield from self._finish(transaction, first, first + len(batch), sections)
        return taken

    def _step(self, transaction: Transaction, pending: Queued, slot: Slot, sections: dict[str, _Section]) -> None:
        """Apply one mutation; only a mutation that stands leaves its body in the batch."""
        mutation = pending.mutation
        body, section = mutation.body, None
        pending.error = None  # of an earlier try
        if body:
            section = sections.get(mutation.tier)
            if section is None:
                section = sections[mutation.tier] = _Section(self._packs.get(mutation.tier), self._packs, mutation.tier)
            assert pending.checksum is not None, "prepare() comes first"
            slot = Slot(slot.sequence, slot.now_ms, section.extent_for(body, pending.checksum))
        transaction.begin_step()
        try:
            pending.result = mutation.apply(transaction, slot)
        except TooManyChanges:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is belongs to this mutation's caller alone
            transaction.undo_step()
            # A future refuses a StopIteration, and the others of the batch would wait for theirs for ever.
            pending.error = RuntimeError(repr(error)) if isinstance(error, StopIteration) else error
            return
        if section is not None and body:
            section.add(body)
            self.body_bytes += len(body)

    def is_ready(self, batch: Sequence[Queued]) -> bool:
        """Whether `prepare` would ask no device: no pack has to be created for these."""
        return self._packs.is_ready({p.mutation.tier for p in batch if p.mutation.body})

    def prepare(self, batch: Sequence[Queued]) -> None:
        """What needs no lock: digests, and packs that take the batch. Idempotent.

        Errors: PlacementShort, DeviceFull, DeviceFailed; nothing happened then.
        """
        fresh = [p for p in batch if p.checksum is None]
        _fill_etags(fresh)
        for pending in fresh:
            body = pending.mutation.body
            pending.checksum = crc64nvme(body) if body is not None else 0
        self._packs.rotate({p.mutation.tier for p in batch if p.mutation.body})

    def _finish(
        self, transaction: Transaction, first: int, last: int, sections: dict[str, _Section]
    ) -> Generator[Append, None, None]:
        """Flush body batches of other tiers, then the commit batch, then commit the database."""
        log_tier = self._packs.log_tier
        head = ChainHead(0, last, self._new_id())
        log = sections.pop(log_tier, None) or _Section(self._packs.get(log_tier), self._packs, log_tier)
        used = [section for section in sections.values() if section.end > HEADER_BYTES]
        changed = next(transaction.changes(), None) is not None
        if not changed and not used and log.end == HEADER_BYTES:
            transaction.commit(transaction.head)  # nothing for the log: at most cursors and leases changed
            return
        transaction.begin_step()
        for section in (*used, log):
            self._packs.advance(transaction, section.pack, last)
        record = encode_record(transaction.changes())
        if len(record) > RECORD_BYTES_MAX:
            raise RecordTooLarge(f"a record of {len(record)} bytes")
        predecessor = transaction.head.batch_id
        for section in used:  # durable before the record that tells of them begins to be written
            append = self._begin(section, head, predecessor, (first, last), b"")
            yield append
            section.pack.finish(append)
        append = self._begin(log, head, predecessor, (first, last), record)
        refusal: Exception | None = None
        try:
            transaction.write(head)  # while the devices flush
        except Exception as error:  # noqa: BLE001  # raised below: the flush is under way and must be gone on with
            refusal = error
        yield append
        log.pack.finish(append)
        if refusal is not None:
            raise refusal
        self._packs.expose()
        transaction.commit(head)
        self._packs.committed()

    def _begin(
        self, section: _Section, head: ChainHead, predecessor: bytes, sequences: tuple[int, int], record: bytes
    ) -> Append:
        bodies = section.staging.view[HEADER_BYTES : section.end]
        header = BatchHeader(
            pack_id=section.pack.blob_id,
            batch_id=head.batch_id,
            predecessor_id=predecessor or GENESIS,
            first_sequence=sequences[0],
            last_sequence=sequences[1],
            body_bytes=section.end - HEADER_BYTES,
            record_bytes=len(record),
            bodies_checksum=crc64nvme(bodies),
            record_checksum=crc64nvme(record),
            is_commit=bool(record),
        )
        batch = section.finish(header, record)
        assert len(batch) % PAGE == 0
        self.flushes += 1
        return section.pack.begin(batch)


def _fill_etags(batch: Sequence[Queued]) -> None:
    """MD5 of the bodies that left it to the commit thread: side by side in vector lanes where there are enough."""
    waiting = [p.mutation for p in batch if getattr(p.mutation, "needs_md5", False)]
    if waiting:
        for mutation, digest in zip(waiting, md5.many([m.body or b"" for m in waiting]), strict=True):
            mutation.etag = digest.hex()  # type: ignore[attr-defined]  # the pair needs_md5 and etag go together
