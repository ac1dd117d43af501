"""What every section of the settings tree is made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0, le=30 * 86400)]


class Section(BaseModel):
    """Base of every section: frozen, no unknown key."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


def split_words(value: object) -> object:
    """Comma-separated text as a list; anything else unchanged."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value
