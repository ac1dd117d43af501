"""Rows that earlier programs stored, in the database and in the commit log, become the same rows of this one."""

from pathlib import Path
from typing import Any

import msgpack
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from metadata.migration import SCRIPTS
from metadata.session import open_metadata
from metadata.tables import (
    BUCKET,
    EARLIER,
    EXTENT,
    NONCURRENT,
    OBJECT,
    PART,
    PRINCIPAL,
    UPLOAD,
    USAGE,
    Table,
    stored_row,
)
from tests.metadata_rows import ask
from tests.unit.metadata.test_schema import inspect
from tiers.commit.log import decode_record
from tiers.commit.references import apply_images

# The columns as revision 0001 has them.
VERSION = (7, b"k", 9, "v", 0, 3, "e", 5, "STANDARD", "hot", "o", b"at", "sum", b"parts", b"tags", b"", 0)
ROWS: dict[Table[Any], tuple[Any, ...]] = {
    BUCKET: ("b", 7, "o", 1, 1, "us-east-1", 1, 2, 30),
    OBJECT: VERSION,
    NONCURRENT: VERSION,
    UPLOAD: ("u", 7, b"k", "o", 1, 0, "STANDARD", "hot", b"at", b"tags", "CRC32", "COMPOSITE", b"", 0),
    PART: ("u", 1, 9, 3, "e", 5, "sum", b""),
    PRINCIPAL: ("p", "name", 0, 1, 5),
}
NEW: dict[str, Any] = {
    "revision": 7,
    "acl": b"",
    "lock": b"",
    "encryption": b"",
    "initiator_id": "o",
    "email": "",
    "tenant": "",
    "quotas": b"",
}


def names_of(table: Table[Any]) -> list[str]:
    """The columns of revision 0001."""
    return [name for name in table.row._fields if name not in NEW]


@pytest.mark.parametrize("table", ROWS, ids=lambda table: table.name)
def test_a_stored_row_gets_the_new_columns(table: Table[Any]) -> None:
    row = stored_row(table, ROWS[table])
    old = dict(zip(names_of(table), ROWS[table], strict=True))
    assert row._asdict() == {name: old.get(name, NEW.get(name)) for name in table.row._fields}
    assert stored_row(table, row) == row, "a row of this program is left as it is"


def test_nothing_else_is_completed() -> None:
    assert {(table, len(row)) for table, row in ROWS.items()} == set(EARLIER)
    with pytest.raises(TypeError):
        stored_row(BUCKET, ROWS[BUCKET][:-1])


def at_0001(connection: Connection) -> None:
    """The schema of revision 0001 with one row in each table that changed since."""
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "0001")
    for table, row in ROWS.items():
        names = names_of(table)
        marks = ", ".join(f":{name}" for name in names)
        insert = text(f"insert into {table.name} ({', '.join(names)}) values ({marks})")
        connection.execute(insert, dict(zip(names, row, strict=True)))
    more = ("c", 8, "o", 1, 0, "us-east-1", 4, 4, 500), ("d", 9, "other", 1, 0, "us-east-1", 0, 0, 0)
    for row in more:
        insert = text(f"insert into bucket values ({', '.join(f':{name}' for name in names_of(BUCKET))})")
        connection.execute(insert, dict(zip(names_of(BUCKET), row, strict=True)))


def test_the_migration_gives_what_the_log_gives(database_url: str) -> None:
    inspect(database_url, at_0001)
    metadata = open_metadata(database_url)
    metadata.migrate()
    for table, row in ROWS.items():
        expected = stored_row(table, row)
        assert ask(metadata, lambda reader, t=table, r=expected: reader.get_row(t, t.key_of(r))) == expected
    assert ask(metadata, lambda reader: reader.scan(USAGE, None, 9)) == [("o", 5, 530)], "none for who has nothing"


def test_a_record_of_an_earlier_program_brings_rows_and_usage(tmp_path: Path) -> None:
    metadata = open_metadata(f"sqlite:///{tmp_path}/m.db")
    metadata.migrate()
    writer = metadata.open_writer()
    for counters in ((1, 2, 30), (2, 3, 90)):
        images = [(BUCKET.code, *ROWS[BUCKET][:6], *counters), (OBJECT.code, *VERSION)]
        with writer.transaction() as transaction:
            apply_images(transaction, decode_record(msgpack.packb(images)))
            transaction.commit(transaction.head)
        assert ask(metadata, lambda reader: reader.scan(USAGE, None, 9)) == [("o", counters[0], counters[2])]
    with writer.transaction() as transaction:
        apply_images(transaction, decode_record(msgpack.packb([(-BUCKET.code, "b")])))
        transaction.commit(transaction.head)
    assert ask(metadata, lambda reader: reader.scan(USAGE, None, 9)) == []
    assert ask(metadata, lambda reader: reader.scan(EXTENT, None, 9)) == []
    writer.close()
