"""Joins the mover and its worker for the control process."""

from collections.abc import Callable
from typing import NamedTuple

from gateway.app.sources import clock, new_id, rng, ticks
from gateway.app.store import CONTROL_INDEX, Store, worker_number
from gateway.settings.moves import rates_by_tier
from tiers.datapath.reader import ContentReader
from tiers.datapath.stripes import StripePool
from tiers.datapath.writer import BlobWriter
from tiers.lifecycle.due import day_ms_of, timetables
from tiers.lifecycle.move_bytes import Carriage
from tiers.lifecycle.move_mutations import Schedules
from tiers.lifecycle.move_pacing import ByteRates
from tiers.lifecycle.mover import MoveCounted, Mover, MoveWorker
from tiers.namespace.bucket_rules import RulesOfBuckets
from tiers.upkeep.cursors import MetadataCursors


class Moves(NamedTuple):
    """Who takes wishes for moves, and who does them."""

    mover: Mover
    worker: MoveWorker


def new_moves(store: Store, contents: ContentReader) -> Moves:
    """The mover of this control process; its worker is its own incarnation of it."""
    settings = store.settings
    mover = Mover(store.reader, store.committer, store.catalogue, MetadataCursors(store.reader, store.committer))
    stripes = StripePool(settings.limits.stripe_bytes_max)
    carriage = Carriage(
        contents,
        BlobWriter(store.catalogue, store.fleet, stripes, store.executor, clock=clock, new_id=new_id, rng=rng),
        store.fleet,
        store.catalogue,
        ByteRates(rates_by_tier(settings.moves.tier_bytes_per_second), settings.moves.bytes_per_second, ticks),
        clock,
        new_id,
        rng,
    )
    worker = MoveWorker(
        mover,
        store.reader,
        store.committer,
        carriage,
        owner=f"{worker_number(settings, CONTROL_INDEX)}/{new_id().hex()}",
        schedules=Schedules(RulesOfBuckets(timetables(day_ms_of(settings.seconds_per_day)))),
        observe=_counter(store),
    )
    return Moves(mover, worker)


def _counter(store: Store) -> Callable[[MoveCounted], None]:
    def count(one: MoveCounted) -> None:
        store.families.moves.labels(one.source, one.target, one.reason, one.result).inc()
        if one.byte_count:
            store.families.move_bytes.labels(one.source, one.target, one.reason).inc(one.byte_count)

    return count
