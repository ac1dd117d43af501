"""Secrets at rest: secret keys in an authenticated envelope, the master key in a file of its own.

SigV4 needs secret keys back in plain, so they cannot be hashed. The envelope is AES-256-GCM with owner and key id as
associated data: an envelope copied to another row does not open.
"""

import base64
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

MASTER_KEY_BYTES: Final = 32

_VERSION: Final = b"\x01"
_NONCE_BYTES: Final = 12
_ID_BYTES: Final = 10
_SECRET_BYTES: Final = 30


class SecretUnreadable(Exception):
    """An envelope does not open: another master key, another row, or changed bytes."""


class MasterKeyRefused(Exception):
    """The master key file is absent, malformed, or readable by others; the store must not start."""


class SecretBox:
    """Seals and opens secret keys under one master key. `token_bytes` is a source of secure random bytes."""

    def __init__(self, master_key: bytes, token_bytes: Callable[[int], bytes]) -> None:
        assert len(master_key) == MASTER_KEY_BYTES
        self._cipher = AESGCM(master_key)
        self._token_bytes = token_bytes

    def seal(self, secret: bytes, *, principal_id: str, access_key_id: str) -> bytes:
        """The envelope of a secret key, bound to its owner and id."""
        nonce = self._token_bytes(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, secret, _binding(principal_id, access_key_id))

    def open(self, envelope: bytes, *, principal_id: str, access_key_id: str) -> bytes:
        """The secret key of an envelope. Errors: SecretUnreadable."""
        nonce, sealed = envelope[1 : 1 + _NONCE_BYTES], envelope[1 + _NONCE_BYTES :]
        if envelope[:1] != _VERSION or len(nonce) != _NONCE_BYTES:
            raise SecretUnreadable(access_key_id)
        try:
            return self._cipher.decrypt(nonce, sealed, _binding(principal_id, access_key_id))
        except (InvalidTag, ValueError) as error:
            raise SecretUnreadable(access_key_id) from error


def _binding(principal_id: str, access_key_id: str) -> bytes:
    owner, key = principal_id.encode(), access_key_id.encode()
    return b"isotherm access key" + _VERSION + len(owner).to_bytes(4, "big") + owner + key


def create_master_key(path: Path, token_bytes: Callable[[int], bytes]) -> bytes:
    """Write a fresh master key to `path` (mode 0600, flushed with its directory) and return it.

    Errors: FileExistsError, with the old file untouched.
    """
    key = token_bytes(MASTER_KEY_BYTES)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(base64.b64encode(key) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return key


def load_master_key(path: Path) -> bytes:
    """The master key in `path`. Errors: MasterKeyRefused."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_bytes()
    except OSError as error:
        raise MasterKeyRefused(f"{path}: {error.strerror}") from error
    if mode & 0o077:
        raise MasterKeyRefused(f"{path}: readable by others (mode {mode:04o}, expected 0600)")
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError as error:
        raise MasterKeyRefused(f"{path}: not base64") from error
    if len(key) != MASTER_KEY_BYTES:
        raise MasterKeyRefused(f"{path}: {len(key)} bytes instead of {MASTER_KEY_BYTES}")
    return key


def generate_access_key(token_bytes: Callable[[int], bytes]) -> tuple[str, str]:
    """A fresh access key: an id of 20 capital letters and digits, and a secret key of 40 characters (240 bits)."""
    access_key_id = "ISOT" + base64.b32encode(token_bytes(_ID_BYTES)).decode("ascii")
    return access_key_id, base64.urlsafe_b64encode(token_bytes(_SECRET_BYTES)).decode("ascii")
