"""The run profile: how the gateway is set up for the suite, and the suite for the gateway.

Shown in the ledger as it was. Everything that is not named here is default.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

REGION: Final = "default"
DAY_SECONDS: Final = 10
KEYS: Final = ("testkey-1", "testkey-2")

SETTINGS: Final[Mapping[str, str]] = {
    "server__region": REGION,
    "s3__new_bucket_defaults": "open",
    "s3__recreation": "accepted",
    "s3__sse_c_over_http": "true",
    "encryption__kms_keys": ",".join(KEYS),
    "auth__sigv2": "all",
    "seconds_per_day": str(DAY_SECONDS),
    "server_log__flush_seconds": "1",
    "restore__permanent_without_days": "true",
}
"""Settings that the suite needs, by their environment name without prefix; those this release lacks are left out."""

SECTIONS: Final[Sequence[str]] = ("s3 main", "s3 alt", "s3 tenant", "iam", "iam root", "iam alt root")
"""Sections of the suite's configuration that name an account."""

MAIN: Final = {
    "api_name": REGION,
    "kms_keyid": KEYS[0],
    "kms_keyid2": KEYS[1],
    "storage_classes": "STANDARD_IA, GLACIER_IR",
    "lc_debug_interval": str(DAY_SECONDS),
}
TENANT: Final = "testx"


@dataclass(frozen=True, slots=True)
class Account:
    """A user that the admin API made for one section, with one access key; `name` is what S3 shows as display name."""

    user_id: str
    name: str
    email: str
    access_key: str
    secret_key: str
    tenant: str = ""


def environment(known: frozenset[str]) -> dict[str, str]:
    """The profile as `ISOTHERM_*` variables; `known` are the settings this release has."""
    return {f"ISOTHERM_{name}".upper(): value for name, value in SETTINGS.items() if name in known}


def left_out(known: frozenset[str]) -> list[str]:
    """Settings of the profile that this release does not have."""
    return sorted(name for name in SETTINGS if name not in known)


def configuration(port: int, accounts: Mapping[str, Account]) -> str:
    """The text of the suite's configuration file for the gateway on this loopback port."""
    assert set(accounts) == set(SECTIONS)
    lines = ["[DEFAULT]", "host = 127.0.0.1", f"port = {port}", "is_secure = False", "ssl_verify = False"]
    lines += [
        "[fixtures]",
        "bucket prefix = t-{random}-",
        "iam name prefix = s3-tests-",
        "iam path prefix = /s3-tests/",
    ]
    for section, account in accounts.items():
        lines += [f"[{section}]", *_section(section, account)]
    return "\n".join(lines) + "\n"


def _section(section: str, account: Account) -> Iterator[str]:
    yield from (f"{name} = {value}" for name, value in (MAIN.items() if section == "s3 main" else ()))
    if section == "s3 tenant":
        yield f"tenant = {TENANT}"
    yield f"user_id = {account.user_id}"
    yield f"display_name = {account.name}"
    yield f"email = {account.email}"
    yield f"access_key = {account.access_key}"
    yield f"secret_key = {account.secret_key}"
