"""The move verbs: bring versions to another tier, and see and steer the queue."""

from collections.abc import Iterator
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

import typer

from gateway.cli.client import AdminClient, segment
from gateway.cli.output import bytes_text, show_json, show_record, show_table
from gateway.cli.verbs import URL_DEFAULT, Json, Url, admin

move = typer.Typer(no_args_is_help=True, help="Moves of versions between tiers.")

Bucket = Annotated[str, typer.Argument(metavar="BUCKET", help="The bucket.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]
MoveId = Annotated[str, typer.Argument(metavar="MOVE", help="Id of a move, as `move list` shows it.")]
VersionId = Annotated[str, typer.Option("--version-id", help="A version; the current one when not given.")]

COLUMNS: Final = {
    "id": "ID", "bucket": "BUCKET", "key": "KEY", "from": "FROM", "to": "TO", "state": "STATE", "result": "RESULT",
    "bytes": "BYTES", "reason": "REASON", "attempts": "TRIES", "error": "ERROR",
}  # fmt: skip
PIECE_COLUMNS: Final = {
    "tier": "TIER", "kind": "KIND", "layout": "LAYOUT", "blob_id": "BLOB", "offset": "OFFSET", "length": "LENGTH",
    "devices": "DEVICES",
}  # fmt: skip


@move.command("add")
def add_move(  # noqa: PLR0913  # one option a member
    bucket: Bucket,
    key: Key,
    to: Annotated[str, typer.Option("--to", help="The tier.")],
    *,
    version_id: VersionId = "",
    storage_class: Annotated[str, typer.Option("--storage-class", help="The class it has then; its own else.")] = "",
    priority: Annotated[int, typer.Option(min=0, max=1000, help="0 is the most urgent.")] = 100,
    url: Url = URL_DEFAULT,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be moved, and move nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Bring a version to a tier; it is done later."""
    document = {
        "bucket": bucket, "key": key, "version_id": version_id, "to": to, "storage_class": storage_class or None,
        "priority": priority, "is_dry_run": dry_run,
    }  # fmt: skip
    with admin(url) as client:
        _show(client.call("POST", "/moves", document), as_json=as_json)


@move.command("list")
def list_moves(
    state: Annotated[str, typer.Option("--state", metavar="queued|running|ended", help="Only these.")] = "",
    url: Url = URL_DEFAULT,
    *,
    as_json: Json = False,
) -> None:
    """List moves, those that ended within the last day too."""
    with admin(url) as client:
        rows = list(_pages(client, state))
    if as_json:
        show_json(rows)
    else:
        show_table([{**row, "bytes": bytes_text(row["byte_count"])} for row in rows], COLUMNS)


@move.command("show")
def show_move(move_id: MoveId, url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """Show a move."""
    with admin(url) as client:
        _show(client.call("GET", f"/moves/{segment(move_id)}"), as_json=as_json)


@move.command("cancel")
def cancel_move(move_id: MoveId, url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """Cancel a move: one that runs does not take effect."""
    with admin(url) as client:
        _show(client.call("DELETE", f"/moves/{segment(move_id)}"), as_json=as_json)


@move.command("queue")
def show_queue(url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """Show how many moves wait and run, and whether they are paused."""
    with admin(url) as client:
        _show(client.call("GET", "/moves:queue"), as_json=as_json)


@move.command("pause")
def pause_moves(url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """Begin no further move; those that run end."""
    with admin(url) as client:
        _show(client.call("POST", "/moves:pause"), as_json=as_json)


@move.command("resume")
def resume_moves(url: Url = URL_DEFAULT, *, as_json: Json = False) -> None:
    """Begin moves again."""
    with admin(url) as client:
        _show(client.call("POST", "/moves:resume"), as_json=as_json)


@move.command("where")
def show_placement(
    bucket: Bucket, key: Key, version_id: VersionId = "", url: Url = URL_DEFAULT, *, as_json: Json = False
) -> None:
    """Show where the bytes of a version lie."""
    query = f"?{urlencode({'versionId': version_id})}" if version_id else ""
    with admin(url) as client:
        document = client.call("GET", f"/objects/{segment(bucket)}/{quote(key, safe='')}/placement{query}")
    if as_json:
        show_json(document)
    else:
        show_table(document["pieces"], PIECE_COLUMNS)


def _pages(client: AdminClient, state: str) -> Iterator[dict[str, Any]]:
    """Every move, page by page."""
    cursor = ""
    while True:
        asked = {"limit": "1000", **({"state": state} if state else {}), **({"cursor": cursor} if cursor else {})}
        page = client.call("GET", f"/moves?{urlencode(asked)}")
        yield from page["moves"]
        cursor = page["next_cursor"]
        if not cursor:
            return


def _show(record: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        show_json(record)
    else:
        show_record(record)
