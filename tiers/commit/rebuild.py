"""`isotherm rebuild`: the whole namespace from the devices alone, into an empty database.

The newest snapshot that can be read, then every batch of the chain after it. Running it again gives the same
database; killed half-way it leaves a database whose chain head is not set, which the next run refuses unless empty.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from metadata.contract import Metadata, Transaction, Writer
from metadata.tables import BLOB, BUCKET, DEVICE, TIER, Table
from metadata.types import ChainHead
from tiers.commit.chain import Link, chain_after, commit_batches, find_packs
from tiers.commit.recovery import apply_batch
from tiers.commit.references import apply_images
from tiers.commit.snapshot import Manifest, SnapshotStore
from tiers.devices.fleet import Fleet
from tiers.errors import FragmentNotFound, MetadataRefused

BATCH_ROWS = 5_000
Progress = Callable[[str, int, int], None]
"""Called with (phase, done, total)."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild restored. `sequence` is the chain head it ended at."""

    snapshot_rows: int
    batches: int
    sequence: int


def rebuild(metadata: Metadata, fleet: Fleet, *, progress: Progress) -> Rebuilt:
    """Fill an empty, migrated database from the devices of `fleet`.

    Errors: MetadataRefused when the database is not empty (move it away first: nothing is overwritten); LogGap when
    the chain is broken, with every batch before the gap applied; FragmentNotFound when no snapshot is readable that
    the log continues.
    """
    writer = metadata.open_writer()
    packs = find_packs(fleet)
    try:
        with writer.transaction() as transaction:
            _refuse_unless_empty(transaction)
        store = SnapshotStore(fleet, list(fleet.ids()), copies=1)
        manifest = _load_newest(writer, store, progress)
        sequence, batch_id = (manifest.sequence, manifest.batch_id) if manifest else (0, b"")
        progress("scan", 0, len(packs))
        links = [
            link for link in commit_batches(packs.values(), {}) if link.batch.header.last_sequence > sequence
        ]  # only these: the whole history has no room in memory
        chain = chain_after(links, head_sequence=sequence, head_id=batch_id)
        last = _replay(writer, chain, progress)
        highest = max((link.batch.header.last_sequence for link in links), default=0)
        with writer.transaction() as transaction:
            if not chain:
                transaction.commit(ChainHead(0, sequence, batch_id))
            writer.next_sequence(1, max(highest, sequence))
    finally:
        for copies in packs.values():
            copies.close()
        writer.close()
    return Rebuilt(manifest.rows if manifest else 0, len(chain), last or sequence)


def _refuse_unless_empty(transaction: Transaction) -> None:
    transaction.begin_step()
    tables: tuple[Table[Any], ...] = (BUCKET, BLOB, TIER, DEVICE)
    if transaction.head.sequence or any(transaction.scan(table, None, 1) for table in tables):
        raise MetadataRefused("the database is not empty; move it away before a rebuild")


def _load_newest(writer: Writer, store: SnapshotStore, progress: Progress) -> Manifest | None:
    """Load the newest snapshot whose files are all readable; None when there is no snapshot at all."""
    manifests = store.manifests()
    for manifest in manifests:
        if all(store.holds(name, checksum) for name, checksum in manifest.files):
            _load(writer, store, manifest, progress)
            return manifest
    if manifests:
        raise FragmentNotFound("every snapshot lacks a file on all devices")
    return None


def _load(writer: Writer, store: SnapshotStore, manifest: Manifest, progress: Progress) -> None:
    done = 0
    for rows in store.rows(manifest):
        for start in range(0, len(rows), BATCH_ROWS):
            batch = rows[start : start + BATCH_ROWS]
            with writer.transaction() as transaction:
                apply_images(transaction, [(table, table.key_of(row), row) for table, row in batch])
                transaction.commit(transaction.head)
            done += len(batch)
            progress("snapshot", done, manifest.rows)


def _replay(writer: Writer, chain: list[Link], progress: Progress) -> int:
    for number, link in enumerate(chain, 1):
        with writer.transaction() as transaction:
            apply_batch(transaction, link)
        if number % 100 == 0 or number == len(chain):
            progress("log", number, len(chain))
    return chain[-1].batch.header.last_sequence if chain else 0
