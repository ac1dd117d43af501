"""Names of files on a device: what every implementation accepts, and how fragments fan out."""

import re
from typing import Final

from tiers.devices.contract import Area

REASON_SUFFIX: Final = ".reason"
"""Beside a quarantined file lies `<name>.reason`; surveys skip it."""

FAN_OUT: Final = tuple(f"{number:02x}" for number in range(256))
"""Sub-directories of the fragments area, in name order."""

_NAME: Final = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z._-]{0,199}")
_HEX: Final = re.compile(r"[0-9a-f]{2}")


def check_name(area: Area, name: str) -> None:
    """Refuse what could leave its area. Errors: ValueError; a name comes from our own code, so this is our bug.

    Fragments begin with two lowercase hex digits, by which they fan out.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no name of a file on a device")
    if area is Area.FRAGMENTS and _HEX.match(name) is None:
        raise ValueError(f"fragment name {name!r} does not begin with two hex digits")
