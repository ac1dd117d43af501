"""The vigil: a lone client keeps the loop awake for its time, a crowd does not, and it always ends."""

import asyncio

from gateway.http.vigil import CROWD_SECONDS, Vigil


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 0.00001
        return self.now


def turns_after(seconds: float, *heard: str, pause: float = CROWD_SECONDS) -> int:
    """Turns of the loop spent awake after bytes of these clients, `pause` seconds apart."""
    clock = Clock()
    vigil = Vigil(seconds, clock)
    clients = {name: object() for name in heard}

    async def main() -> None:
        for name in heard:
            vigil.heard(clients[name], asyncio.get_running_loop())
            clock.now += pause
        for _ in range(100):
            await asyncio.sleep(0)

    asyncio.run(main())
    return vigil.turns


def test_a_lone_client_keeps_the_loop_awake_for_its_time_and_no_longer() -> None:
    assert turns_after(0.0001, "a") == 0, "nobody knows yet that it will come back"
    assert turns_after(0.0002, "a", "a", pause=CROWD_SECONDS) == 1, "the pause has used the time up"
    clock = Clock()
    vigil = Vigil(0.0001, clock)
    client = object()

    async def main() -> None:
        vigil.heard(client, asyncio.get_running_loop())
        clock.now += CROWD_SECONDS
        vigil.heard(client, asyncio.get_running_loop())
        for _ in range(100):
            await asyncio.sleep(0)

    asyncio.run(main())
    assert 5 <= vigil.turns <= 11, "100 us at 10 us a look at the clock"


def test_clients_side_by_side_do_not() -> None:
    assert turns_after(0.0001, *"abababab", pause=CROWD_SECONDS / 4) == 0
    assert turns_after(0.0001, *"aab", pause=CROWD_SECONDS / 4) == 0


def test_it_can_be_switched_off() -> None:
    assert turns_after(0.0, *"aaaa") == 0
