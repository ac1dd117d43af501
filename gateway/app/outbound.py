"""The outbound HTTP client: posts to addresses that the operator entered, and to nothing that these lead to.

A name is resolved once; every address it has is judged, and the connection is made to one that passed (security.md
R19). No redirect is followed, no proxy taken from the environment, certificates are verified, every call has a deadline
and of an answer only its status is used.
"""

import asyncio
import socket
import ssl
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final

import httpcore

ANSWER_BYTES_MAX: Final = 64 * 1024
CONNECTIONS_MAX: Final = 32
IDLE_SECONDS: Final = 30.0

Network = IPv4Network | IPv6Network


class OutboundFailed(Exception):
    """The post got no answer, or was not made; the text names a kind of failure and nothing of the answer."""


def is_allowed(address: str, networks: Sequence[Network]) -> bool:
    """Whether a connection may be made to an address: a public one, or one of `networks`. Pure.

    An IPv4 address inside an IPv6 one is judged as what it is on the wire: not at all, unless its network is named.
    """
    parsed: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
    if any(parsed.version == network.version and parsed in network for network in networks):
        return True
    if isinstance(parsed, IPv6Address) and (
        parsed.ipv4_mapped or parsed.sixtofour or parsed.teredo or _is_nat64(parsed)
    ):
        return False
    return parsed.is_global and not parsed.is_multicast


def _is_nat64(address: IPv6Address) -> bool:
    return address in ip_network("64:ff9b::/96") or address in ip_network("::/96")


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to addresses that were judged; names never reach the connecting library."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # the library's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, judge, connect. Errors: httpcore.ConnectError."""
        address = await self._resolve(host, port)
        return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)

    async def _resolve(self, host: str, port: int) -> str:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore.ConnectError("the name does not resolve") from error
        addresses = [str(entry[4][0]) for entry in found]
        if not addresses or not all(is_allowed(address, self._networks) for address in addresses):
            raise httpcore.ConnectError("the name resolves to an address that is not allowed")
        return addresses[0]

    async def sleep(self, seconds: float) -> None:
        """See the base."""
        await self._inner.sleep(seconds)


class Outbound:
    """A pool of connections of one event loop. `networks` are what may be reached besides public addresses."""

    def __init__(self, networks: Iterable[str], *, deadline_seconds: float) -> None:
        self._deadline_seconds = deadline_seconds
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=CONNECTIONS_MAX,
            max_keepalive_connections=CONNECTIONS_MAX,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=_CheckedNetwork([ip_network(network) for network in networks]),
        )

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        """The status of the answer. Errors: OutboundFailed."""
        lines = [(name.encode(), value.encode()) for name, value in headers.items()]
        try:
            async with asyncio.timeout(self._deadline_seconds):
                async with self._pool.stream("POST", url, headers=lines, content=body) as response:
                    await _drain(response)
                    return response.status
        except TimeoutError:
            raise OutboundFailed("no answer in time") from None
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            raise OutboundFailed(type(error).__name__) from error

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


async def _drain(response: httpcore.Response) -> None:
    """Read a short answer, so that its connection can be used again; a long one costs its connection."""
    received = 0
    async for piece in response.aiter_stream():
        received += len(piece)
        if received > ANSWER_BYTES_MAX:
            return
