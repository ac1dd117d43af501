import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.types import Device
from tiers.catalogue import FailureDomain
from tiers.datapath.placement import choose, domain_of, most_in_one_domain, survives_loss
from tiers.errors import PlacementShort


def device(number: int, host: str, rack: str, zone: str, site: str) -> Device:
    return Device(f"d{number}", "hot", "directory", "", 0, host, rack, zone, site, 0)


def topology(rng: random.Random) -> list[Device]:
    devices: list[Device] = []
    for site in range(rng.randint(1, 3)):
        for zone in range(rng.randint(1, 3)):
            for rack in range(rng.randint(1, 3)):
                for host in range(rng.randint(1, 3)):
                    # Names repeat between sites on purpose: only the path tells two racks apart.
                    for _ in range(rng.randint(1, 4)):
                        devices.append(device(len(devices), f"h{host}", f"r{rack}", f"z{zone}", f"s{site}"))
    rng.shuffle(devices)
    return devices


def least_maximum(devices: list[Device], count: int, domain: FailureDomain) -> int:
    """The smallest possible greatest number of fragments in one domain, by counting capacity."""
    sizes: dict[tuple[str, ...], int] = {}
    for one in devices:
        sizes[domain_of(one, domain)] = sizes.get(domain_of(one, domain), 0) + 1
    return next(most for most in range(1, count + 1) if sum(min(size, most) for size in sizes.values()) >= count)


def test_ten_thousand_topologies() -> None:
    """Never two fragments on one device; the domain rule holds wherever the topology allows it."""
    rng = random.Random(20240501)
    kept = broken = 0
    for _ in range(10_000):
        devices = topology(rng)
        by_id = {one.device_id: one for one in devices}
        k, m = rng.choice([(1, 1), (4, 2), (8, 3), (2, 1)])
        spread = rng.choice(list(FailureDomain))
        unavailable = {one.device_id for one in devices if rng.random() < 0.1}
        free = [one for one in devices if one.device_id not in unavailable]
        if len(free) < k + m:
            with pytest.raises(PlacementShort):
                choose(devices, k + m, spread, rng, unavailable=unavailable)
            continue
        chosen = choose(devices, k + m, spread, rng, unavailable=unavailable)
        assert len(set(chosen)) == k + m
        assert not unavailable.intersection(chosen)
        placed = [by_id[device_id] for device_id in chosen]
        least = least_maximum(free, k + m, spread)
        assert most_in_one_domain(placed, spread) == least
        assert survives_loss(placed, spread, m) == (least <= m)
        kept, broken = kept + (least <= m), broken + (least > m)
    assert kept > 2000  # both outcomes were really met
    assert broken > 500


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_equal_seeds_choose_equally(seed: int, count: int) -> None:
    devices = topology(random.Random(seed)) + [device(900 + n, "x", "x", "x", "x") for n in range(6)]
    first = choose(devices, count, FailureDomain.HOST, random.Random(seed))
    assert first == choose(devices, count, FailureDomain.HOST, random.Random(seed))


def test_within_the_rule_fragments_spread_over_the_wider_domains_too() -> None:
    """Two sites with ample hosts: the host rule alone would allow all six on one site."""
    devices = [device(n, f"h{n}", "r", "z", f"s{n % 2}") for n in range(40)]
    for seed in range(50):
        chosen = choose(devices, 6, FailureDomain.HOST, random.Random(seed))
        placed = [one for one in devices if one.device_id in chosen]
        assert most_in_one_domain(placed, FailureDomain.SITE) == 3


def test_every_device_gets_its_share() -> None:
    devices = [device(n, f"h{n // 2}", "r", "z", "s") for n in range(12)]
    rng = random.Random(3)
    used = [0] * 12
    first = [0] * 12
    for _ in range(2000):
        chosen = choose(devices, 6, FailureDomain.HOST, rng)
        first[int(chosen[0][1:])] += 1
        for device_id in chosen:
            used[int(device_id[1:])] += 1
    assert min(used) > 850  # 1000 expected
    assert min(first) > 100  # 167 expected: data fragments are not tied to a device


def test_survival_counts_missing_fragments() -> None:
    placed = [device(n, f"h{n // 2}", "r", "z", "s") for n in range(6)]
    assert survives_loss(placed, FailureDomain.HOST, 2)
    assert not survives_loss(placed, FailureDomain.HOST, 1)
    assert not survives_loss(placed, FailureDomain.RACK, 2)
