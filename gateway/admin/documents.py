"""Documents of the admin API as its clients see them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

NAME_PATTERN: Final = r"^[A-Za-z0-9_.@+=,-]{1,64}$"
"""IAM's characters for user names."""

EMAIL_PATTERN: Final = r"^([^\s@<>]{1,64}@[^\s@<>]{1,189})?$"
"""An address, or none. It only stands for its user where access control lists name one by it; no mail is ever sent."""

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]


class Document(BaseModel):
    """Base of every document: unknown members are refused, values are never coerced from another JSON type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class NewUser(Document):
    """A user to create."""

    name: str = Field(pattern=NAME_PATTERN)
    email: str = Field(default="", pattern=EMAIL_PATTERN)


class UserChange(Document):
    """What to change of a user; absent members stay."""

    name: str | None = Field(default=None, pattern=NAME_PATTERN)
    is_enabled: bool | None = None
    email: str | None = Field(default=None, pattern=EMAIL_PATTERN)


class User(Document):
    """A user."""

    id: str
    name: str
    is_root: bool
    is_enabled: bool
    created: str
    email: str


class UserPage(Document):
    """Users by id."""

    users: Sequence[User]
    next_cursor: str


class AccessKey(Document):
    """An access key without its secret."""

    access_key_id: str
    user_id: str
    is_active: bool
    created: str


class NewAccessKey(AccessKey):
    """A fresh access key: the only time its secret key is shown."""

    secret_key: str


class AccessKeyPage(Document):
    """Access keys by id."""

    keys: Sequence[AccessKey]
    next_cursor: str


class Device(Document):
    """A device. `total_bytes` and `free_bytes` are null while it does not answer."""

    id: str
    tier: str
    kind: str
    location: str
    state: str
    host: str
    rack: str
    zone: str
    site: str
    total_bytes: int | None
    free_bytes: int | None


class DevicePage(Document):
    """Devices by id."""

    devices: Sequence[Device]
    next_cursor: str


class Tier(Document):
    """A tier and the space of its devices."""

    name: str
    rank: int
    layout: str
    pack_copies: int
    storage_classes: Sequence[str]
    access_mode: str
    durability: str
    medium: str
    devices: int
    total_bytes: int
    free_bytes: int


class TierList(Document):
    """All tiers, fast to slow."""

    tiers: Sequence[Tier]


class Bucket(Document):
    """A bucket and its exact usage. `byte_count` counts all versions and the parts of open uploads."""

    name: str
    owner_id: str
    created: str
    versioning: str
    region: str
    object_count: int
    version_count: int
    byte_count: int


class BucketPage(Document):
    """Buckets by name."""

    buckets: Sequence[Bucket]
    next_cursor: str


def iso_time(milliseconds: int) -> str:
    """Milliseconds since the epoch as RFC 3339 in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
