"""The file of encryption keys, and the provider over it.

One line a key: name, version and 32 bytes in base64. The newest version of a name wraps, every version unwraps, so a
rotation is one more line. The file lies outside the database with the other secrets (0600); whoever loses it loses what
it encrypted.
"""

import base64
import hmac
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.auth.key_provider import DATA_KEY_BYTES, KeyRefused, KeyUnknown

SSE_S3_KEY: Final = "sse-s3"
"""Name of the key of SSE-S3; no client can name it."""

FILE_BYTES_MAX: Final = 1 << 20

_VERSION_BYTES: Final = 4
_SALT_BYTES: Final = 16
_NONCE: Final = bytes(12)  # the key of a wrapping is derived from a fresh salt, so it seals once

Keys = Mapping[str, Mapping[int, bytes]]
"""Key bytes by name and version."""


class KeyFileRefused(Exception):
    """The key file is absent, malformed, or readable by others; the text names it and says what to do."""


def read_keys(path: Path) -> Keys:
    """The keys in a file. Errors: KeyFileRefused."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise KeyFileRefused(f"{path} is missing: restore it, without it no encrypted content can be read") from None
    except OSError as error:
        raise KeyFileRefused(f"{path}: {error.strerror}") from error
    if mode & 0o077:
        raise KeyFileRefused(f"{path} may be read by others: chmod 600 {path}")
    try:
        return _parsed(content)
    except ValueError as error:
        raise KeyFileRefused(f"{path} is damaged ({error}): restore it") from None


def _parsed(content: bytes) -> Keys:
    if len(content) > FILE_BYTES_MAX:
        raise ValueError("too long")
    keys: dict[str, dict[int, bytes]] = {}
    for number, line in enumerate(content.decode("ascii").splitlines(), 1):
        words = line.split()
        if len(words) != 3 or not words[1].isdigit():
            raise ValueError(f"line {number}")
        key = base64.b64decode(words[2], validate=True)
        versions = keys.setdefault(words[0], {})
        if len(key) != DATA_KEY_BYTES or int(words[1]) in versions or not 0 < int(words[1]) < 1 << 31:
            raise ValueError(f"line {number}")
        versions[int(words[1])] = key
    return keys


def add_key(path: Path, name: str, token_bytes: Callable[[int], bytes]) -> int:
    """Add a fresh key of `name` as its newest version and return the version; makes the file when there is none.

    The file is replaced whole and flushed, so that a crash leaves the old or the new one. Only one process may do this
    at a time. Errors: KeyFileRefused, OSError; the old file is untouched then.
    """
    keys = {known: dict(versions) for known, versions in read_keys(path).items()} if path.exists() else {}
    version = max(keys.get(name, {}), default=0) + 1
    keys.setdefault(name, {})[version] = token_bytes(DATA_KEY_BYTES)
    _write(path, _rendered(keys))
    return version


def _rendered(keys: Keys) -> bytes:
    lines = [
        f"{name} {version} {base64.b64encode(key).decode('ascii')}\n"
        for name, versions in keys.items()
        for version, key in sorted(versions.items())
    ]
    return "".join(lines).encode("ascii")


def _write(path: Path, content: bytes) -> None:
    staged = path.with_suffix(".new")
    staged.unlink(missing_ok=True)
    descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    staged.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class FileKeys:
    """The `KeyProvider` over a key file. `names` are the keys that may be used, of those in the file.

    A file that changed is read again, so that every process follows a rotation at once; one that went away meanwhile
    changes nothing until the next start. Errors of the constructor: KeyFileRefused.
    """

    def __init__(self, path: Path, names: Iterable[str], token_bytes: Callable[[int], bytes]) -> None:
        self._path, self._token_bytes = path, token_bytes
        self._names = frozenset(names)
        self._seen = _identity(path)
        self._keys = read_keys(path)

    async def wrap(self, key_id: str, data_key: bytes, context: bytes) -> bytes:
        """See `KeyProvider.wrap`."""
        versions = self._versions(key_id)
        newest = max(versions)
        head = newest.to_bytes(_VERSION_BYTES, "big") + self._token_bytes(_SALT_BYTES)
        cipher = _wrapping_cipher(versions[newest], head)
        return head + cipher.encrypt(_NONCE, data_key, _binding(key_id, context))

    async def unwrap(self, key_id: str, wrapped: bytes, context: bytes) -> bytes:
        """See `KeyProvider.unwrap`."""
        head, sealed = wrapped[: _VERSION_BYTES + _SALT_BYTES], wrapped[_VERSION_BYTES + _SALT_BYTES :]
        version = int.from_bytes(head[:_VERSION_BYTES], "big")
        key = self._versions(key_id).get(version)
        if key is None:
            raise KeyRefused(f"version {version} of encryption key {key_id!r} is not in {self._path}: restore it")
        try:
            return _wrapping_cipher(key, head).decrypt(_NONCE, sealed, _binding(key_id, context))
        except (InvalidTag, ValueError):
            message = f"version {version} of encryption key {key_id!r} in {self._path} is not the one that wrapped"
            raise KeyRefused(message) from None

    def _versions(self, key_id: str) -> Mapping[int, bytes]:
        self._follow()
        versions = self._keys.get(key_id) if key_id in self._names else None
        if not versions:
            raise KeyUnknown(key_id)
        return versions

    def _follow(self) -> None:
        now = _identity(self._path)
        if now not in {self._seen, None}:
            try:
                self._keys = read_keys(self._path)
            except KeyFileRefused as error:
                raise KeyRefused(str(error)) from error
            self._seen = now


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _wrapping_cipher(key: bytes, head: bytes) -> AESGCM:
    return AESGCM(hmac.digest(key, b"isotherm data key" + head, "sha256"))


def _binding(key_id: str, context: bytes) -> bytes:
    name = key_id.encode()
    return b"isotherm data key" + len(name).to_bytes(4, "big") + name + context
