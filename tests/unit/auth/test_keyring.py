import asyncio

import pytest

from gateway.auth.authenticator import Authenticator
from gateway.auth.keyring import Credential, KeyRing
from gateway.auth.refusals import Refused
from tests.unit.auth.signing import ALICE, KEY_ID, REGION, SECRET, Clock, authenticate, signed


def test_a_replaced_key_ring_drops_derived_keys() -> None:
    ring = KeyRing([Credential(KEY_ID, SECRET.encode(), ALICE)])
    subject = Authenticator(ring, REGION, Clock())
    for mechanism in ("header", "query"):
        assert authenticate(signed(mechanism=mechanism), subject).principal == ALICE
    ring.replace([])
    for mechanism in ("header", "query", "v2 query"):
        with pytest.raises(Refused, match="InvalidAccessKeyId"):
            authenticate(signed(mechanism=mechanism), subject)
    ring.replace([Credential(KEY_ID, b"another secret", ALICE)])
    for mechanism in ("header", "query", "v2 query"):
        with pytest.raises(Refused, match="SignatureDoesNotMatch"):
            authenticate(signed(mechanism=mechanism), subject)


def test_unknown_key_is_looked_up_once_a_second() -> None:
    asked = []

    async def refresh() -> list[Credential]:
        asked.append(clock.now)
        return [Credential(KEY_ID, SECRET.encode(), ALICE)] if len(asked) > 1 else []

    clock = Clock()
    ring = KeyRing(refresh=refresh, clock=clock)

    async def ask() -> list[Credential | None]:
        return list(await asyncio.gather(*[ring.find_fresh(KEY_ID) for _ in range(5)]))

    assert asyncio.run(ask()) == [None] * 5
    assert len(asked) == 1
    clock.now += 1
    assert all(asyncio.run(ask()))
    assert len(asked) == 2
    assert "SECRET" not in repr(ring.find(KEY_ID))
    assert SECRET not in repr(ring.find(KEY_ID))
