"""A checker of histories: is there one order of all operations that respects time and explains every answer?

Operations of several clients on keys, each with the moment it was sent and the moment its answer was there. A key is
the stack of its versions, newest first, in a plain bucket at most one. Keys are independent, so each is searched alone:
Wing and Gong's search with Lowe's memory of (operations placed, state). Every PUT writes a content of its own, which
cuts the search short: what is overwritten is never read again, and a listing of versions tells in which order they were
made. Pure; knows no store.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise
from typing import NamedTuple

ABSENT = "*absent*"
"""As `Operation.condition`: If-None-Match: *."""

STEPS_MAX = 2_000_000
"""Search steps for one key; a history that needs more is undecided, which is an error and no verdict."""


class Act(Enum):
    """What an operation does to its key."""

    READ = auto()
    LIST = auto()
    READ_VERSION = auto()
    READ_ALL = auto()
    PUT = auto()
    DELETE = auto()
    DELETE_VERSION = auto()


class Answer(Enum):
    """What the client was told. UNKNOWN: it may have happened, then or later, or not at all."""

    DONE = auto()
    ABSENT = auto()
    REFUSED = auto()
    CONFLICT = auto()
    UNKNOWN = auto()


class Entry(NamedTuple):
    """One version: no `etag` is a delete marker; no `version_id` is a plain bucket's, or one that nobody was told."""

    version_id: str
    etag: str


State = tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation on one key; times in any one unit.

    `etag` is what a PUT wrote or a read returned, `version_id` what the store told or the client named, `stack` what
    READ_ALL returned, `condition` the ETag of If-Match or ABSENT.
    """

    client: int
    key: str
    act: Act
    invoked: float
    returned: float
    answer: Answer
    etag: str = ""
    version_id: str = ""
    condition: str = ""
    stack: State = ()
    is_versioned: bool = False

    @property
    def is_settled(self) -> bool:
        """Whether it must have happened by the time its answer was there."""
        return self.answer is not Answer.UNKNOWN

    @property
    def is_idle(self) -> bool:
        """Whether, answered so, it changes nothing in whatever state it may happen."""
        return self.is_settled and (self.act not in WRITES or self.answer is not Answer.DONE)


class Undecided(Exception):
    """The search was given up."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A key without an order. `placed` of its operations fit; `blocked` are those that could have come next."""

    key: str
    placed: int
    total: int
    blocked: tuple[Operation, ...]
    last: tuple[Operation, ...]
    state: State

    def __str__(self) -> str:
        lines = [f"{self.key}: no order of its {self.total} operations; {self.placed} fit, then none of"]
        lines += [f"    {operation}" for operation in self.blocked]
        lines += [f"  after {self.state[:3]} made by", *[f"    {operation}" for operation in self.last]]
        return "\n".join(lines)


def find_faults(history: Iterable[Operation]) -> list[Fault]:
    """The keys whose operations no order explains; empty when the history is linearizable. Errors: Undecided."""
    by_key: defaultdict[str, list[Operation]] = defaultdict(list)
    for operation in history:
        by_key[operation.key].append(operation)
    found = [_Search(key, operations).run() for key, operations in sorted(by_key.items())]
    return [fault for fault in found if fault is not None]


# ------------------------------------------------------------------------------------------- what an operation may do


def step(state: State, operation: Operation) -> State | None:
    """The state behind an operation that is answered as it was; None when that answer is impossible here."""
    if operation.act in WRITES:
        return _write(state, operation)
    return state if READS[operation.act](state, operation) else None


def _current(state: State) -> Entry | None:
    return state[0] if state and state[0].etag else None


def _is_same(entry: Entry, etag: str, version_id: str) -> bool:
    return entry.etag == etag and (not (entry.version_id and version_id) or entry.version_id == version_id)


def _reads_current(state: State, operation: Operation) -> bool:
    current = _current(state)
    if operation.answer is Answer.DONE:
        return current is not None and _is_same(current, operation.etag, operation.version_id)
    # A 404 names the delete marker on top, if there is one.
    top = state[0].version_id if state else ""
    return current is None and (not (operation.version_id and top) or top == operation.version_id)


def _reads_version(state: State, operation: Operation) -> bool:
    found = [entry for entry in state if entry.version_id == operation.version_id]
    if operation.answer is Answer.DONE:
        return bool(found) and found[0].etag == operation.etag
    return not found


def _reads_all(state: State, operation: Operation) -> bool:
    if len(state) != len(operation.stack):
        return False
    return all(_is_same(ours, told.etag, told.version_id) for ours, told in zip(state, operation.stack, strict=True))


READS = {
    Act.READ: _reads_current,
    Act.LIST: _reads_current,
    Act.READ_VERSION: _reads_version,
    Act.READ_ALL: _reads_all,
}
PUSHES = {Act.PUT, Act.DELETE}
WRITES = {*PUSHES, Act.DELETE_VERSION}


def _judged(state: State, condition: str) -> Answer:
    """What the condition of a write comes to."""
    current = _current(state)
    if condition == ABSENT:
        return Answer.DONE if current is None else Answer.REFUSED
    if condition and current is None:
        return Answer.ABSENT
    return Answer.DONE if not condition or (current and current.etag == condition) else Answer.REFUSED


def _write(state: State, operation: Operation) -> State | None:
    if operation.answer is Answer.CONFLICT:
        return state  # told to try again: nothing happened, whatever was there
    judged = _judged(state, operation.condition)
    if operation.is_settled and judged is not operation.answer:
        return None
    return _written(state, operation) if judged is Answer.DONE else state


def _written(state: State, operation: Operation) -> State:
    if operation.act is Act.DELETE_VERSION:
        return tuple([entry for entry in state if entry.version_id != operation.version_id])
    below = state if operation.is_versioned else ()
    if operation.act is Act.PUT:
        return (Entry(operation.version_id, operation.etag), *below)
    return (Entry(operation.version_id, ""), *below) if operation.is_versioned else ()


# ------------------------------------------------------------------------------------------- the search


@dataclass(slots=True)
class _Node:
    """Operations placed so far: all settled ones before `low`, and those of the bits of `mask`, counted from there.

    `used` are the bits of those without an answer.
    """

    low: int
    mask: int
    used: int
    state: State
    branches: list[tuple[int, State]] = field(default_factory=list)
    placed: int = -1
    """The operation whose placing led here."""


class _Search:
    """The search of one key."""

    def __init__(self, key: str, operations: Sequence[Operation]) -> None:
        self._key = key
        self._operations = sorted(operations, key=lambda operation: (not operation.is_settled, operation.invoked))
        self._settled = sum(operation.is_settled for operation in operations)
        self._readers = Counter([wanted for operation in operations if (wanted := _wanted(operation))])
        self._earlier = _order_of_versions(self._operations)
        self._seen: set[tuple[int, int, int, State]] = set()
        self._steps = 0
        written = Counter([operation.etag for operation in operations if operation.act is Act.PUT])
        assert all(count == 1 for count in written.values()), "every PUT writes a content of its own"

    def run(self) -> Fault | None:
        """None when an order exists."""
        path = [self._expanded(_Node(0, 0, 0, ()))]
        best: list[_Node] = path.copy()
        settled = 0
        while settled < self._settled:
            node = path[-1]
            if node.branches:
                index, state = node.branches.pop()
                low, mask, used = self._with(node, index)
                if (low, mask, used, state) not in self._seen:
                    self._seen.add((low, mask, used, state))
                    settled += self._count(index, -1)
                    path.append(self._expanded(_Node(low, mask, used, state, placed=index)))
                    best = path.copy() if len(path) > len(best) + 50 else best
                continue
            if len(path) > len(best):
                best = path.copy()
            path.pop()
            if not path:
                return self._fault(best)
            settled += self._count(node.placed, +1)
        return None

    def _with(self, node: _Node, index: int) -> tuple[int, int, int]:
        """`low`, `mask` and `used` with one operation more."""
        if index >= self._settled:
            return node.low, node.mask, node.used | 1 << (index - self._settled)
        mask = node.mask | 1 << (index - node.low)
        placed = (~mask & mask + 1).bit_length() - 1  # so many from `low` on, one after the other
        return node.low + placed, mask >> placed, node.used

    def _count(self, index: int, change: int) -> int:
        """Note that an operation was placed (-1) or taken back (+1); by how much that moves the settled ones."""
        operation = self._operations[index]
        if wanted := _wanted(operation):
            self._readers[wanted] += change
        return -change * operation.is_settled

    def _expanded(self, node: _Node) -> _Node:
        """With what may come next, the best last."""
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise Undecided(f"{self._key}: gave up after {STEPS_MAX} steps")
        for index in self._candidates(node):
            operation = self._operations[index]
            after = step(node.state, operation)
            if after is None or not self._may_follow(node, operation, after):
                continue
            if operation.is_idle:
                node.branches = [(index, after)]  # it changes nothing wherever it stands: no order is lost
                break
            node.branches.append((index, after))
        return node

    def _may_follow(self, node: _Node, operation: Operation, after: State) -> bool:
        """Whether what the operation covers is read no more, and older versions are there already."""
        older = self._earlier[operation.version_id] if operation.act in PUSHES else ()
        if not all(self._is_placed(node, index) for index in older):
            return False
        if operation.is_versioned or not node.state or after == node.state:
            return True
        covered = node.state[0].etag
        return self._readers[covered] == (_wanted(operation) == covered)

    def _is_placed(self, node: _Node, index: int) -> bool:
        if index >= self._settled:
            return bool(node.used >> (index - self._settled) & 1)
        return index < node.low or bool(node.mask >> (index - node.low) & 1)

    def _candidates(self, node: _Node) -> list[int]:
        """Operations that may come next, answered last first: all sent before the first answer of one not placed."""
        found: list[int] = []
        bound = math.inf
        for index in range(node.low, self._settled):
            operation = self._operations[index]
            if operation.invoked > bound:
                break
            if not node.mask >> (index - node.low) & 1:
                found.append(index)
                bound = min(bound, operation.returned)
        found.sort(key=lambda index: -self._operations[index].returned)
        unknown = range(self._settled, len(self._operations))
        late = [n for n in unknown if not self._is_placed(node, n) and self._operations[n].invoked <= bound]
        return late + found

    def _fault(self, best: list[_Node]) -> Fault:
        node = best[-1]
        blocked = tuple([self._operations[index] for index in self._candidates(node)])
        last = tuple([self._operations[node.placed] for node in best[1:][-3:]])
        return Fault(self._key, len(best) - 1, len(self._operations), blocked, last, node.state)


def _wanted(operation: Operation) -> str:
    """The content that an answer shows to have been the current one; empty when it shows none."""
    if operation.answer is not Answer.DONE:
        return ""
    if operation.act in WRITES:
        return "" if operation.condition == ABSENT else operation.condition
    return operation.etag if operation.act in {Act.READ, Act.LIST} else ""


def _order_of_versions(operations: Sequence[Operation]) -> defaultdict[str, set[int]]:
    """For version ids the writes that came before them, as the listings of all versions tell."""
    made = {one.version_id: n for n, one in enumerate(operations) if one.act in PUSHES and one.version_id}
    listings = [[entry.version_id for entry in one.stack] for one in operations if one.act is Act.READ_ALL]
    pairs = [pair for listed in listings for pair in pairwise(listed)]
    earlier: defaultdict[str, set[int]] = defaultdict(set)
    for newer, older in pairs:
        if newer and older in made:
            earlier[newer].add(made[older])
    return earlier
