"""What only SQLite promises: settings that are read back, plans without a sort, the lock file, the checkpoint."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from metadata.errors import MetadataRefused, MetadataUnavailable
from metadata.lock_file import LockFile
from metadata.session import open_metadata
from metadata.sqlite_connection import LOCATE, LOG_FRAMES_MAX, SEEKS, TEXTS, configure, refuse_weak
from metadata.sqlite_writer import SqliteWriter
from metadata.tables import BUCKET, NONCURRENT, OBJECT, TABLES
from metadata.types import ChainHead
from tests.metadata_rows import commit, sample, version


@pytest.fixture
def driver(sqlite_url: str) -> Iterator[sqlite3.Connection]:
    open_metadata(sqlite_url).migrate()
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    configure(connection)
    yield connection
    connection.close()


def test_weaker_settings_are_refused(driver: sqlite3.Connection) -> None:
    refuse_weak(driver)
    driver.execute("pragma synchronous = full")
    refuse_weak(driver)
    driver.execute("pragma synchronous = off")
    with pytest.raises(MetadataRefused, match="synchronous"):
        refuse_weak(driver)
    driver.execute("pragma synchronous = normal")
    driver.execute("pragma journal_mode = delete")
    with pytest.raises(MetadataRefused, match="journal_mode"):
        refuse_weak(driver)


def test_a_database_that_cannot_keep_a_log_is_refused() -> None:
    memory = sqlite3.connect(":memory:")
    with pytest.raises(MetadataRefused, match="journal_mode"):
        configure(memory)
    memory.close()


def plan(driver: sqlite3.Connection, text: str) -> list[str]:
    parameters = [1] * text.count("?")
    return [row[3] for row in driver.execute("explain query plan " + text, parameters)]


def test_no_statement_scans_or_sorts_a_table(driver: sqlite3.Connection) -> None:
    texts = [LOCATE, *TEXTS.get_row.values(), *TEXTS.scan_after.values(), *TEXTS.page_objects.values()]
    texts += [*TEXTS.page_uploads.values(), TEXTS.newest_noncurrent, TEXTS.find_noncurrent, TEXTS.list_buckets]
    texts += [TEXTS.page_parts, TEXTS.select_parts, TEXTS.select_open_uploads, TEXTS.select_references]
    texts += [TEXTS.list_dead_blobs, TEXTS.has_versions, TEXTS.select_open_packs]
    for text in texts:
        steps = plan(driver, text)
        assert not [step for step in steps if step.startswith("SCAN") and step != "SCAN CONSTANT ROW"], (text, steps)
        assert "TEMP B-TREE" not in " ".join(steps) or text == TEXTS.select_open_packs, (text, steps)
    for text in (SEEKS.find_version, *SEEKS.leap.values()):
        scanned = {step.split()[1] for step in plan(driver, text) if step.startswith("SCAN")}
        assert scanned <= {"given", "walk", "every", "CONSTANT", "anon_1", "anon_2", "found_0", "found_1"}, (
            text,
            scanned,
        )
    for text in (*TEXTS.page_versions.values(), TEXTS.versions_before):
        halves = [step for step in plan(driver, text) if "object" in step or "noncurrent" in step]
        assert [half.split()[0] for half in halves] == ["SEARCH", "SEARCH"]
        # What is merged is at most one page from each half: neither half sorts before its limit.
        assert "newest" in halves[1] or "PRIMARY KEY (bucket_id=? AND key=? AND sequence<?)" in halves[1]
    for table in TABLES:
        assert "TEMP B-TREE" not in " ".join(plan(driver, TEXTS.scan_first[table]))


def test_the_lock_file_counts_without_repeating(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = LockFile(path), LockFile(path)
    assert first.next_sequence(5, 0) == 1
    assert second.next_sequence(1, 0) == 6
    assert first.next_sequence(2, 100) == 101
    assert second.next_sequence(1, 50) == 103
    first.close()
    first.close()
    with pytest.raises(MetadataUnavailable):
        first.next_sequence(1, 0)
    second.close()
    with pytest.raises(MetadataUnavailable):
        LockFile(tmp_path / "missing" / "lock")


def test_the_lock_keeps_a_second_writer_of_the_same_process_out(tmp_path: Path) -> None:
    first, second = LockFile(tmp_path / "lock"), LockFile(tmp_path / "lock")
    entered: list[str] = []

    def enter() -> None:
        with second.held():
            entered.append("second")

    thread = threading.Thread(target=enter)
    with first.held():
        thread.start()
        thread.join(timeout=0.05)
        entered.append("first")
    thread.join()
    assert entered == ["first", "second"]
    first.close()
    second.close()


def test_a_lost_lock_file_never_falls_behind_the_chain(sqlite_url: str) -> None:
    metadata = open_metadata(sqlite_url)
    metadata.migrate()
    writer = metadata.open_writer()
    with writer.transaction() as transaction:
        transaction.commit(ChainHead(0, 40, b"head"))
    writer.close()
    Path(sqlite_url.removeprefix("sqlite:///") + ".lock").unlink()
    writer = metadata.open_writer()
    with writer.transaction():
        assert writer.next_sequence(1, 0) == 41
    writer.close()


def test_a_checkpoint_empties_the_log_and_only_a_long_one_takes_the_lock(sqlite_url: str) -> None:
    metadata = open_metadata(sqlite_url)
    metadata.migrate()
    writer = metadata.open_writer()
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    log = Path(f"{path}-wal")
    commit(writer, *[(OBJECT, version(b"%d" % n, n, attributes=bytes(5000))) for n in range(100)])
    written = log.stat().st_size
    with writer.transaction():
        metadata.checkpoint()  # would wait for ever if it took the lock
    assert path.stat().st_size > 400_000
    commit(writer, (OBJECT, version(b"again", 1)))
    assert log.stat().st_size == written  # the log began anew instead of growing
    assert written < LOG_FRAMES_MAX * 4096
    writer.close()


def test_errors_are_in_the_words_of_this_package(tmp_path: Path) -> None:
    missing = open_metadata(f"sqlite:///{tmp_path}/missing/isotherm.db")
    for act in (missing.migrate, missing.check, missing.checkpoint, missing.open_writer):
        with pytest.raises(MetadataUnavailable):
            act()
    empty = open_metadata(f"sqlite:///{tmp_path}/empty.db")
    writer = empty.open_writer()
    with pytest.raises(MetadataUnavailable, match="no such table"):
        commit(writer, (BUCKET, sample(BUCKET, 1)))
    writer.close()

    async def read() -> None:
        reader = await empty.open_reader()
        with pytest.raises(MetadataUnavailable):
            await reader.locate("b", b"k")
        with pytest.raises(MetadataUnavailable):
            await reader.scan(OBJECT, None, 1)
        await reader.close()

    asyncio.run(read())


def test_a_writer_goes_on_after_a_commit_that_failed(sqlite_url: str, driver: sqlite3.Connection) -> None:
    metadata = open_metadata(sqlite_url)
    writer = metadata.open_writer()
    driver.execute("create trigger full_disk before insert on chain begin select raise(rollback, 'planted'); end")
    with pytest.raises(MetadataUnavailable, match="planted"):
        commit(writer, (BUCKET, sample(BUCKET, 1)))
    driver.execute("drop trigger full_disk")
    commit(writer, (BUCKET, sample(BUCKET, 2)))
    assert driver.execute("select name from bucket").fetchall() == [("t0002",)]
    writer.close()


def test_a_transaction_that_sqlite_rolled_back_writes_nothing_more(sqlite_url: str) -> None:
    metadata = open_metadata(sqlite_url)
    metadata.migrate()
    writer = metadata.open_writer()
    assert isinstance(writer, SqliteWriter)
    commit(writer, (OBJECT, version(b"kept", 1)))
    pages = writer._driver.execute("pragma page_count").fetchone()[0]
    with writer.transaction() as transaction:
        transaction.begin_step()
        transaction.delete(OBJECT, (1, b"kept"))
        transaction.put(NONCURRENT, version(b"kept", 1))
        transaction.begin_step()
        assert transaction.select_newest_noncurrent(1, b"kept") is not None  # flushed: first half of the change
        transaction.put(NONCURRENT, version(b"large", 2, attributes=bytes(1 << 20)))
        writer._driver.execute(f"pragma max_page_count = {pages + 20}")
        transaction.begin_step()
        with pytest.raises(MetadataUnavailable, match="full"):
            transaction.select_newest_noncurrent(1, b"kept")
        transaction.undo_step()
        writer._driver.execute("pragma max_page_count = 1000000")  # there is room again before the batch ends
        with pytest.raises(MetadataUnavailable, match="rolled back"):
            transaction.commit(ChainHead(0, 5, b"b" * 16))
    with writer.transaction() as transaction:
        assert transaction.head.sequence == 0
        assert transaction.get(OBJECT, (1, b"kept")) is not None
    writer.close()
