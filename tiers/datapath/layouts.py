"""Layouts by their text, parsed once: rows and catalogue carry the text."""

from functools import lru_cache

from tiers.erasure.layout import Layout


@lru_cache(maxsize=256)
def layout_of(text: str) -> Layout:
    """The layout written `K+M:SEGMENT_BYTES`. Errors: ValueError."""
    return Layout.parse(text)
