"""Transactions against a plain dictionary: any order of puts, deletes, reads, undone steps, selects and endings."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metadata.contract import Metadata, Transaction, Writer
from metadata.tables import CURSOR, NONCURRENT, OBJECT, Table
from tests.metadata_rows import ask, sample, version

Key = tuple[Any, ...]
State = dict[tuple[Table[Any], Key], Any]

LOGGED: tuple[Table[Any], ...] = (OBJECT, NONCURRENT)
USED: tuple[Table[Any], ...] = (*LOGGED, CURSOR)
ROWS: list[tuple[Table[Any], Any]] = [
    *[(OBJECT, version(key, 1)) for key in (b"", b"a", b"a\x00", b"\xff")],
    *[(NONCURRENT, version(b"a", sequence)) for sequence in (1, 2, 3)],
    *[(CURSOR, sample(CURSOR, number)) for number in (1, 2)],
]
SLOTS = st.sampled_from(ROWS)
OPERATIONS = st.one_of(
    st.tuples(st.just("put"), SLOTS, st.integers(0, 9)),
    st.tuples(st.just("delete"), SLOTS, st.just(0)),
    st.tuples(st.just("get"), SLOTS, st.just(0)),
    st.tuples(st.sampled_from(["step", "undo", "scan", "newest", "prefetch"]), SLOTS, st.just(0)),
)
Operation = tuple[str, tuple[Table[Any], Any], int]
TRANSACTIONS = st.lists(st.tuples(st.lists(OPERATIONS, max_size=25), st.booleans()), min_size=1, max_size=4)


@dataclass
class Model:
    """What one transaction should see."""

    seen: State
    before_step: State = field(default_factory=dict)
    has_put: bool = False

    def begin(self) -> None:
        self.before_step, self.has_put = dict(self.seen), False

    def undo(self) -> None:
        self.seen, self.has_put = dict(self.before_step), False

    def put(self, table: Table[Any], key: Key, row: Any) -> None:
        self.has_put = True
        self.seen.pop((table, key), None)
        if row is not None:
            self.seen[table, key] = row

    def rows(self, table: Table[Any]) -> list[Any]:
        return sorted((row for (of, _), row in self.seen.items() if of is table), key=table.key_of)


def select(transaction: Transaction, model: Model, action: str, table: Table[Any]) -> None:
    if model.has_put:
        transaction.begin_step()
        model.begin()
    if action == "scan":
        assert transaction.scan(table, None, 99) == model.rows(table)
    else:
        newest = [row for row in model.rows(NONCURRENT) if row.key == b"a"]
        assert transaction.select_newest_noncurrent(1, b"a") == (newest[-1] if newest else None)


def apply(transaction: Transaction, model: Model, operation: Operation) -> None:
    action, (table, row), number = operation
    key = table.key_of(row)
    if action == "put":
        changed = table.row(*key, *[type(value)(number) for value in row[table.key_columns :]])
        transaction.put(table, changed)
        model.put(table, key, changed)
    elif action == "delete":
        transaction.delete(table, key)
        model.put(table, key, None)
    elif action == "get":
        assert transaction.get(table, key) == model.seen.get((table, key))
    elif action == "step":
        transaction.begin_step()
        model.begin()
    elif action == "undo":
        transaction.undo_step()
        model.undo()
    elif action == "prefetch":
        transaction.prefetch([(of, of.key_of(each)) for of, each in ROWS])
    else:
        select(transaction, model, action, table)


def start_over(writer: Writer) -> None:
    with writer.transaction() as transaction:
        transaction.begin_step()
        found = [(table, row) for table in USED for row in transaction.scan(table, None, 99)]
        for table, row in found:
            transaction.delete(table, table.key_of(row))
        transaction.commit(transaction.head)


def check_changes(transaction: Transaction, model: Model, committed: State) -> None:
    """Replaying the changes over what was committed gives what the transaction sees, logged tables only."""
    replayed = dict(committed)
    for table, key, row in transaction.changes():
        assert table.is_logged
        replayed.pop((table, key), None)
        if row is not None:
            replayed[table, key] = row
    assert {at: row for at, row in replayed.items() if at[0].is_logged} == {
        at: row for at, row in model.seen.items() if at[0].is_logged
    }


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(transactions=TRANSACTIONS)
def test_transactions_agree_with_a_dictionary(
    metadata: Metadata, writer: Writer, transactions: list[tuple[list[Operation], bool]]
) -> None:
    start_over(writer)
    committed: State = {}
    for operations, is_committed in transactions:
        model = Model(dict(committed))
        with writer.transaction() as transaction:
            transaction.begin_step()
            model.begin()
            for operation in operations:
                apply(transaction, model, operation)
            check_changes(transaction, model, committed)
            if is_committed:
                transaction.commit(transaction.head)
                committed = model.seen
    for table in USED:
        stored = ask(metadata, lambda reader, of=table: reader.scan(of, None, 99))  # type: ignore[misc]
        assert stored == Model(committed).rows(table)
