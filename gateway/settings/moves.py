"""The moves section of the settings."""

from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from gateway.settings.section import Section, split_words

BYTES_PER_SECOND_MAX = 1 << 40


class Moves(Section):
    """How fast contents move between tiers."""

    bytes_per_second: int = Field(
        default=100 << 20,
        ge=0,
        le=BYTES_PER_SECOND_MAX,
        description="Bytes a second that moves read from and write to each tier; 0 is any rate. Clients come first.",
    )
    tier_bytes_per_second: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Other rates for single tiers, comma-separated, as `cold=20971520`."
    )

    _split = field_validator("tier_bytes_per_second", mode="before")(split_words)

    @field_validator("tier_bytes_per_second")
    @classmethod
    def _check_rates(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for word in value:
            tier, _, rate = word.partition("=")
            is_number = rate.isascii() and rate.isdigit() and len(rate) <= 13
            if not tier or not is_number or int(rate) > BYTES_PER_SECOND_MAX:
                raise ValueError(f"{word!r} is not <tier>=<bytes a second>")
        return value


def rates_by_tier(words: tuple[str, ...]) -> dict[str, int]:
    """Rates by tier, of words that the settings have checked."""
    return {word.partition("=")[0]: int(word.partition("=")[2]) for word in words}
