"""A page of a listing costs what it returns, whatever the bucket holds and whatever common prefixes hide.

Rows come from a reader that counts them, work from SQLite's own count of its virtual machine's steps; keys are written
through the metadata layer. Nightly: a million keys, and the same pages over HTTP with their times.
"""

import asyncio
import os
import re
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from metadata.contract import Metadata
from metadata.session import open_metadata
from metadata.sqlite import SqliteReader
from metadata.tables import BUCKET, OBJECT
from metadata.types import Bucket
from tests.live import LiveStore
from tests.metadata_rows import version
from tests.property.test_listing import CountingReader
from tests.protocol.raw import Request, Wire
from tiers.namespace.context import S3_LIMITS, Context
from tiers.namespace.listing import ROWS_MIN, Listing
from tiers.namespace.types import ListPage, ListQuery

pytestmark = [pytest.mark.probe, pytest.mark.timeout(1800)]
IS_NIGHTLY = bool(os.environ.get("ISOTHERM_NIGHTLY"))
KEYS = 1_000_000 if IS_NIGHTLY else 20_000
SIZES = [count for count in (1_000, 10_000, 20_000, 100_000, 1_000_000) if count <= KEYS]
PREFIXES = 1_000
ROWS_A_COMMIT = 20_000
STEPS_UNIT = 100
"""Virtual machine steps that count as one."""
LISTING_SECONDS_MAX = 0.050
PAGE_GROWTH_MAX = 1.5


def key_of(number: int, count: int) -> bytes:
    """Keys below so many prefixes, as many below each."""
    return b"p%03d/k%07d" % (number * PREFIXES // count, number)


def fill(metadata: Metadata, bucket: Bucket, count: int) -> None:
    """A bucket with `count` keys, past log and devices."""
    with closing(metadata.open_writer()) as writer:
        for start in range(0, count, ROWS_A_COMMIT):
            with writer.transaction() as transaction:
                transaction.begin_step()
                if start == 0:
                    transaction.put(BUCKET, bucket)
                for number in range(start, min(start + ROWS_A_COMMIT, count)):
                    made = version(key_of(number, count), number + 1, bucket_id=bucket.bucket_id, version_id="null")
                    transaction.put(OBJECT, made._replace(is_delete_marker=0, noncurrent_ms=0, lock=b"", checksum=""))
                transaction.commit(transaction.head)
    metadata.checkpoint()


def new_bucket(number: int, name: str) -> Bucket:
    return Bucket(name, number, "owner", 1, 1, "us-east-1", 0, 0, 0, 1)


@dataclass
class Cost:
    """What one page took."""

    page: ListPage
    rows: int
    statements: int
    steps: int


class Store:
    """Buckets of several sizes in one database, and a listing whose reader is counted."""

    def __init__(self, path: Path) -> None:
        self.metadata = open_metadata(f"sqlite:///{path / 'index.db'}")
        self.metadata.migrate()
        for number, count in enumerate(SIZES, start=1):
            fill(self.metadata, new_bucket(number, f"keys-{count}"), count)
        self.runner = asyncio.Runner()
        inner = self.runner.run(self.metadata.open_reader())
        assert isinstance(inner, SqliteReader)
        self.reader = CountingReader(inner)
        nothing: Any = None
        reader: Any = self.reader
        context = Context(reader, nothing, nothing, nothing, nothing, nothing, nothing, S3_LIMITS, nothing)
        self.listing = Listing(context)
        self._steps = 0
        self._driver: Any = inner._pooled.driver_connection

    def _count(self) -> int:
        self._steps += 1
        return 0

    def cost(self, query: ListQuery) -> Cost:
        """List once and tell what that took."""
        rows, statements, steps = self.reader.rows_read, self.reader.pages_read, self._steps
        self._driver.set_progress_handler(self._count, STEPS_UNIT)
        page = self.runner.run(self.listing.objects(query))
        self._driver.set_progress_handler(None, 0)
        return Cost(page, self.reader.rows_read - rows, self.reader.pages_read - statements, self._steps - steps)

    def median_seconds(self, *queries: ListQuery, times: int = 101) -> list[float]:
        """Of so many listings each, in turns, so that what else the machine does meets all of them."""
        taken: list[list[float]] = [[] for _ in queries]
        for _ in range(times):
            for query, seconds in zip(queries, taken, strict=True):
                began = time.perf_counter()
                self.runner.run(self.listing.objects(query))
                seconds.append(time.perf_counter() - began)
        return list(map(statistics.median, taken))

    def close(self) -> None:
        self.runner.run(self.reader.close())
        self.runner.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store(tmp_path_factory.mktemp("scale"))
    yield opened
    opened.close()


def named(count: int, **changed: Any) -> ListQuery:
    return ListQuery(**{"bucket": f"keys-{count}", "limit": 1000, **changed})


@pytest.mark.parametrize("limit", [10, 100, 1000])
def test_common_prefixes_cost_a_step_each_whatever_they_hide(store: Store, limit: int) -> None:
    costs = [store.cost(named(count, delimiter="/", limit=limit)) for count in SIZES]
    for cost in costs:
        assert len(cost.page.common_prefixes) == limit
        assert cost.page.is_truncated == (limit < PREFIXES)
        assert cost.rows <= limit + 1 + ROWS_MIN
        assert cost.statements <= 2
    assert costs[-1].steps <= 1.2 * costs[0].steps + 10, [cost.steps for cost in costs]


def test_what_a_page_costs_grows_with_what_it_returns(store: Store) -> None:
    for query in (named(KEYS, delimiter="/"), named(KEYS), named(KEYS, prefix="p5"), named(KEYS, after="p500")):
        ten, hundred, thousand = (store.cost(replace(query, limit=limit)) for limit in (10, 100, 1000))
        assert ten.rows <= 11 + ROWS_MIN
        assert hundred.rows <= 101 + ROWS_MIN
        assert thousand.rows <= 1001 + ROWS_MIN
        assert thousand.steps <= 12 * hundred.steps + 10, (query, hundred.steps, thousand.steps)
        assert hundred.steps <= 12 * ten.steps + 10, (query, ten.steps, hundred.steps)


def test_keys_between_common_prefixes_cost_no_more(store: Store) -> None:
    """Every key under a prefix stands alone; every prefix is followed by one that does not."""
    inner = store.cost(named(KEYS, prefix="p500/", delimiter="/"))
    assert len(inner.page.entries) == min(1000, KEYS // PREFIXES)
    assert inner.rows <= 3 * len(inner.page.entries) + ROWS_MIN


def test_pages_cost_the_same_wherever_they_are(store: Store) -> None:
    pages = {
        (count, place): store.cost(named(count, after=f"p{place:03d}", limit=100))
        for count in SIZES
        for place in (0, 300, 899)
    }
    steps = sorted(cost.steps for cost in pages.values())
    assert {cost.rows for cost in pages.values()} == {101}
    assert steps[-1] <= 1.2 * steps[0] + 10, {place: cost.steps for place, cost in pages.items()}


@pytest.mark.nightly
def test_a_million_keys_are_listed_as_fast_as_a_thousand(store: Store) -> None:
    delimited, *medians = store.median_seconds(named(KEYS, delimiter="/"), *[named(count) for count in SIZES])
    pages = ", ".join([f"{1e3 * median:.2f} ms of {count}" for count, median in zip(SIZES, medians, strict=True)])
    print(f"1,000 prefixes over {KEYS} keys: {1e3 * delimited:.1f} ms; a page of 1,000 keys: {pages}")
    assert delimited <= LISTING_SECONDS_MAX
    assert max(medians) <= PAGE_GROWTH_MAX * min(medians)


@pytest.mark.nightly
def test_pages_over_http(tmp_path: Path) -> None:
    store = LiveStore(tmp_path / "data", workers=1)
    with store:
        store.client().create_bucket(Bucket="keys")
        row = asyncio.run(bucket_row(store.data))
    fill(open_metadata(f"sqlite:///{store.data / 'metadata.db'}"), row, KEYS)
    with store:
        wire = Wire(store)
        prefixes, listing = median_seconds(wire, "delimiter=%2F&list-type=2")
        assert listing.count(b"<CommonPrefixes>") == 1000
        seconds = walk(wire)
        tenth = len(seconds) // 10
        first, last = statistics.median(seconds[:tenth]), statistics.median(seconds[-tenth:])
        print(f"over HTTP: 1,000 prefixes over {KEYS} keys {1e3 * prefixes:.1f} ms; a page of 1,000 keys (p50)"
              f" {1e3 * first:.1f} ms in the first tenth of the bucket, {1e3 * last:.1f} ms in the last")  # fmt: skip
        assert prefixes <= LISTING_SECONDS_MAX
        assert last <= PAGE_GROWTH_MAX * first


def walk(wire: Wire) -> list[float]:
    """Seconds of every page of the bucket, in order."""
    seconds: list[float] = []
    walked, token = 0, ""
    while True:
        began = time.perf_counter()
        body = wire.call(Request("GET", "/keys", f"{token}list-type=2")).body
        seconds.append(time.perf_counter() - began)
        walked += body.count(b"<Contents>")
        found = re.search(rb"<NextContinuationToken>([^<]*)", body)
        if found is None:
            assert walked == KEYS
            return seconds
        token = f"continuation-token={quote(found[1], safe='')}&"


async def bucket_row(data: Path) -> Bucket:
    reader = await open_metadata(f"sqlite:///{data / 'metadata.db'}").open_reader()
    try:
        row = await reader.find_bucket("keys")
        assert row is not None
        return row
    finally:
        await reader.close()


def median_seconds(wire: Wire, query: str, times: int = 31) -> tuple[float, bytes]:
    """Of one listing over HTTP; and its answer."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        answer = wire.call(Request("GET", "/keys", query))
        taken.append(time.perf_counter() - began)
        assert answer.status == 200, answer
    return statistics.median(taken), answer.body
