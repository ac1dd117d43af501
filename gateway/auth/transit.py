"""A key provider that asks a transit secrets engine (OpenBao, HashiCorp Vault) over HTTP.

Keys never leave the engine: it wraps and unwraps data keys, 32 bytes a request. The address is the operator's, so it
may be a private one; nothing a client sends reaches it but ids from the list of settings. No redirect is followed, no
proxy taken from the environment; answers are bounded in bytes and time. See security.md R19.
"""

import asyncio
import base64
import hmac
import http.client
import json
import ssl
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, urlsplit

from gateway.auth.key_provider import DATA_KEY_BYTES, KeyRefused, KeysUnavailable, KeyUnknown

ANSWER_BYTES_MAX: Final = 64 * 1024
CACHE_KEYS_MAX: Final = 1024
CACHE_SECONDS: Final = 60.0
"""An unwrapped key is kept so long: a ranged read of many requests asks once. A revoked key goes on for as long."""

_NO_KEY: Final = b"encryption key not found"


@dataclass(frozen=True, slots=True)
class TransitSettings:
    """Where the engine is. `url` is http or https; `ca_file` empty means the system's certificates."""

    url: str
    mount: str
    token: str = field(repr=False)
    ca_file: str
    timeout_seconds: float


class TransitKeys:
    """The `KeyProvider` over a transit engine. `names` are the keys that clients may name.

    Calls run in `executor`, each on a connection of its own; nobody waits for one longer than twice the timeout.
    """

    def __init__(
        self, settings: TransitSettings, names: Iterable[str], executor: Executor, clock: Callable[[], float]
    ) -> None:
        address = urlsplit(settings.url)
        assert address.scheme in {"http", "https"}
        assert address.hostname
        self._settings, self._address = settings, address
        self._host = address.hostname
        self._names = frozenset(names)
        self._executor, self._clock = executor, clock
        self._tls = ssl.create_default_context(cafile=settings.ca_file or None) if address.scheme == "https" else None
        self._opened: OrderedDict[bytes, tuple[float, bytes]] = OrderedDict()

    async def wrap(self, key_id: str, data_key: bytes, context: bytes) -> bytes:
        """See `KeyProvider.wrap`."""
        # The engine knows associated data only since some versions and key types; a digest within binds everywhere.
        plain = base64.b64encode(data_key + sha256(context).digest()).decode("ascii")
        answer = await self._ask("encrypt", key_id, {"plaintext": plain})
        wrapped = answer.get("ciphertext")
        if not isinstance(wrapped, str) or not wrapped:
            raise KeysUnavailable("the transit engine answered without a ciphertext")
        return wrapped.encode()

    async def unwrap(self, key_id: str, wrapped: bytes, context: bytes) -> bytes:
        """See `KeyProvider.unwrap`."""
        if key_id not in self._names:
            raise KeyUnknown(key_id)
        place = sha256(b"%b\0%b\0%b" % (key_id.encode(), sha256(context).digest(), wrapped)).digest()
        kept = self._opened.get(place)
        if kept is not None and self._clock() < kept[0]:
            return kept[1]
        answer = await self._ask("decrypt", key_id, {"ciphertext": wrapped.decode("ascii", "replace")})
        data_key = _checked(answer.get("plaintext"), context, key_id)
        self._opened[place] = (self._clock() + CACHE_SECONDS, data_key)
        self._opened.move_to_end(place)
        while len(self._opened) > CACHE_KEYS_MAX:
            self._opened.popitem(last=False)
        return data_key

    async def _ask(self, verb: str, key_id: str, document: dict[str, str]) -> dict[str, Any]:
        """The `data` of an answer. Errors: KeyUnknown, KeyRefused, KeysUnavailable."""
        if key_id not in self._names:
            raise KeyUnknown(key_id)
        path = f"{self._address.path.rstrip('/')}/v1/{quote(self._settings.mount)}/{verb}/{quote(key_id, safe='')}"
        body = json.dumps(document).encode()
        posting = asyncio.get_running_loop().run_in_executor(self._executor, self._post, path, body)
        try:
            async with asyncio.timeout(2 * self._settings.timeout_seconds):
                status, content = await posting
        except TimeoutError:
            raise KeysUnavailable("the transit engine does not answer in time") from None
        if status in {400, 404} and _NO_KEY in content:
            raise KeyUnknown(key_id)
        if status == 400 and verb == "decrypt":
            raise KeyRefused(f"the transit engine does not open a data key of {key_id!r}: is it the right engine?")
        if status != 200:
            raise KeysUnavailable(f"the transit engine answered {status}")
        try:
            data = json.loads(content)["data"]
        except (ValueError, KeyError, TypeError):
            data = None
        if not isinstance(data, dict):
            raise KeysUnavailable("the transit engine answered what is no document of its own")
        return data

    def _post(self, path: str, body: bytes) -> tuple[int, bytes]:
        connection = self._connection()
        headers = {"X-Vault-Token": self._settings.token, "X-Vault-Request": "true", "Content-Type": "application/json"}
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            content = answer.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise KeysUnavailable(f"the transit engine does not answer: {type(error).__name__}") from error
        finally:
            connection.close()
        if len(content) > ANSWER_BYTES_MAX:
            raise KeysUnavailable("the transit engine answered too much")
        return answer.status, content

    def _connection(self) -> http.client.HTTPConnection:
        seconds = self._settings.timeout_seconds
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._address.port, timeout=seconds)
        return http.client.HTTPSConnection(self._host, self._address.port, timeout=seconds, context=self._tls)


def _checked(plaintext: object, context: bytes, key_id: str) -> bytes:
    """The data key in an answer, once it is bound to `context`."""
    try:
        plain = base64.b64decode(plaintext, validate=True) if isinstance(plaintext, str) else b""
    except ValueError:
        plain = b""
    data_key, bound = plain[:DATA_KEY_BYTES], plain[DATA_KEY_BYTES:]
    if len(data_key) != DATA_KEY_BYTES or not hmac.compare_digest(bound, sha256(context).digest()):
        raise KeyRefused(f"a data key of {key_id!r} was wrapped for another context")
    return data_key
