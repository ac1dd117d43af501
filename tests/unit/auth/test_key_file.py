"""The file of encryption keys: what wraps, what opens after a rotation, and what is refused."""

import asyncio
import os
from pathlib import Path

import pytest

from gateway.auth.key_file import FileKeys, KeyFileRefused, add_key, read_keys
from gateway.auth.key_provider import KeyRefused, KeyUnknown

KEY = b"k" * 32


def keys_of(path: Path, *names: str) -> FileKeys:
    return FileKeys(path, names, os.urandom)


def test_a_rotated_key_wraps_and_the_old_one_still_opens(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    assert add_key(path, "one", os.urandom) == 1
    keys = keys_of(path, "one")
    old = asyncio.run(keys.wrap("one", KEY, b"context"))
    assert add_key(path, "one", os.urandom) == 2  # the provider at hand must notice by itself
    new = asyncio.run(keys.wrap("one", KEY, b"context"))
    assert (int.from_bytes(old[:4], "big"), int.from_bytes(new[:4], "big")) == (1, 2)
    for provider in (keys, keys_of(path, "one")):
        assert [asyncio.run(provider.unwrap("one", wrapped, b"context")) for wrapped in (old, new)] == [KEY, KEY]
    assert KEY not in old + new


def test_wrapping_twice_gives_two_texts(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    add_key(path, "one", os.urandom)
    keys = keys_of(path, "one")
    assert asyncio.run(keys.wrap("one", KEY, b"")) != asyncio.run(keys.wrap("one", KEY, b""))


@pytest.mark.parametrize("position", [0, 3, 4, 19, 20, 51, 67])
def test_a_changed_byte_does_not_open(tmp_path: Path, position: int) -> None:
    path = tmp_path / "keys"
    add_key(path, "one", os.urandom)
    keys = keys_of(path, "one")
    wrapped = bytearray(asyncio.run(keys.wrap("one", KEY, b"")))
    wrapped[position] ^= 1
    with pytest.raises(KeyRefused):
        asyncio.run(keys.unwrap("one", bytes(wrapped), b""))


def test_another_context_name_or_length_does_not_open(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    add_key(path, "one", lambda _: bytes(32))
    add_key(path, "two", lambda _: bytes(32))  # the same key under another name: only the binding tells them apart
    keys = keys_of(path, "one", "two")
    wrapped = asyncio.run(keys.wrap("one", KEY, b"context"))
    for name, text, context in (("one", wrapped, b"other"), ("two", wrapped, b"context"), ("one", b"", b"context")):
        with pytest.raises(KeyRefused):
            asyncio.run(keys.unwrap(name, text, context))


def test_only_the_names_given_may_be_used(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    add_key(path, "sse-s3", os.urandom)
    keys = keys_of(path, "one")
    for name in ("sse-s3", "one", ""):
        with pytest.raises(KeyUnknown):
            asyncio.run(keys.wrap(name, KEY, b""))


def test_a_file_of_another_store_names_itself_in_the_error(tmp_path: Path) -> None:
    path, other = tmp_path / "keys", tmp_path / "other"
    add_key(path, "one", os.urandom)
    add_key(other, "one", os.urandom)
    wrapped = asyncio.run(keys_of(other, "one").wrap("one", KEY, b""))
    with pytest.raises(KeyRefused, match="keys is not the one that wrapped"):
        asyncio.run(keys_of(path, "one").unwrap("one", wrapped, b""))


def test_a_file_that_went_away_meanwhile_stops_nobody(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    add_key(path, "one", os.urandom)
    keys = keys_of(path, "one")
    path.unlink()
    assert asyncio.run(keys.unwrap("one", asyncio.run(keys.wrap("one", KEY, b"")), b"")) == KEY


def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    add_key(path, "one", os.urandom)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(KeyFileRefused, match="chmod 600"):
        read_keys(path)


def test_a_missing_file_says_what_is_lost(tmp_path: Path) -> None:
    with pytest.raises(KeyFileRefused, match="is missing: restore it"):
        read_keys(tmp_path / "keys")


LINE = "one 1 " + "A" * 43 + "="


@pytest.mark.parametrize(
    "text",
    [
        "one",
        "one 1",
        "one x " + "A" * 43 + "=",
        "one 0 " + "A" * 43 + "=",
        "one 1 short",
        "one 1 AAAA",
        f"{LINE}\n{LINE}",
        f"{LINE} more",
        "one 99999999999 " + "A" * 43 + "=",
        "é 1 " + "A" * 43 + "=",
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_bytes(text.encode())
    path.chmod(0o600)
    with pytest.raises(KeyFileRefused, match="is damaged"):
        read_keys(path)
