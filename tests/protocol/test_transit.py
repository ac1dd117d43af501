"""Data keys wrapped by a transit secrets engine, over a real socket."""

import asyncio
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gateway.auth.key_provider import KeyRefused, KeysUnavailable, KeyUnknown
from gateway.auth.transit import CACHE_SECONDS, TransitKeys, TransitSettings
from tests.protocol.transit_engine import TOKEN, TransitEngine
from tests.world import Clock

pytestmark = pytest.mark.protocol
KEY = b"k" * 32


@pytest.fixture
def engine() -> Iterator[TransitEngine]:
    with TransitEngine("one", "secret") as serving:
        yield serving


@pytest.fixture(scope="module")
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def keys_of(url: str, executor: ThreadPoolExecutor, clock: Clock | None = None, *, token: str = TOKEN) -> TransitKeys:
    settings = TransitSettings(url, "transit", token, "", 1.0)
    return TransitKeys(settings, ["one", "absent"], executor, clock or Clock())


def call(work: Any) -> Any:
    return asyncio.run(work)


def test_what_was_wrapped_opens_again_after_a_rotation_and_is_asked_for_once(
    engine: TransitEngine, executor: ThreadPoolExecutor
) -> None:
    clock = Clock()
    keys = keys_of(engine.url, executor, clock)
    wrapped = call(keys.wrap("one", KEY, b"context"))
    engine.rotate("one")
    assert KEY not in wrapped
    assert [call(keys.unwrap("one", wrapped, b"context")) for _ in range(3)] == [KEY] * 3
    assert engine.calls == ["/v1/transit/encrypt/one", "/v1/transit/decrypt/one"]
    clock.advance(CACHE_SECONDS + 1)
    assert call(keys.unwrap("one", wrapped, b"context")) == KEY
    assert len(engine.calls) == 3


def test_another_context_is_refused_though_the_engine_opens(
    engine: TransitEngine, executor: ThreadPoolExecutor
) -> None:
    keys = keys_of(engine.url, executor)
    wrapped = call(keys.wrap("one", KEY, b"context"))
    assert call(keys.unwrap("one", wrapped, b"context")) == KEY
    with pytest.raises(KeyRefused):
        call(keys.unwrap("one", wrapped, b"other"))


def test_a_name_outside_the_settings_never_reaches_the_engine(
    engine: TransitEngine, executor: ThreadPoolExecutor
) -> None:
    keys = keys_of(engine.url, executor)
    for name in ("secret", "../../sys/seal", ""):
        with pytest.raises(KeyUnknown):
            call(keys.wrap(name, KEY, b""))
        with pytest.raises(KeyUnknown):
            call(keys.unwrap(name, b"vault:v1:AAAA", b""))
    assert engine.calls == []
    with pytest.raises(KeyUnknown):
        call(keys.wrap("absent", KEY, b""))


def test_changed_bytes_do_not_open(engine: TransitEngine, executor: ThreadPoolExecutor) -> None:
    keys = keys_of(engine.url, executor)
    wrapped = call(keys.wrap("one", KEY, b""))
    for changed in (b"", b"\xff", wrapped[:-8] + b"AAAAAAA=", wrapped.replace(b"v1", b"v9")):
        with pytest.raises(KeyRefused):
            call(keys.unwrap("one", changed, b""))


@pytest.mark.parametrize(
    "fault",
    [
        (500, b""),
        (503, b'{"errors":["Vault is sealed"]}'),
        (302, b""),
        (200, b""),
        (200, b"[]"),
        (200, b'{"data":[]}'),
        (200, b'{"data":{}}'),
        (200, b"x" * 70_000),
    ],
)
def test_a_fault_of_the_engine_is_no_fault_of_the_client(
    engine: TransitEngine, executor: ThreadPoolExecutor, fault: tuple[int, bytes]
) -> None:
    engine.fault = fault
    with pytest.raises(KeysUnavailable):
        call(keys_of(engine.url, executor).wrap("one", KEY, b""))


def test_a_wrong_token_is_told_without_the_token(engine: TransitEngine, executor: ThreadPoolExecutor) -> None:
    keys = keys_of(engine.url, executor, token="wrong-token")
    with pytest.raises(KeysUnavailable) as told:
        call(keys.wrap("one", KEY, b""))
    assert "wrong-token" not in str(told.value)
    assert "wrong-token" not in repr(TransitSettings("", "", "wrong-token", "", 1.0))


def test_nobody_at_the_address(executor: ThreadPoolExecutor) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(KeysUnavailable):
            call(keys_of(url, executor).wrap("one", KEY, b""))


def test_an_engine_that_never_answers(executor: ThreadPoolExecutor) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(KeysUnavailable):
            call(keys_of(url, executor).wrap("one", KEY, b""))
