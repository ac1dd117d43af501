"""The admin verbs: user, key, device, tier, bucket, all through the admin API."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gateway.cli.client import AdminClient, AdminRefused, segment
from gateway.cli.output import bytes_text, fail, show_json, show_record, show_table
from gateway.settings.first_start import local_admin_token

URL_DEFAULT: Final = "http://127.0.0.1:9001"

user = typer.Typer(no_args_is_help=True, help="Users: who may own buckets and access keys.")
key = typer.Typer(no_args_is_help=True, help="Access keys of users.")
device = typer.Typer(no_args_is_help=True, help="Devices: where the bytes are.")
tier = typer.Typer(no_args_is_help=True, help="Tiers: gpu, hot, warm, cold.")
bucket = typer.Typer(no_args_is_help=True, help="Buckets and their usage.")

Url = Annotated[str, typer.Option("--url", envvar="ISOTHERM_ADMIN_URL", help="Address of the admin API.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
UserName = Annotated[str, typer.Argument(metavar="USER", help="Name or id of the user.")]

USER_COLUMNS: Final = {
    "name": "NAME",
    "id": "ID",
    "is_enabled": "ENABLED",
    "is_root": "ROOT",
    "created": "CREATED",
    "email": "E-MAIL",
}
KEY_COLUMNS: Final = {"access_key_id": "ACCESS KEY", "user_id": "USER ID", "is_active": "ACTIVE", "created": "CREATED"}
DEVICE_COLUMNS: Final = {
    "id": "ID", "tier": "TIER", "state": "STATE", "kind": "KIND", "free": "FREE", "total": "TOTAL",
    "location": "LOCATION",
}  # fmt: skip
TIER_COLUMNS: Final = {
    "name": "NAME", "layout": "LAYOUT", "pack_copies": "PACK COPIES", "devices": "DEVICES", "free": "FREE",
    "total": "TOTAL", "storage_classes": "STORAGE CLASSES",
}  # fmt: skip
BUCKET_COLUMNS: Final = {
    "name": "NAME", "object_count": "OBJECTS", "version_count": "VERSIONS", "used": "USED", "versioning": "VERSIONING",
    "created": "CREATED",
}  # fmt: skip


@contextmanager
def admin(url: str) -> Iterator[AdminClient]:
    """A client with the token of the environment, or of a store on this machine; refusals end the command."""
    data = Path(os.environ.get("ISOTHERM_DATA") or "isotherm-data")
    token = os.environ.get("ISOTHERM_ADMIN_TOKEN") or local_admin_token(data)
    if not token:
        fail("no admin token: set ISOTHERM_ADMIN_TOKEN, or ISOTHERM_DATA to the data directory of a local store")
    try:
        yield AdminClient(url, token)
    except AdminRefused as error:
        fail(str(error))


def user_id_of(client: AdminClient, name: str) -> str:
    """The id of a user by name; what is no user's name is taken for an id."""
    found = client.call("GET", f"/users?name={segment(name)}")["users"]
    return str(found[0]["id"]) if found else name


def _show(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str], *, as_json: bool) -> None:
    if as_json:
        show_json(list(rows))
    else:
        show_table([_readable(row) for row in rows], columns)


def _show_one(record: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(record)
    else:
        show_record(record)


def _readable(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its sizes for people."""
    sizes = {"free": "free_bytes", "total": "total_bytes", "used": "byte_count"}
    found = {name: row[member] for name, member in sizes.items() if member in row}
    return {**row, **{name: None if value is None else bytes_text(value) for name, value in found.items()}}


@user.command("list")
def list_users(url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """List users."""
    with admin(url) as client:
        _show(list(client.pages("/users", "users")), USER_COLUMNS, as_json=as_json)


@user.command("add")
def add_user(
    name: Annotated[str, typer.Argument(help="Name of the new user.")],
    email: Annotated[str, typer.Option("--email", help="E-mail address that access control lists may name.")] = "",
    url: Url = URL_DEFAULT,
    *,
    as_json: Json = False,
) -> None:
    """Create a user without access keys."""
    with admin(url) as client:
        _show_one(client.call("POST", "/users", {"name": name, "email": email}), as_json=as_json)


@user.command("show")
def show_user(name: UserName, url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """Show one user."""
    with admin(url) as client:
        _show_one(client.call("GET", f"/users/{segment(user_id_of(client, name))}"), as_json=as_json)


@user.command("disable")
def disable_user(name: UserName, url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """Refuse a user's requests from now on."""
    _edit_user(name, url, {"is_enabled": False}, as_json=as_json)


@user.command("enable")
def enable_user(name: UserName, url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """Accept a disabled user's requests again."""
    _edit_user(name, url, {"is_enabled": True}, as_json=as_json)


@user.command("rename")
def rename_user(
    name: UserName,
    new_name: Annotated[str, typer.Argument(help="The new name.")],
    url: Url = URL_DEFAULT,
    *,
    as_json: Json = False,
) -> None:
    """Give a user another name."""
    _edit_user(name, url, {"name": new_name}, as_json=as_json)


@user.command("set-email")
def set_user_email(
    name: UserName,
    email: Annotated[str, typer.Argument(help="The new e-mail address, '' for none.")],
    url: Url = URL_DEFAULT,
    *,
    as_json: Json = False,
) -> None:
    """Give a user another e-mail address."""
    _edit_user(name, url, {"email": email}, as_json=as_json)


@user.command("remove")
def remove_user(name: UserName, url: Url = URL_DEFAULT) -> None:
    """Delete a user and its access keys; refused while it owns buckets."""
    with admin(url) as client:
        client.call("DELETE", f"/users/{segment(user_id_of(client, name))}")


def _edit_user(name: str, url: str, change: Mapping[str, object], *, as_json: bool) -> None:
    with admin(url) as client:
        _show_one(client.call("PATCH", f"/users/{segment(user_id_of(client, name))}", change), as_json=as_json)


@key.command("list")
def list_keys(
    user_name: Annotated[str, typer.Option("--user", help="Only keys of this user.")] = "",
    url: Url = URL_DEFAULT,
    *,
    as_json: Json = False,
) -> None:
    """List access keys, revoked ones included."""
    with admin(url) as client:
        path = f"/users/{segment(user_id_of(client, user_name))}/keys" if user_name else "/keys"
        _show(list(client.pages(path, "keys")), KEY_COLUMNS, as_json=as_json)


@key.command("create")
def create_key(name: UserName, url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """Give a user a new access key; its secret key is shown this once."""
    with admin(url) as client:
        _show_one(client.call("POST", f"/users/{segment(user_id_of(client, name))}/keys", {}), as_json=as_json)


@key.command("revoke")
def revoke_key(access_key_id: Annotated[str, typer.Argument(help="Access key id.")], url: Url = URL_DEFAULT) -> None:
    """Revoke an access key for good."""
    with admin(url) as client:
        client.call("DELETE", f"/keys/{segment(access_key_id)}")


@device.command("list")
def list_devices(url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """List devices with their space."""
    with admin(url) as client:
        _show(list(client.pages("/devices", "devices")), DEVICE_COLUMNS, as_json=as_json)


@device.command("show")
def show_device(
    device_id: Annotated[str, typer.Argument(help="Device id.")], url: Url = URL_DEFAULT, *, as_json: Json = False
) -> None:
    """Show one device."""
    with admin(url) as client:
        _show_one(client.call("GET", f"/devices/{segment(device_id)}"), as_json=as_json)


@tier.command("list")
def list_tiers(url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """List tiers, fast to slow."""
    with admin(url) as client:
        _show(client.call("GET", "/tiers")["tiers"], TIER_COLUMNS, as_json=as_json)


@tier.command("show")
def show_tier(
    name: Annotated[str, typer.Argument(help="Tier.")], url: Url = URL_DEFAULT, *, as_json: Json = False
) -> None:
    """Show one tier."""
    with admin(url) as client:
        _show_one(client.call("GET", f"/tiers/{segment(name)}"), as_json=as_json)


@bucket.command("list")
def list_buckets(url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """List buckets with their usage."""
    with admin(url) as client:
        _show(list(client.pages("/buckets", "buckets")), BUCKET_COLUMNS, as_json=as_json)


@bucket.command("show")
def show_bucket(
    name: Annotated[str, typer.Argument(help="Bucket.")], url: Url = URL_DEFAULT, *, as_json: Json = False
) -> None:
    """Show one bucket."""
    with admin(url) as client:
        _show_one(client.call("GET", f"/buckets/{segment(name)}"), as_json=as_json)
