"""Time, chance and identity: the only place they come from; everything else gets them handed in."""

import os
import random
import time

clock = time.time  # noqa: TID251  # the source that all other code is handed
"""Seconds since the epoch."""

ticks = time.monotonic
"""Seconds; only differences matter."""

rng = random.Random()
"""Seeded by the system; nothing secret comes from it."""


_ids: list[bytes] = []
"""Drawn ahead: the system call costs ten times the slice. Popping and extending a list are atomic between threads."""


def new_id() -> bytes:
    """16 random bytes, unguessable; safe to call from any thread."""
    while True:
        try:
            return _ids.pop()
        except IndexError:
            raw = os.urandom(4096)
            _ids.extend([raw[at : at + 16] for at in range(0, len(raw), 16)])


def new_request_id() -> str:
    """A request id in the form clients know: 16 capital hexadecimal digits. No secret, so it comes cheaply."""
    return f"{rng.getrandbits(64):016X}"
