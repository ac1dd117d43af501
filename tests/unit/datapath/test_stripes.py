import asyncio
import random

import pytest

from tiers.datapath.stripes import StripePool, size_class

MIB = 1 << 20


@pytest.mark.parametrize(
    ("need", "size"),
    [
        (1, 256 << 10),
        (256 << 10, 256 << 10),
        ((256 << 10) + 1, 384 << 10),
        (6 * MIB, 6 * MIB),
        (6 * MIB + 1, 8 * MIB),
        (8 * MIB, 8 * MIB),
    ],
)
def test_size_class(need: int, size: int) -> None:
    assert size_class(need) == size


def test_a_size_class_holds_its_need_with_at_most_half_wasted() -> None:
    rng = random.Random(1)
    for _ in range(2000):
        need = rng.randrange(256 << 10, 64 * MIB)
        assert need <= size_class(need) <= need * 1.5
        assert size_class(need) % 4096 == 0


def test_a_buffer_given_back_is_the_next_one_taken() -> None:
    async def scenario() -> None:
        pool = StripePool(16 * MIB)
        first = await pool.take(6 * MIB)
        pool.give_back(first)
        assert await pool.take(6 * MIB) is first
        assert pool.buffers_made == 1

    asyncio.run(scenario())


def test_waits_first_come_first_served_even_when_a_later_need_would_fit() -> None:
    async def scenario() -> None:
        pool = StripePool(8 * MIB)
        held = [await pool.take(6 * MIB), await pool.take(1 * MIB)]
        served: list[str] = []

        async def want(name: str, size: int) -> None:
            await pool.take(size)
            served.append(name)

        large = asyncio.create_task(want("large", 4 * MIB))
        await asyncio.sleep(0)
        small = asyncio.create_task(want("small", 1 * MIB))
        await asyncio.sleep(0)
        assert served == []
        assert pool.waiters == 2
        pool.give_back(held.pop())
        await asyncio.sleep(0)
        assert served == []  # 2 MiB are free: enough for the second, but the first is first
        pool.give_back(held.pop())
        await asyncio.gather(large, small)
        assert served == ["large", "small"]
        assert pool.bytes_taken == 5 * MIB

    asyncio.run(scenario())


def test_cancelling_the_first_in_the_queue_lets_the_next_in() -> None:
    async def scenario() -> None:
        pool = StripePool(8 * MIB)
        held = await pool.take(6 * MIB)
        large = asyncio.create_task(pool.take(8 * MIB))
        small = asyncio.create_task(pool.take(2 * MIB))
        await asyncio.sleep(0)
        large.cancel()
        assert (await small).size == 2 * MIB
        pool.give_back(held)

    asyncio.run(scenario())


def test_a_need_cancelled_as_it_is_served_gives_its_buffer_back() -> None:
    async def scenario() -> None:
        pool = StripePool(6 * MIB)
        held = await pool.take(6 * MIB)
        waiting = asyncio.create_task(pool.take(6 * MIB))
        await asyncio.sleep(0)
        pool.give_back(held)  # resolves the turn, but the task has not run yet
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert pool.bytes_taken == 0

    asyncio.run(scenario())


def test_random_takers_never_push_the_pool_over_its_limit() -> None:
    async def scenario() -> None:
        rng = random.Random(7)
        pool = StripePool(16 * MIB)

        async def user() -> None:
            for _ in range(rng.randrange(1, 6)):
                stripe = await pool.take(rng.choice([1, 300 << 10, MIB, 3 * MIB, 6 * MIB, 16 * MIB]))
                try:
                    for _ in range(rng.randrange(4)):
                        await asyncio.sleep(0)
                finally:
                    pool.give_back(stripe)

        tasks = [asyncio.create_task(user()) for _ in range(60)]
        for task in rng.sample(tasks, 20):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert pool.bytes_taken == 0
        assert pool.waiters == 0
        assert pool.bytes_peak <= pool.bytes_max

    asyncio.run(scenario())


def test_rows_are_page_aligned_and_disjoint() -> None:
    async def scenario() -> None:
        stripe = await StripePool(MIB).take(6 * 8192)
        for index, row in enumerate(stripe.rows(8192, 6)):
            row[:] = bytes([index]) * 8192
        assert bytes(stripe.view[: 6 * 8192]) == b"".join(bytes([i]) * 8192 for i in range(6))
        stripe.clear(10, 20)
        assert bytes(stripe.view[9:21]) == b"\0" * 12

    asyncio.run(scenario())
