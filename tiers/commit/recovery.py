"""Start-up: bring the database up to the commit log, in commit order, before anybody is served.

Runs under the database's write lock, is idempotent, and may itself be killed at any instant: each batch is one
database transaction that moves the chain head with it.
"""

import logging
from dataclasses import dataclass

from metadata.contract import Metadata, Transaction
from metadata.tables import BLOB
from metadata.types import BlobState, ChainHead
from tiers.commit.chain import Link, PackCopies, chain_after, commit_batches, find_packs
from tiers.commit.log import decode_record
from tiers.commit.references import apply_images
from tiers.devices.fleet import Fleet
from tiers.errors import LogGap

logger = logging.getLogger(__name__)

WORKER_BITS = 16
"""A worker number is a host number shifted by this many bits, plus the worker's index on its host."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What recovery did."""

    batches: int
    copies_mended: int
    sequence: int


def recover(metadata: Metadata, fleet: Fleet, *, adopter: int) -> Recovered:
    """Replay what the database missed.

    Open packs of this host (the upper bits of `worker`) go over to worker `adopter`, whose next batch seals them.
    Cost: open packs are scanned from their last known batch, packs the database does not know from their beginning;
    packs it knows as sealed are not read. Errors: LogGap, MetadataUnavailable; the batches before stay applied.
    """
    packs = find_packs(fleet)
    writer = metadata.open_writer()
    try:
        with writer.transaction() as transaction:
            links, chain = _missed(transaction, packs)
            if chain:
                apply_batch(transaction, chain[0])
        for link in chain[1:]:
            with writer.transaction() as transaction:
                apply_batch(transaction, link)
        mended = sum(_mend(link) for link in chain[-1:])
        # The counter may be older than the devices after a power cut; a number is never used twice.
        highest = max((link.batch.header.last_sequence for link in links), default=0)
        with writer.transaction() as transaction:
            sequence = writer.next_sequence(1, max(highest, transaction.head.sequence))
            _adopt(transaction, adopter)
    finally:
        for copies in packs.values():
            copies.close()
        writer.close()
    if chain:
        logger.warning("replayed %d batches of the commit log, mended %d copies", len(chain), mended)
    return Recovered(len(chain), mended, sequence)


def _missed(transaction: Transaction, packs: dict[bytes, PackCopies]) -> tuple[list[Link], list[Link]]:
    """Batches on the packs that may hold what the database lacks, and those of them that it must apply."""
    starts = _starts(transaction, packs)
    links = list(commit_batches([packs[pack_id] for pack_id in starts], starts))
    head = transaction.head
    return links, chain_after(links, head_sequence=head.sequence, head_id=head.batch_id)


def _adopt(transaction: Transaction, adopter: int) -> None:
    """Not logged as a batch: rows only change hands, and a rebuild opens packs under their old worker again."""
    transaction.begin_step()
    mine = [row for row in transaction.select_open_packs() if row.worker >> WORKER_BITS == adopter >> WORKER_BITS]
    for row in mine:
        transaction.put(BLOB, row._replace(worker=adopter))
    transaction.commit(transaction.head)


def apply_batch(transaction: Transaction, link: Link) -> None:
    """Apply one batch of the chain and commit it. Errors: LogGap when no copy holds the record any more."""
    record = link.copies.record(link.batch)
    link.copies.close()  # a long chain has more packs than a process may have open files
    header = link.batch.header
    if record is None:
        raise LogGap(f"the record of batch {header.batch_id.hex()} is unreadable on every copy")
    apply_images(transaction, decode_record(record))
    transaction.commit(ChainHead(0, header.last_sequence, header.batch_id))


def _starts(transaction: Transaction, packs: dict[bytes, PackCopies]) -> dict[bytes, int]:
    """Where to scan each pack that may hold batches the database lacks."""
    transaction.begin_step()
    for lost in transaction.select_open_packs():
        if lost.blob_id not in packs:
            text = "open pack %s is on no device that answers (%s): what the database lacks of it is void from now on"
            logger.error(text, lost.blob_id.hex(), lost.placement)
    starts: dict[bytes, int] = {}
    for pack_id in packs:
        row = transaction.get(BLOB, (pack_id,))
        if row is None:
            starts[pack_id] = 0
        elif row.state == BlobState.OPEN:
            starts[pack_id] = row.size
    return starts


def _mend(link: Link) -> int:
    raw = link.copies.whole(link.batch)
    assert raw is not None, "the tip was read whole when the chain was found"
    return link.copies.restore(link.batch, raw)
