"""Which devices hold the fragments of a blob: a pure choice over device rows.

A failure domain is named by its path (site, zone, rack, host), so that equal rack names in two zones are two racks.
Knows no free space and no device state: the caller passes only devices that may be chosen.
"""

import random
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

from metadata.types import Device
from tiers.catalogue import FailureDomain
from tiers.errors import PlacementShort

_WIDTH: Final = {
    FailureDomain.SITE: 1,
    FailureDomain.ZONE: 2,
    FailureDomain.RACK: 3,
    FailureDomain.HOST: 4,
    FailureDomain.DEVICE: 5,
}


def domain_of(device: Device, domain: FailureDomain) -> tuple[str, ...]:
    """Path of the failure domain that holds a device, widest first."""
    path = (device.site, device.zone, device.rack, device.host, device.device_id)
    return path[: _WIDTH[domain]]


def choose(
    devices: Sequence[Device],
    count: int,
    spread: FailureDomain,
    rng: random.Random,
    *,
    unavailable: Collection[str] = (),
    held: Sequence[Device] = (),
) -> list[str]:
    """Choose `count` distinct devices for the fragments of one blob, in fragment order.

    The greatest number of fragments in one domain of the kind `spread` is as small as the topology allows: at most m
    when m can be had. Within that, fragments spread over sites, then zones, racks and hosts. Ties fall by `rng`.
    `held` are devices that keep fragments of the blob: they count, and must not be among `devices`.
    Errors: PlacementShort when fewer than `count` devices are available; nothing was chosen.
    """
    assert count > 0
    free = [device for device in devices if device.device_id not in unavailable]
    if len({device.device_id for device in free}) < count:
        raise PlacementShort(f"{count} devices needed, {len(free)} of {len(devices)} available")
    rng.shuffle(free)
    # Least-filled first at the guaranteed level is what makes its maximum minimal: domains there share no device.
    levels = [spread, *(level for level in _WIDTH if level is not spread)]
    filled = [Counter(domain_of(device, level) for device in held) for level in levels]
    chosen: list[str] = []
    while len(chosen) < count:
        best = min(free, key=lambda device: [filled[i][domain_of(device, level)] for i, level in enumerate(levels)])
        free.remove(best)
        for level, counter in zip(levels, filled, strict=True):
            counter[domain_of(best, level)] += 1
        chosen.append(best.device_id)
    rng.shuffle(chosen)  # the order of the choice favours wide domains; data and parity are to be spread alike
    assert len(set(chosen)) == count
    return chosen


def most_in_one_domain(placed: Sequence[Device], domain: FailureDomain) -> int:
    """The greatest number of fragments that one domain of that kind holds."""
    return max(Counter(domain_of(device, domain) for device in placed).values(), default=0)


def survives_loss(placed: Sequence[Device], domain: FailureDomain, parity_fragments: int) -> bool:
    """Whether the blob stays readable when any one domain of that kind is lost. For `doctor` and reports.

    `placed` are the devices of the fragments that exist; a missing fragment is the caller's to subtract from
    `parity_fragments`.
    """
    return most_in_one_domain(placed, domain) <= parity_fragments
