"""Cursors: where a listing goes on, as text that only we can have made."""

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256
from typing import Annotated, Any, Final

from fastapi import Query

from gateway.admin.problems import Problem

LIMIT_DEFAULT: Final = 100
CURSOR_CHARACTERS_MAX: Final = 2048
_TAG_BYTES: Final = 16

Limit = Annotated[int, Query(ge=1, description="Entries of a page.")]
Cursor = Annotated[str, Query(max_length=CURSOR_CHARACTERS_MAX, description="`next_cursor` of the page before.")]


class Cursors:
    """Makes and reads cursors. `key` is 32 secret bytes that every control process of the store shares."""

    def __init__(self, key: bytes, page_max: int) -> None:
        self._key = key
        self._page_max = page_max

    def bound(self, limit: int) -> int:
        """The page size served for a wish."""
        return min(limit, self._page_max)

    def encode(self, purpose: str, position: tuple[Any, ...]) -> str:
        """A cursor for `purpose` (the listing it belongs to)."""
        text = json.dumps(position).encode()
        return urlsafe_b64encode(self._tag(purpose, text) + text).decode()

    def decode(self, purpose: str, cursor: str) -> tuple[Any, ...] | None:
        """The position, None for an empty cursor. Errors: Problem 400 for anything `encode` did not make."""
        if not cursor:
            return None
        try:
            raw = urlsafe_b64decode(cursor.encode())
        except ValueError:
            raw = b""
        text = raw[_TAG_BYTES:]
        # Whole cursors are compared: base64 has several spellings of the same bytes, and only ours is good.
        made = urlsafe_b64encode(self._tag(purpose, text) + text)
        if not hmac.compare_digest(made, cursor.encode()):
            raise Problem(400, "CursorInvalid", "The cursor is not one of this listing.")
        position = json.loads(text)
        assert isinstance(position, list), "we made it"
        return tuple(position)

    def _tag(self, purpose: str, text: bytes) -> bytes:
        return hmac.new(self._key, purpose.encode() + b"\0" + text, sha256).digest()[:_TAG_BYTES]
