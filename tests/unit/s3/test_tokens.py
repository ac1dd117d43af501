"""Continuation tokens are opaque, sealed, and good for one listing only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.s3.errors import S3Code, S3Error
from gateway.s3.tokens import make_token, open_token

KEY = b"k" * 32
TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=20)


def refused(token: str, scope: tuple[str, ...], key: bytes = KEY) -> bool:
    try:
        open_token(key, token, scope)
    except S3Error as error:
        return error.code is S3Code.InvalidArgument
    return False


@given(TEXT, st.tuples(TEXT, TEXT))
def test_opens_for_its_scope_only(position: str, scope: tuple[str, str]) -> None:
    token = make_token(KEY, position, scope)
    assert open_token(KEY, token, scope) == position
    assert refused(token, scope, b"o" * 32)
    assert refused(token, (scope[0] + "x", scope[1]))
    assert refused(token, ("\n".join(scope),))
    assert scope == (scope[1], scope[0]) or refused(token, (scope[1], scope[0]))


@given(st.integers(0, 200), st.integers(1, 255))
def test_forged(at: int, flip: int) -> None:
    token = bytearray(make_token(KEY, "some/key", ("a", "b")).encode())
    token[at % len(token)] ^= flip
    forged = token.decode("latin-1")
    assert refused(forged, ("a", "b"))


@pytest.mark.parametrize("position", ["", "a", "ab", "abc"])
def test_a_token_has_one_spelling(position: str) -> None:
    token = make_token(KEY, position, ("a", "b"))
    bits = [(at, bit) for at in range(len(token)) for bit in range(8)]
    spellings = [token[:at] + chr(ord(token[at]) ^ 1 << bit) + token[at + 1 :] for at, bit in bits]
    for other in (*spellings, token + "=", token + "\n", "!" + token, token.rstrip("=") + "===="):
        assert refused(other, ("a", "b")) or other == token


@pytest.mark.parametrize("token", ["x", "====", "é", "AAAA", "a" * 5000])
def test_nonsense(token: str) -> None:
    assert refused(token, ("a", "b"))
