"""The protocol of moves as a model that is searched whole: every interleaving, every crash, every early end of a lease.

One or two keys whose versions share a blob (as copies and packs do); movers, one of which takes all keys into one new
blob; an overwriting PUT, a DELETE, a reader, the reaper, reclaim, and the survey for files without a row. A blob stands
for all its files. Time is not modelled: a reader's pin and a client's upload, which the product protects by a grace
that is longer than both, are exact here; everything else may happen at any moment.

    python -m tests.simulation.move_protocol [--crashes N] [variant ...]

prints a line a variant: states explored and the verdict. A mutant is the protocol without one of its rules, and the
invariant named beside it must break.

I1  a committed row never points to missing bytes
I2  a reader that resolved a row never loses its bytes while it reads
I3  at rest the files are exactly those of the blobs that rows point to
I4  a deleted or overwritten version never comes back
"""

import argparse
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

PENDING, LIVE, DEAD = "pending", "live", "dead"
OLD, NEW = 1, 2
STATES_MAX = 5_000_000

MUTANTS = {
    "no-survey": "I3",
    "drops-what-it-saw": "I3",
    "no-cas": "I4",
    "no-pending-check": "I1",
    "immediate-delete": "I2",
    "delete-before-commit": "I1",
    "reclaim-ignores-readers": "I2",
    "survey-ignores-pending": "I1",
}


class Row(NamedTuple):
    """The committed row of a key: its version and the blob that holds the bytes. Blobs are never used twice."""

    version: int
    blob: int


Rows = tuple[Row | None, ...]


class Actor(NamedTuple):
    """One process: its kind, the keys it is about, its next step ("end" when over), what it remembers."""

    kind: str
    keys: tuple[int, ...]
    step: int | str
    memory: Any


class State(NamedTuple):
    """Everything in which two moments can differ."""

    rows: Rows
    blobs: tuple[tuple[int, str], ...]
    files: frozenset[int]
    actors: tuple[Actor, ...]
    crashes: int
    next_blob: int


class Found(NamedTuple):
    """Distinct states explored, and "OK", "LIMIT" or the invariant that broke."""

    states: int
    verdict: str


def start_of(keys: int) -> State:
    """All keys share one live blob. With one key two movers race for it; with two, one takes both and one the first."""
    first, every = (0,), tuple(range(keys))
    actors = (
        Actor("mover", every, 0, None),
        Actor("mover", first, 0, None),
        Actor("writer", first, 0, None),
        Actor("deleter", every[-1:], 0, None),
        Actor("reader", first, 0, None),
    )
    return State((Row(OLD, 0),) * keys, ((0, LIVE),), frozenset([0]), actors, 0, 10)


def with_blob(state: State, blob: int, status: str | None) -> State:
    """The state with one blob's row set, or gone."""
    rows = dict(state.blobs)
    if status is None:
        rows.pop(blob, None)
    else:
        rows[blob] = status
    return state._replace(blobs=tuple(sorted(rows.items())))


def with_rows(state: State, rows: Rows) -> State:
    """The state with these rows of keys; a live blob that no row points to any more is dead."""
    after = state._replace(rows=rows)
    held = {row.blob for row in rows if row is not None}
    for blob, status in state.blobs:
        if status == LIVE and blob not in held:
            after = with_blob(after, blob, DEAD)
    return after


def changed(rows: Rows, key: int, row: Row | None) -> Rows:
    """Rows with one of them replaced."""
    return (*rows[:key], row, *rows[key + 1 :])


def mover(state: State, actor: Actor, mutant: str) -> tuple[State, Actor]:
    """Announce a pending blob, copy, swap each key for itself."""
    done = actor._replace(step="end", memory=None)
    if actor.step == 0:
        seen = tuple(state.rows[key] for key in actor.keys)
        if not any(seen):
            return state, done
        announced = with_blob(state, state.next_blob, PENDING)._replace(next_blob=state.next_blob + 1)
        return announced, actor._replace(step=1, memory=(seen, state.next_blob))
    seen, blob = actor.memory
    if actor.step == 1:
        files = state.files | {blob}
        if mutant == "delete-before-commit":
            files -= {row.blob for row in seen if row is not None}
        return state._replace(files=files), actor._replace(step=2)
    if dict(state.blobs).get(blob) != PENDING and mutant != "no-pending-check":
        return state, done
    rows = state.rows
    for key, row in zip(actor.keys, seen, strict=True):
        if row is not None and may_swap(rows[key], row, mutant):
            rows = changed(rows, key, Row(row.version, blob))
    if rows == state.rows:
        return (with_blob(state, blob, DEAD) if blob in dict(state.blobs) else state), done
    old = {row.blob for row in state.rows if row is not None}
    after = with_rows(with_blob(state, blob, LIVE), rows)
    if mutant == "drops-what-it-saw":
        after = with_blob(state, blob, LIVE)._replace(rows=rows)
        for lost in {row.blob for row in seen if row is not None} - {row.blob for row in rows if row is not None}:
            after = with_blob(after, lost, DEAD) if lost in dict(after.blobs) else after
    if mutant == "immediate-delete":
        held = {row.blob for row in rows if row is not None}
        after = after._replace(files=after.files - (old - held))
    return after, done


def may_swap(now: Row | None, seen: Row, mutant: str) -> bool:
    """Whether a key's row is still the one that was copied."""
    if mutant == "no-cas":
        return True
    if mutant == "drops-what-it-saw":
        return now is not None and now.version == seen.version
    return now == seen


def writer(state: State, actor: Actor, mutant: str) -> tuple[State, Actor]:
    """Overwriting PUT: its files first, their row with the commit; the grace keeps the survey from them until then."""
    if actor.step == 0:
        blob = state.next_blob
        return state._replace(files=state.files | {blob}, next_blob=blob + 1), actor._replace(step=1, memory=blob)
    rows = changed(state.rows, actor.keys[0], Row(NEW, actor.memory))
    return with_rows(with_blob(state, actor.memory, LIVE), rows), actor._replace(step="end", memory=None)


def deleter(state: State, actor: Actor, mutant: str) -> tuple[State, Actor]:
    """DELETE: one transaction."""
    return with_rows(state, changed(state.rows, actor.keys[0], None)), actor._replace(step="end")


def reader(state: State, actor: Actor, mutant: str) -> tuple[State, Actor]:
    """Resolve the row, which pins its blob, then read."""
    row = state.rows[actor.keys[0]]
    if actor.step == 0 and row is not None:
        return state, actor._replace(step=1, memory=row.blob)
    return state, actor._replace(step="end", memory=None)


STEPS = {"mover": mover, "writer": writer, "deleter": deleter, "reader": reader}


def upkeep(state: State, mutant: str) -> Iterator[State]:
    """Reaper (a lease may end now), reclaim (files, then the row), and the survey for files without a row."""
    pinned = {actor.memory for actor in state.actors if actor.kind == "reader" and actor.step == 1}
    for blob, status in state.blobs:
        if status == PENDING:
            yield with_blob(state, blob, DEAD)
        elif status == DEAD and (blob not in pinned or mutant == "reclaim-ignores-readers"):
            gone = blob not in state.files
            yield with_blob(state, blob, None) if gone else state._replace(files=state.files - {blob})
    uploading = {actor.memory for actor in state.actors if actor.kind == "writer" and actor.step == 1}
    ignored = {PENDING} if mutant == "survey-ignores-pending" else set()
    known = {blob for blob, status in state.blobs if status not in ignored}
    for blob in state.files - known - uploading if mutant != "no-survey" else ():
        yield state._replace(files=state.files - {blob})


def following(state: State, mutant: str, crashes_max: int) -> Iterator[State]:
    """Every state that one step, one crash or one act of upkeep leads to."""
    for index, actor in enumerate(state.actors):
        if actor.step == "end":
            continue
        before, behind = state.actors[:index], state.actors[index + 1 :]
        if state.crashes < crashes_max and actor.kind != "reader":
            dead = actor._replace(step="end", memory=None)
            yield state._replace(actors=(*before, dead, *behind), crashes=state.crashes + 1)
        after, moved = STEPS[actor.kind](state, actor, mutant)
        yield after._replace(actors=(*before, moved, *behind))
    yield from upkeep(state, mutant)


def broken_in(state: State) -> str:
    """I1 and I2, which one state shows."""
    if any(row is not None and row.blob not in state.files for row in state.rows):
        return "I1: a row points to missing bytes"
    reading = [actor.memory for actor in state.actors if actor.kind == "reader" and actor.step == 1]
    return "I2: a reader lost its bytes" if any(blob not in state.files for blob in reading) else ""


def broken_between(before: State, after: State) -> str:
    """I4, which a step shows."""
    for old, new in zip(before.rows, after.rows, strict=True):
        if new is not None and new.version == OLD and (old is None or old.version == NEW):
            return "I4: a version came back"
    return ""


def check(mutant: str = "", *, keys: int = 1, crashes_max: int = 0) -> Found:
    """Search all states, breadth first, up to the first broken invariant."""
    start = start_of(keys)
    seen, queue = {start}, deque([start])
    while queue:
        state = queue.popleft()
        broken = broken_in(state)
        if broken or len(seen) > STATES_MAX:
            return Found(len(seen), broken or "LIMIT")
        nexts = list(following(state, mutant, crashes_max))
        if not nexts and state.files != {row.blob for row in state.rows if row is not None}:
            return Found(len(seen), "I3: files without a row at rest")
        for after in nexts:
            if broken := broken_between(state, after):
                return Found(len(seen), broken)
            if after not in seen:
                seen.add(after)
                queue.append(after)
    return Found(len(seen), "OK")


def main() -> int:
    """Check what the command line names and print the verdicts."""
    parser = argparse.ArgumentParser(description="Model check of the protocol of moves.")
    parser.add_argument("variants", nargs="*", metavar="variant", help=f"protocol, {', '.join(MUTANTS)}")
    parser.add_argument("--crashes", type=int, default=0, help="most crashes in one history")
    options = parser.parse_args()
    wrong = 0
    for name in options.variants or ["protocol", *MUTANTS]:
        for keys in (1, 2):
            found = check("" if name == "protocol" else name, keys=keys, crashes_max=options.crashes)
            expected = "OK" if name == "protocol" else MUTANTS[name]
            wrong += not found.verdict.startswith(expected)
            print(f"{name:24} {keys} keys {found.states:>9,} states  {found.verdict}", flush=True)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
