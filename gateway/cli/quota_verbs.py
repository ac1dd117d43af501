"""The quota verbs: how much users, buckets and tenants may hold, and how fast they and access keys may be."""

from typing import Annotated, Any, Final

import typer

from gateway.cli.client import AdminClient, segment
from gateway.cli.output import bytes_text, fail, show_json, show_record
from gateway.cli.verbs import URL_DEFAULT, Json, Url, admin, user_id_of

quota = typer.Typer(no_args_is_help=True, help="Quotas and rates of users, buckets, tenants and access keys.")

UNLIMITED: Final = "none"

User = Annotated[str, typer.Option("--user", help="Name or id of a user: over all buckets it owns.")]
Bucket = Annotated[str, typer.Option("--bucket", help="A bucket.")]
Tenant = Annotated[str, typer.Option("--tenant", help="A tenant: over all its users.")]
Key = Annotated[str, typer.Option("--key", help="An access key; rates only.")]
Amount = Annotated[str, typer.Option(metavar="COUNT|none", help="Left as it is when not given.")]

_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
_BYTES: Final = frozenset({"byte_count_max", "byte_count", "bytes_per_second"})


@quota.command("show")
def show_quota(
    user: User = "",
    bucket: Bucket = "",
    tenant: Tenant = "",
    key: Key = "",
    url: Url = URL_DEFAULT,
    *,
    as_json: Json = False,
) -> None:
    """Show limits and what is held."""
    with admin(url) as client:
        _show(client.call("GET", _path(client, user=user, bucket=bucket, tenant=tenant, key=key)), as_json=as_json)


@quota.command("set")
def set_quota(  # noqa: PLR0913  # one option a limit
    user: User = "",
    bucket: Bucket = "",
    tenant: Tenant = "",
    key: Key = "",
    *,
    byte_count: Annotated[str, typer.Option("--bytes", metavar="SIZE|none", help="Bytes, as 500G or 2T.")] = "",
    objects: Annotated[str, typer.Option("--objects", metavar="COUNT|none", help="Objects.")] = "",
    requests: Annotated[str, typer.Option("--requests", metavar="COUNT|none", help="Requests a second.")] = "",
    bandwidth: Annotated[str, typer.Option("--bandwidth", metavar="SIZE|none", help="Bytes a second.")] = "",
    url: Url = URL_DEFAULT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be set, and set nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Set limits; those not named stay, `none` takes one away."""
    asked = {
        "byte_count_max": byte_count, "object_count_max": objects,
        "requests_per_second": requests, "bytes_per_second": bandwidth,
    }  # fmt: skip
    with admin(url) as client:
        path = _path(client, user=user, bucket=bucket, tenant=tenant, key=key)
        now = client.call("GET", path)
        document = {name: now[name] for name in asked if name in now}
        for name, text in asked.items():
            if not text:
                continue
            if name not in document:
                fail(f"{name} cannot be set there")
            document[name] = _amount(name, text)
        _show(document if dry_run else client.call("PUT", path, document), as_json=as_json)


@quota.command("move")
def move_user(
    user: Annotated[str, typer.Argument(metavar="USER", help="Name or id of the user.")],
    tenant: Annotated[str, typer.Argument(help="The tenant, '' for none.")],
    url: Url = URL_DEFAULT,
    *,
    as_json: Json = False,
) -> None:
    """Move a user, with all it holds, to a tenant."""
    with admin(url) as client:
        path = f"/users/{segment(user_id_of(client, user))}/tenant"
        _show(client.call("PUT", path, {"tenant": tenant}), as_json=as_json)


def _path(client: AdminClient, *, user: str, bucket: str, tenant: str, key: str) -> str:
    """Where the limits of the one thing named are."""
    if sum(map(bool, (user, bucket, tenant, key))) != 1:
        fail("name one of --user, --bucket, --tenant and --key", code=2)
    if user:
        return f"/users/{segment(user_id_of(client, user))}/quota"
    if bucket:
        return f"/buckets/{segment(bucket)}/quota"
    return f"/tenants/{segment(tenant)}/quota" if tenant else f"/keys/{segment(key)}/rate"


def _amount(name: str, text: str) -> int | None:
    """A number, with a binary unit where it counts bytes. Ends the command for anything else."""
    if text == UNLIMITED:
        return 0 if name.endswith("_per_second") else None
    unit = text[-1:].upper() if name in _BYTES and not text[-1:].isdigit() else ""
    digits = text[: len(text) - len(unit)]
    if unit not in _UNITS or not (digits.isascii() and digits.isdigit()):
        fail(f"{text!r} is no amount: a number, with K, M, G, T or P behind it for bytes, or none", code=2)
    return int(digits) * _UNITS[unit]


def _show(record: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(record)
        return
    sizes = {name: bytes_text(value) for name, value in record.items() if name in _BYTES and value}
    show_record({**record, **sizes})
