"""Who wraps the data keys of encrypted contents: the contract, and the errors of every provider."""

from typing import Protocol

DATA_KEY_BYTES = 32


class KeyUnknown(Exception):
    """No key of that id may be used here; `key_id` is the one asked for."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"no encryption key {key_id!r}")
        self.key_id = key_id


class KeyRefused(Exception):
    """A wrapped data key does not open: another key, another context, or changed bytes. The text says what to look at.

    What it protects cannot be read until the right key is back.
    """


class KeysUnavailable(Exception):
    """The provider does not answer in time, or answers with a fault of its own; trying again may help."""


class KeyProvider(Protocol):
    """Wraps data keys of `DATA_KEY_BYTES` under named keys that never leave it.

    `context` is bound to the wrapped key: it opens with exactly the same bytes only.
    """

    async def wrap(self, key_id: str, data_key: bytes, context: bytes) -> bytes:
        """The data key as a row may keep it. Errors: KeyUnknown, KeysUnavailable."""

    async def unwrap(self, key_id: str, wrapped: bytes, context: bytes) -> bytes:
        """Inverse of `wrap`, also after the key was rotated. Errors: KeyUnknown, KeyRefused, KeysUnavailable."""
