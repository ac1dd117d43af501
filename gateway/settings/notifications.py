"""The notifications section of the settings."""

from ipaddress import ip_network
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from gateway.settings.section import Seconds, Section, split_words

PRIVATE_NETWORKS = ("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")


class WebhookTarget(Section):
    """A webhook that buckets may name as `arn:isotherm:sqs:<region>:<name>:webhook`."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Name in ARNs.")
    url: str = Field(description="Where events are posted, https:// or http://.")
    secret: SecretStr = Field(
        default=SecretStr(""), description="Signs each post (HMAC-SHA256, X-Isotherm-Signature); empty signs none."
    )

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        address = urlsplit(value)
        is_plain = not (address.username or address.password or address.fragment)
        if not (address.scheme in {"http", "https"} and address.hostname and is_plain and value.isascii()):
            raise ValueError("is not an http or https address")
        return value


class Notifications(Section):
    """Where events of buckets may be sent, and how."""

    targets: tuple[WebhookTarget, ...] = Field(default=(), description="Webhooks that buckets may name.")
    networks: Annotated[tuple[str, ...], NoDecode] = Field(
        default=PRIVATE_NETWORKS,
        description="Networks, besides public addresses, that a webhook's name may resolve to, comma-separated.",
    )
    deadline_seconds: float = Field(default=10.0, gt=0, le=60, description="So long may a webhook take to answer.")
    rest_seconds: Seconds = Field(default=0.5, description="Rest between two looks at the events that wait.")
    retention_seconds: float = Field(
        default=7 * 86400.0, gt=0, le=365 * 86400, description="An event that its webhook never takes is given up then."
    )

    _split = field_validator("networks", mode="before")(split_words)

    @field_validator("networks")
    @classmethod
    def _check_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ip_network(network)
        return value

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [target.name for target in self.targets]
        if len(set(names)) != len(names):
            raise ValueError("two targets have the same name")
        return self
