"""The checker of histories convicts what it must and nothing else; judged by planted histories and by brute force."""

import random
from itertools import permutations

import pytest

from tests.probe.linearizability import ABSENT, Act, Answer, Entry, Operation, State, find_faults, step

READ, LIST, PUT, DELETE = Act.READ, Act.LIST, Act.PUT, Act.DELETE
DONE, GONE, REFUSED, CONFLICT, UNKNOWN = Answer.DONE, Answer.ABSENT, Answer.REFUSED, Answer.CONFLICT, Answer.UNKNOWN
Line = tuple[int, int, Act, Answer, str, str]


def plain(*lines: Line) -> list[Operation]:
    """(sent, answered, act, answer, etag, condition) of each operation on one key of a plain bucket."""
    return [
        Operation(client, "k", act, sent, answered, answer, etag, condition=condition)
        for client, (sent, answered, act, answer, etag, condition) in enumerate(lines)
    ]


def versioned(*operations: Operation) -> list[Operation]:
    return list(operations)


def at(sent: int, answered: int, act: Act, answer: Answer, etag: str, version_id: str, stack: State = ()) -> Operation:
    """One operation on one key of a versioned bucket."""
    return Operation(0, "k", act, sent, answered, answer, etag, version_id, stack=stack, is_versioned=True)


GOOD = {
    "one after the other": plain(
        (0, 1, READ, GONE, "", ""), (2, 3, PUT, DONE, "a", ""), (4, 5, READ, DONE, "a", ""),
        (6, 7, DELETE, DONE, "", ""), (8, 9, READ, GONE, "", ""),
    ),
    "reads beside a write may see either": plain(
        (0, 9, PUT, DONE, "a", ""), (1, 2, READ, GONE, "", ""), (3, 4, READ, DONE, "a", "")
    ),
    "one of two wins": plain(
        (0, 5, PUT, REFUSED, "a", ABSENT), (0, 6, PUT, DONE, "b", ABSENT), (7, 8, READ, DONE, "b", "")
    ),
    "a delete in between lets both win": plain(
        (0, 5, PUT, DONE, "a", ABSENT), (0, 6, PUT, DONE, "b", ABSENT), (0, 7, DELETE, DONE, "", "")
    ),
    "a compare and swap": plain(
        (0, 1, PUT, DONE, "a", ""), (2, 5, PUT, DONE, "b", "a"), (2, 6, PUT, REFUSED, "c", "a"),
        (7, 8, READ, DONE, "b", ""),
    ),
    "nothing to match": plain((0, 1, PUT, GONE, "a", "x"), (2, 3, DELETE, GONE, "", "x")),
    "told to try again": plain((0, 1, PUT, CONFLICT, "a", ABSENT), (2, 3, READ, GONE, "", "")),
    "unknown and it happened, late": plain(
        (0, 1, PUT, UNKNOWN, "a", ""), (2, 3, READ, GONE, "", ""), (4, 5, READ, DONE, "a", "")
    ),
    "unknown and it never happened": plain((0, 1, PUT, UNKNOWN, "a", ""), (2, 3, READ, GONE, "", "")),
    "unknown and conditional, and it happened": plain(
        (0, 1, PUT, DONE, "a", ""), (2, 3, PUT, UNKNOWN, "b", "a"), (4, 5, READ, DONE, "b", "")
    ),
    "unknown and conditional, and it happened after it was refused": plain(
        (0, 1, PUT, DONE, "a", ""), (2, 3, DELETE, UNKNOWN, "", "b"), (4, 5, PUT, DONE, "b", "a"),
        (6, 7, READ, DONE, "b", ""), (8, 9, READ, GONE, "", ""),
    ),
    "a stack of versions": versioned(
        at(0, 1, PUT, DONE, "a", "v1"), at(2, 3, PUT, DONE, "b", "v2"), at(4, 5, DELETE, DONE, "", "m1"),
        at(6, 7, READ, GONE, "", "m1"), at(8, 9, Act.READ_VERSION, DONE, "a", "v1"),
        at(10, 11, Act.READ_ALL, DONE, "", "", (Entry("m1", ""), Entry("v2", "b"), Entry("v1", "a"))),
        at(12, 13, Act.DELETE_VERSION, DONE, "", "m1"), at(14, 15, READ, DONE, "b", "v2"),
    ),
}  # fmt: skip

BAD = {
    "stale read": plain(
        (0, 1, PUT, DONE, "a", ""), (2, 3, PUT, DONE, "b", ""), (4, 5, READ, DONE, "a", "")
    ),
    "stale listing": plain(
        (0, 1, PUT, DONE, "a", ""), (2, 3, DELETE, DONE, "", ""), (4, 5, LIST, DONE, "a", "")
    ),
    "missing from a listing": plain((0, 1, PUT, DONE, "a", ""), (2, 3, LIST, GONE, "", "")),
    "new, then old": plain(
        (0, 1, PUT, DONE, "a", ""), (2, 20, PUT, DONE, "b", ""), (4, 5, READ, DONE, "b", ""),
        (6, 7, READ, DONE, "a", ""),
    ),
    "lost update": plain(
        (0, 1, PUT, DONE, "a", ""), (2, 6, PUT, DONE, "b", "a"), (3, 7, PUT, DONE, "c", "a")
    ),
    "lost write": plain((0, 1, PUT, DONE, "a", ""), (2, 3, READ, GONE, "", "")),
    "never written": plain((0, 1, PUT, DONE, "a", ""), (2, 3, READ, DONE, "x", "")),
    "double win": plain((0, 5, PUT, DONE, "a", ABSENT), (0, 5, PUT, DONE, "b", ABSENT)),
    "nobody wins": plain((0, 5, PUT, REFUSED, "a", ABSENT), (0, 5, PUT, REFUSED, "b", ABSENT)),
    "refused, but it happened": plain(
        (0, 1, PUT, DONE, "a", ""), (2, 3, PUT, REFUSED, "b", ABSENT), (4, 5, READ, DONE, "b", "")
    ),
    "read before it was sent": plain((0, 1, READ, DONE, "a", ""), (2, 3, PUT, DONE, "a", "")),
    "unknown and it happened twice": plain(
        (0, 1, PUT, UNKNOWN, "a", ""), (2, 3, READ, DONE, "a", ""), (4, 5, DELETE, DONE, "", ""),
        (6, 7, READ, DONE, "a", ""),
    ),
    "versions in another order than they were made": versioned(
        at(0, 1, PUT, DONE, "a", "v1"), at(2, 3, PUT, DONE, "b", "v2"),
        at(4, 5, Act.READ_ALL, DONE, "", "", (Entry("v1", "a"), Entry("v2", "b"))),
    ),
    "a version that went away": versioned(
        at(0, 1, PUT, DONE, "a", "v1"), at(2, 3, PUT, DONE, "b", "v2"), at(4, 5, Act.READ_VERSION, GONE, "", "v1")
    ),
    "a deleted version comes back": versioned(
        at(0, 1, PUT, DONE, "a", "v1"), at(2, 3, Act.DELETE_VERSION, DONE, "", "v1"), at(4, 5, READ, DONE, "a", "v1")
    ),
    "another delete marker on top": versioned(
        at(0, 1, DELETE, DONE, "", "m1"), at(2, 3, DELETE, DONE, "", "m2"), at(4, 5, READ, GONE, "", "m1")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_what_can_be_explained_is_no_fault(name: str) -> None:
    assert find_faults(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_planted_faults_are_convicted(name: str) -> None:
    (fault,) = find_faults(BAD[name])
    assert fault.placed < fault.total
    assert fault.blocked
    assert "no order" in str(fault)


def explained(operations: list[Operation]) -> bool:
    """By trying every order of every choice of what is unknown."""
    settled = [operation for operation in operations if operation.is_settled]
    unknown = [operation for operation in operations if not operation.is_settled]
    for chosen in range(1 << len(unknown)):
        happened = settled + [operation for n, operation in enumerate(unknown) if chosen >> n & 1]
        for order in permutations(happened):
            state: State | None = ()
            for index, operation in enumerate(order):
                late = any(other.is_settled and other.returned < operation.invoked for other in order[index + 1 :])
                state = None if late or state is None else step(state, operation)
            if state is not None:
                return True
    return False


def some_operation(rng: random.Random, number: int, *, is_versioned: bool) -> Operation:
    sent = rng.randrange(12)
    act = rng.choice([READ, READ, LIST, PUT, PUT, DELETE])
    answer = rng.choice([DONE, DONE, DONE, GONE, REFUSED]) if act in {PUT, DELETE} else rng.choice([DONE, DONE, GONE])
    if act in {PUT, DELETE} and rng.random() < 0.25:
        answer = UNKNOWN
    condition = rng.choice(["", "", ABSENT, "e0", "e1"]) if act in {PUT, DELETE} and answer is not GONE else ""
    if answer is GONE and act in {PUT, DELETE}:
        condition = rng.choice(["e0", "e1"])
    if act is DELETE and condition == ABSENT:
        condition = ""
    etag = f"e{number}" if act is PUT else "" if act is DELETE or answer is GONE else f"e{rng.randrange(4)}"
    answered = sent + 1 + rng.randrange(8)
    return Operation(number, "k", act, sent, answered, answer, etag, condition=condition, is_versioned=is_versioned)


def test_the_search_agrees_with_brute_force() -> None:
    rng = random.Random(7)
    verdicts = {True: 0, False: 0}
    for _ in range(3000):
        is_versioned = rng.random() < 0.3
        count = rng.randrange(1, 6)
        history = [some_operation(rng, number, is_versioned=is_versioned) for number in range(count)]
        expected = explained(history)
        assert (find_faults(history) == []) == expected, history
        verdicts[expected] += 1
    assert min(verdicts.values()) > 400, verdicts


def atomic_history(rng: random.Random, count: int, clients: int) -> list[Operation]:
    """What clients of one atomic key see: each operation happens at a moment between its two ends."""
    free = [0.0] * clients
    planned: list[tuple[float, float, float, int, int]] = []
    for number in range(count):
        client = min(range(clients), key=lambda one: free[one])
        sent = free[client] + rng.random() * 0.2
        free[client] = answered = sent + 0.1 + rng.random()
        planned.append((rng.uniform(sent, answered), sent, answered, client, number))
    state: State = ()
    done: list[Operation] = []
    for _, sent, answered, client, number in sorted(planned):
        etag = state[0].etag if state else ""
        act, condition, answer = rng.choice([READ, READ, PUT, PUT, DELETE]), "", DONE
        if act is READ:
            answer = DONE if state else GONE
        elif act is PUT:
            condition = rng.choice(["", ABSENT, etag])
            answer = REFUSED if condition == ABSENT and state else DONE
            etag = f"e{number}"
        else:
            etag = ""
        made = Operation(client, "k", act, sent, answered, answer, etag, condition=condition)
        state = step(state, made) or ()
        done.append(made)
    return done


@pytest.mark.parametrize("seed", range(3))
def test_long_histories_are_decided(seed: int) -> None:
    rng = random.Random(seed)
    history = atomic_history(rng, 4000, clients=10)
    assert find_faults(history) == []
    reads = [n for n, one in enumerate(history) if one.act is READ and one.answer is DONE and n > 2000]
    spoilt = rng.choice(reads)
    written = next(one.etag for one in history if one.act is PUT and one.answer is DONE)
    stale = Operation(0, "k", READ, history[spoilt].invoked, history[spoilt].returned, DONE, written)
    assert len(find_faults([*history[:spoilt], stale, *history[spoilt + 1 :]])) == 1
