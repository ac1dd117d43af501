"""Where the outbound client connects to, and what it makes of answers."""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from ipaddress import ip_network

import pytest

from gateway.app.outbound import Outbound, OutboundFailed, is_allowed
from gateway.app.webhooks import sign
from gateway.settings.notifications import PRIVATE_NETWORKS, WebhookTarget

LOOPBACK = ("127.0.0.0/8",)
DEFAULT = [ip_network(network) for network in PRIVATE_NETWORKS]


@pytest.mark.parametrize(
    ("address", "by_default", "when_strict"),
    [
        ("93.184.216.34", True, True),
        ("2606:2800:220:1::1", True, True),
        ("10.1.2.3", True, False),
        ("127.0.0.1", True, False),
        ("::1", True, False),
        ("fd00::1", True, False),
        ("169.254.169.254", False, False),
        ("fe80::1%eth0", False, False),
        ("0.0.0.0", False, False),
        ("::", False, False),
        ("224.0.0.1", False, False),
        ("ff02::1", False, False),
        ("100.64.0.1", False, False),
        ("::ffff:127.0.0.1", False, False),
        ("::ffff:93.184.216.34", False, False),
        ("2002:7f00:1::", False, False),
        ("64:ff9b::7f00:1", False, False),
    ],
)
def test_addresses(address: str, by_default: bool, when_strict: bool) -> None:
    assert is_allowed(address, DEFAULT) is by_default
    assert is_allowed(address, []) is when_strict


def with_server(answer: bytes, act: Callable[[int, list[bytes]], Awaitable[None]]) -> list[bytes]:
    """Run `act` against a server that gives one answer; the requests it got."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-l"))
        seen.append(head + await reader.readexactly(length))
        writer.write(answer)
        await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            await act(server.sockets[0].getsockname()[1], seen)

    asyncio.run(run())
    return seen


def test_a_redirect_is_an_answer_and_not_followed() -> None:
    async def act(port: int, seen: list[bytes]) -> None:
        client = Outbound(LOOPBACK, deadline_seconds=5)
        status = await client.post(f"http://127.0.0.1:{port}/hook?x=1", b"{}", {"X-A": "b"})
        await client.close()
        assert (status, len(seen)) == (302, 1)

    (request,) = with_server(b"HTTP/1.1 302 Found\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n", act)
    assert request.startswith(b"POST /hook?x=1 HTTP/1.1\r\n")
    assert b"X-A: b" in request


def test_a_name_of_a_forbidden_address_is_not_connected_to() -> None:
    async def act(port: int, seen: list[bytes]) -> None:
        client = Outbound((), deadline_seconds=5)
        for host in ("localhost", "127.0.0.1", "0x7f.1", "2130706433"):
            with pytest.raises(OutboundFailed):
                await client.post(f"http://{host}:{port}/", b"{}", {})
        await client.close()
        assert seen == []

    with_server(b"", act)


def test_an_endless_answer_is_not_read() -> None:
    async def act(port: int, _seen: list[bytes]) -> None:
        client = Outbound(LOOPBACK, deadline_seconds=5)
        assert await client.post(f"http://127.0.0.1:{port}/", b"{}", {}) == 200
        await client.close()

    with_server(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (1 << 20), act)


@pytest.mark.parametrize("answer", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"])
def test_what_is_no_answer_fails(answer: bytes) -> None:
    async def act(port: int, _seen: list[bytes]) -> None:
        client = Outbound(LOOPBACK, deadline_seconds=5)
        with pytest.raises(OutboundFailed):
            await client.post(f"http://127.0.0.1:{port}/", b"{}", {})
        await client.close()

    with_server(answer, act)


def test_silence_ends() -> None:
    async def run() -> None:
        async def never(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.3)
            writer.close()

        server = await asyncio.start_server(never, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            client = Outbound(LOOPBACK, deadline_seconds=0.1)
            with pytest.raises(OutboundFailed, match="in time"):
                await client.post(f"http://127.0.0.1:{port}/", b"{}", {})
            await client.close()

    asyncio.run(run())


def test_signatures_bind_time_and_body() -> None:
    target = WebhookTarget.model_validate({"name": "a", "url": "http://h/", "secret": "key"})
    expected = hmac.new(b"key", b"12.body", "sha256").hexdigest()
    assert sign(target, b"body", 12) == f"t=12,v1={expected}"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "gopher://h/", "http://", "http://u:p@h/", "https://h/#x", ""])
def test_targets_are_http_addresses(url: str) -> None:
    with pytest.raises(ValueError, match="http"):
        WebhookTarget.model_validate({"name": "a", "url": url})
