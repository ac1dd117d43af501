"""The encryption section of the settings."""

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from gateway.settings.section import Section, split_words

_KEY_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_RESERVED_NAMES: Final = frozenset({".", "..", "sse-s3"})


class Encryption(Section):
    """Who keeps the keys of SSE-KMS. The key of SSE-S3 is always in the store's own key file."""

    kms: Literal["file", "transit"] = Field(
        default="file", description="Who keeps the keys of SSE-KMS: the store's key file, or a transit secrets engine."
    )
    kms_keys: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Keys that clients may name, comma-separated; in the key file, missing ones are made."
    )
    default_kms_key: str = Field(
        default="", description="The one of `kms_keys` for SSE-KMS without a key id; empty refuses that."
    )
    transit_url: str = Field(default="", description="Address of the transit engine's server, https:// or http://.")
    transit_mount: str = Field(
        default="transit", pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Where the transit engine is mounted."
    )
    transit_token: SecretStr = Field(
        default=SecretStr(""), description="Token that may encrypt and decrypt with `kms_keys`."
    )
    transit_certificates: Path | None = Field(
        default=None, description="PEM certificates that the engine's is checked by; none takes the system's."
    )
    transit_seconds: float = Field(default=5.0, gt=0, le=30, description="So long may the engine take to answer.")

    _split = field_validator("kms_keys", mode="before")(split_words)

    @field_validator("kms_keys")
    @classmethod
    def _check_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _KEY_NAME.fullmatch(name) or name in _RESERVED_NAMES:
                raise ValueError(f"{name!r} is not the name of a key: 1 to 128 of A-Z, a-z, 0-9, _ . and -")
        return value

    @field_validator("transit_url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        address = urlsplit(value)
        is_plain = not (address.query or address.fragment or address.username or address.password)
        if value and not (address.scheme in {"http", "https"} and address.hostname and is_plain):
            raise ValueError("is not an http or https address")
        return value

    @field_validator("transit_token")
    @classmethod
    def _check_token(cls, value: SecretStr) -> SecretStr:
        if not re.fullmatch(r"[\x21-\x7e]{0,512}", value.get_secret_value()):
            raise ValueError("is not at most 512 printable characters without a space")
        return value

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.default_kms_key and self.default_kms_key not in self.kms_keys:
            raise ValueError("default_kms_key must be one of kms_keys")
        if self.kms == "transit" and not (self.transit_url and self.transit_token.get_secret_value()):
            raise ValueError("kms = transit needs transit_url and transit_token")
        return self
