"""The settings: one frozen tree, every value validated, every limit with its reason beside it.

Sources, the stronger first: what the command line gives, `ISOTHERM_*` environment (nested with `__`, as in
`ISOTHERM_SERVER__PORT`), `isotherm.toml`. Unknown keys are refused in each. See `gateway.settings.sources`.
"""

import os
import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import quote

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from gateway.settings.encryption import Encryption
from gateway.settings.moves import Moves
from gateway.settings.notifications import Notifications
from gateway.settings.section import Seconds, Section, split_words
from gateway.settings.server_log import ServerLogs

MEBIBYTE: Final = 1 << 20
STRIPE_BYTES_LARGEST: Final = 8 * MEBIBYTE
"""Memory of the largest stripe of a shipped layout (4 MiB of data and its parity), rounded up."""

_BUCKET_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION: Final = re.compile(r"[a-z0-9-]{1,32}")
_DOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class Server(Section):
    """Addresses, processes and the names of this store."""

    host: str = Field(default="127.0.0.1", description="Address of the S3 port; 0.0.0.0 or :: serves other machines.")
    port: int = Field(default=9000, ge=0, le=65535, description="S3 port; 0 takes a free one.")
    admin_host: str = Field(default="127.0.0.1", description="Address of the admin, metrics and health port.")
    admin_port: int = Field(default=9001, ge=0, le=65535, description="Admin port; 0 takes a free one.")
    workers: int = Field(default=0, ge=0, le=512, description="Data workers; 0 is one for each core.")
    backlog: int = Field(
        default=2048, ge=16, le=65535, description="Connections that may wait for a worker to accept them."
    )
    domains: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Domains under which a bucket is the first label of the host name (virtual-hosted style).",
    )
    region: str = Field(default="us-east-1", description="Region that signatures must name and buckets are created in.")
    certificate: Path | None = Field(
        default=None, description="PEM certificate chain of the S3 port; re-read on SIGHUP."
    )
    private_key: Path | None = Field(default=None, description="PEM private key of `certificate`.")
    fast_lane: bool = Field(
        default=True, description="Serve plain requests in the protocol class; off sends all through ASGI."
    )

    _split = field_validator("domains", mode="before")(split_words)

    @field_validator("host", "admin_host")
    @classmethod
    def _check_address(cls, value: str) -> str:
        if value != "localhost":
            ip_address(value)  # names other than this would be looked up at start, and by whom they answer is chance
        return value

    @field_validator("domains")
    @classmethod
    def _check_domains(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for domain in value:
            if not _DOMAIN.fullmatch(domain):
                raise ValueError(f"{domain!r} is not a lower-case domain name")
        return value

    @field_validator("region")
    @classmethod
    def _check_region(cls, value: str) -> str:
        if not _REGION.fullmatch(value):
            raise ValueError("a region is 1 to 32 of a-z, 0-9 and -")
        return value

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key go together")
        if self.port and self.port == self.admin_port:
            raise ValueError("port and admin_port must differ")
        return self

    @property
    def worker_count(self) -> int:
        """Number of data workers to run."""
        return self.workers or len(os.sched_getaffinity(0))


class Limits(Section):
    """Bounds of what one process holds; relations between them are checked at start."""

    header_block_bytes: int = Field(
        default=16384, ge=4096, le=65536, description="Header block; a presigned URL with a session token takes 4 KiB."
    )
    header_count: int = Field(
        default=100, ge=32, le=1000, description="Header lines of a request; SDKs send fewer than 40."
    )
    header_seconds: float = Field(
        default=10.0, gt=0, le=60, description="From the first byte of a request to the end of its header block."
    )
    idle_seconds: float = Field(
        default=15.0, ge=5, le=60, description="A kept connection without a request is closed after this."
    )
    body_silence_seconds: float = Field(
        default=15.0, gt=0, le=300, description="A body of which no byte arrives for so long is cut."
    )
    body_rate_bytes: int = Field(
        default=1024, ge=0, le=MEBIBYTE, description="Bytes a second a body must average; slower ones only hold memory."
    )
    send_silence_seconds: float = Field(
        default=120.0, gt=0, le=3600, description="A client that reads no byte of an answer for so long is cut."
    )
    vigil_seconds: float = Field(
        default=0.0001,
        ge=0,
        le=0.01,
        description="A worker that serves one client stays awake so long after each request of it; 0 lets it sleep.",
    )
    stripe_bytes_max: int = Field(
        default=160 * MEBIBYTE,
        ge=16 * MEBIBYTE,
        description="Stripe buffers of one worker; uploads wait for a buffer when all are in use. The default keeps a"
        " worker below 300 MiB.",
    )
    drain_seconds: float = Field(
        default=30.0, gt=0, le=3600, description="After SIGTERM: so long may requests in flight take to end."
    )

    @model_validator(mode="after")
    def _check_relations(self) -> Self:
        if self.stripe_bytes_max < 2 * STRIPE_BYTES_LARGEST:
            raise ValueError(f"stripe_bytes_max must hold two stripes of {STRIPE_BYTES_LARGEST} bytes")
        if self.header_seconds > self.idle_seconds:
            raise ValueError("header_seconds must not exceed idle_seconds")
        if self.body_silence_seconds > self.drain_seconds:
            raise ValueError("body_silence_seconds must not exceed drain_seconds: a drain would cut bodies that live")
        return self


class S3(Section):
    """Choices where clients of S3 differ."""

    new_bucket_defaults: Literal["aws", "open"] = Field(
        default="aws", description="What a new bucket starts with: today's AWS defaults, or ACLs open for old tools."
    )
    recreation: Literal["region", "accepted", "refused"] = Field(
        default="region",
        description="CreateBucket of an own bucket as it is: accepted in us-east-1 only (AWS), accepted, or refused.",
    )
    presigned_checksum: Literal["strict", "lenient"] = Field(
        default="strict",
        description="A checksum of nothing that an SDK put into a presigned URL: verified, or ignored for a body.",
    )
    default_encryption: Literal["", "AES256"] = Field(
        default="", description="How contents are encrypted in buckets that configure nothing; empty leaves them clear."
    )
    sse_c_over_http: bool = Field(
        default=False,
        description="Take customer keys (SSE-C) over plain HTTP: only where a proxy before us speaks TLS.",
    )


class Auth(Section):
    """How credentials are kept current."""

    poll_seconds: float = Field(
        default=1.0,
        gt=0,
        le=5.0,
        description="Period of the look for changed credentials; a revoked key dies within 5 s.",
    )
    sigv2: Literal["presigned", "all", "off"] = Field(
        default="presigned", description="Where signature version 2 is accepted; old tools presign with it."
    )


class Token(Section):
    """An admin token, known by its SHA-256 only."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$", description="Name in the access log.")
    sha256: str = Field(description="SHA-256 of the token as 64 lower-case hexadecimal digits.")
    scopes: frozenset[Literal["admin", "operator", "read", "metrics"]] = Field(
        min_length=1, description="What it may do; admin includes operator, operator includes read and metrics."
    )
    expires: int = Field(default=0, ge=0, description="Seconds since the epoch after which it is refused; 0 is never.")

    @field_validator("sha256")
    @classmethod
    def _check_digest(cls, value: str) -> str:
        if not _SHA256.fullmatch(value):
            raise ValueError("is not 64 lower-case hexadecimal digits")
        return value


class Admin(Section):
    """The admin REST API."""

    tokens: tuple[Token, ...] = Field(default=(), description="Tokens besides ISOTHERM_ADMIN_TOKEN.")
    failures_per_minute: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Bad tokens from one source within a minute, after which it is answered 429.",
    )
    page_max: int = Field(default=1000, ge=10, le=10000, description="Entries of one page of a listing.")
    replays_max: int = Field(
        default=1000, ge=1, le=100000, description="Answers kept to serve a repeated Idempotency-Key."
    )

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [token.name for token in self.tokens]
        if len(set(names)) != len(names):
            raise ValueError("two tokens have the same name")
        return self


class Upkeep(Section):
    """Background work of the control process."""

    reclaim_grace_seconds: Seconds = Field(
        default=86400.0,
        description="From unreferenced to reclaimed; longer than any upload or read of one blob may last.",
    )
    reclaim_seconds: Seconds = Field(default=60.0, description="Rest between two passes of reclaim.")
    compaction_seconds: Seconds = Field(default=300.0, description="Rest between two passes of compaction.")
    repair_seconds: Seconds = Field(default=10.0, description="Rest between two looks at an empty repair queue.")
    lifecycle_seconds: Seconds = Field(
        default=60.0, description="Rest between two looks at what lifecycle rules want; shorter where days are."
    )
    checkpoint_seconds: Seconds = Field(default=30.0, description="Rest between two checkpoints of the SQLite log.")
    snapshot_seconds: Seconds = Field(default=900.0, description="Rest between two snapshots of the metadata.")


class NewBucket(Section):
    """A bucket to create at start."""

    name: str
    is_versioned: bool = False

    @field_validator("name")
    @classmethod
    def _check_name(cls, value: str) -> str:
        if not _BUCKET_NAME.fullmatch(value) or ".." in value:
            raise ValueError(f"{value!r} is not a bucket name")
        return value


class Settings(Section):
    """Everything an operator may set."""

    data: Path = Field(
        default=Path("isotherm-data"), description="Directory of the embedded store: database, devices, secrets."
    )
    database_url: str = Field(
        default="", description="Metadata database; empty is SQLite in `data`. postgresql://user@host/name"
    )
    root_access_key: str = Field(
        default="", description="Access key of the root account; generated at first start when empty."
    )
    root_secret_key: SecretStr = Field(
        default=SecretStr(""), description="Its secret key; generated at first start when empty."
    )
    admin_token: SecretStr = Field(
        default=SecretStr(""), description="Admin token of scope admin; generated when empty."
    )
    buckets: Annotated[tuple[NewBucket, ...], NoDecode] = Field(
        default=(), description="Buckets created at start, comma-separated; `name:versioned` enables versioning."
    )
    host_number: int = Field(
        default=0, ge=0, le=4095, description="Number of this host; hosts that share one database need different ones."
    )
    seconds_per_day: float = Field(default=86400.0, gt=0, le=86400, description="Length of a lifecycle day, for tests.")
    access_log: str = Field(default="off", description="Access log: a path, `-` for standard output, `off` for none.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level of the process log."
    )
    server: Server = Server()
    limits: Limits = Limits()
    s3: S3 = S3()
    auth: Auth = Auth()
    admin: Admin = Admin()
    upkeep: Upkeep = Upkeep()
    moves: Moves = Moves()
    encryption: Encryption = Encryption()
    notifications: Notifications = Notifications()
    server_log: ServerLogs = ServerLogs()

    @field_validator("buckets", mode="before")
    @classmethod
    def _split_buckets(cls, value: object) -> object:
        words = split_words(value)
        if not isinstance(words, list | tuple):
            return words
        return [_bucket_of(word) if isinstance(word, str) else word for word in words]

    @field_validator("root_access_key")
    @classmethod
    def _check_access_key(cls, value: str) -> str:
        if value and not re.fullmatch(r"[A-Za-z0-9_.-]{3,128}", value):
            raise ValueError("an access key is 3 to 128 of A-Z, a-z, 0-9, _ . and -")
        return value

    @field_validator("root_secret_key")
    @classmethod
    def _check_secret_key(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value() and len(value.get_secret_value()) < 8:
            raise ValueError("is shorter than 8 characters")
        return value

    @field_validator("admin_token")
    @classmethod
    def _check_admin_token(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value() and not re.fullmatch(r"[\x21-\x7e]{16,512}", value.get_secret_value()):
            raise ValueError("an admin token is 16 to 512 printable characters without a space")
        return value

    @model_validator(mode="after")
    def _check_root(self) -> Self:
        if bool(self.root_access_key) != bool(self.root_secret_key.get_secret_value()):
            raise ValueError("root_access_key and root_secret_key go together")
        return self

    @property
    def metadata_url(self) -> str:
        """URL of the metadata database, the embedded one made absolute."""
        return self.database_url or f"sqlite:///{quote(str(self.data.absolute() / 'metadata.db'))}"

    @property
    def is_embedded(self) -> bool:
        """Whether the metadata is SQLite on this machine."""
        return self.metadata_url.startswith("sqlite")


def _bucket_of(word: str) -> dict[str, object]:
    name, _, suffix = word.partition(":")
    if suffix not in {"", "versioned"}:
        raise ValueError(f"{word!r}: only `versioned` may follow a bucket name")
    return {"name": name, "is_versioned": bool(suffix)}
