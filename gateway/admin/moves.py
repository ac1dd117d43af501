"""Moves between tiers: ask for, list, show, cancel, pause; and where the bytes of a version lie."""

from typing import Annotated, Final, Literal

from fastapi import Path, Query, Request, Response

from gateway.admin.move_documents import (
    KEY_BYTES_MAX,
    Move,
    MovePage,
    MoveQueue,
    NewMove,
    Piece,
    Placement,
    move_of,
)
from gateway.admin.paging import LIMIT_DEFAULT, Cursor, Limit
from gateway.admin.problems import Problem
from gateway.admin.services import Services, Serving
from gateway.admin.users import IdempotencyKey
from metadata import types
from metadata.moves import Move as MoveRow
from metadata.moves import MoveState
from metadata.tables import MOVE
from metadata.types import BlobKind, unpack_extents
from tiers.lifecycle.move_plan import Reason
from tiers.lifecycle.move_requests import MoveRefused, Refusal
from tiers.lifecycle.mover import MoveWish

_STATUS: Final = {
    Refusal.NO_TIER: (422, "NoSuchTier"),
    Refusal.NO_VERSION: (404, "NotFound"),
    Refusal.CLASS_ELSEWHERE: (422, "StorageClassElsewhere"),
    Refusal.MUST_WAIT: (422, "ReadsMustWait"),
    Refusal.OPEN_ELSEWHERE: (409, "MoveOpen"),
    Refusal.QUEUE_FULL: (503, "QueueFull"),
}

PAGES_MAX: Final = 20
"""Pages of the table that one answer with a state reads at most: the rest is the next page's."""

MoveId = Annotated[str, Path(pattern=r"^[0-9]{1,19}$")]
BucketName = Annotated[str, Path(max_length=63)]
Key = Annotated[str, Path(max_length=KEY_BYTES_MAX, description="The key, percent-encoded.")]
VersionId = Annotated[str, Query(alias="versionId", max_length=128, description="The version; the current one else.")]
State = Annotated[Literal["queued", "running", "ended"] | None, Query(description="Only moves in this state.")]


async def list_moves(
    services: Serving, limit: Limit = LIMIT_DEFAULT, cursor: Cursor = "", state: State = None
) -> MovePage:
    """Moves by id, those that ended within the last day too."""
    bound = services.cursors.bound(limit)
    after = services.cursors.decode("moves", cursor)
    wanted = None if state is None else MoveState[state.upper()]
    found: list[MoveRow] = []
    for _ in range(PAGES_MAX):
        rows = await services.reader.scan(MOVE, after, bound)
        found += [row for row in rows if wanted is None or row.state == wanted]
        after = (rows[-1].sequence,) if len(rows) == bound else None
        if after is None or len(found) >= bound:
            break
    if len(found) > bound:
        found, after = found[:bound], (found[bound - 1].sequence,)
    following = "" if after is None else services.cursors.encode("moves", after)
    return MovePage(moves=[move_of(row) for row in found], next_cursor=following)


async def create_move(
    services: Serving, request: Request, document: NewMove, idempotency_key: IdempotencyKey = None
) -> Response:
    """Enter a move into the queue; asked again while it is open, the answer is the same move."""

    async def act() -> Response:
        version = await _version(services, document.bucket, document.key, document.version_id)
        wish = MoveWish(
            version.bucket_id, version.key, version.sequence, document.to, document.storage_class, Reason.OPERATOR,
            priority=document.priority,
        )  # fmt: skip
        try:
            services.mover.check(wish)
            if document.is_dry_run:
                return _answer(_planned(document, version), 200)
            move = await services.mover.move(wish)
        except MoveRefused as refused:
            raise _problem(refused) from None
        return _answer(move_of(move), 202, location=f"/admin/v1/moves/{move.sequence}")

    place = (request.state.token_name, "create_move")
    return await services.replays.once(place, idempotency_key, document.model_dump_json().encode(), act)


async def show_move(services: Serving, move_id: MoveId) -> Response:
    """The newest move of a version."""
    return _answer(move_of(await _move(services, move_id)), 200)


async def delete_move(services: Serving, move_id: MoveId) -> Response:
    """Cancel a move: one that waits ends, one that runs does not take effect. One that has ended stays as it is."""
    move = await services.mover.cancel((await _move(services, move_id)).sequence)
    if move is None:
        raise _no_move()
    return _answer(move_of(move), 200)


async def show_queue(services: Serving) -> MoveQueue:
    """How many moves wait and run, and whether they are paused."""
    return MoveQueue(
        is_paused=await services.mover.is_paused(),
        queued=await services.reader.count_moves(MoveState.QUEUED),
        running=await services.reader.count_moves(MoveState.RUNNING),
    )


async def pause_moves(services: Serving) -> MoveQueue:
    """Begin no further move, also after a restart; those that run end."""
    await services.mover.pause()
    return await show_queue(services)


async def resume_moves(services: Serving) -> MoveQueue:
    """Begin moves again."""
    await services.mover.resume()
    return await show_queue(services)


async def show_placement(services: Serving, bucket: BucketName, key: Key, version_id: VersionId = "") -> Response:
    """Where the bytes of a version lie, and its move."""
    version = await _version(services, bucket, key, version_id)
    extents = unpack_extents(version.extents)
    rows = await services.reader.get_blobs(sorted({extent.blob_id for extent in extents}))
    blobs: dict[bytes, types.Blob] = {row.blob_id: row for row in rows}
    move = await services.mover.find(version.sequence)
    placement = Placement(
        bucket=bucket,
        key=key,
        version_id=version.version_id,
        size=version.size,
        stored_bytes=sum(extent.length for extent in extents),
        tier=version.tier,
        storage_class=version.storage_class,
        pieces=[_piece(extent, blobs[extent.blob_id]) for extent in extents if extent.blob_id in blobs],
        move=None if move is None else move_of(move),
    )
    return Response(placement.model_dump_json(by_alias=True), media_type="application/json")


def _piece(extent: types.Extent, blob: types.Blob) -> Piece:
    return Piece(
        blob_id=blob.blob_id.hex(),
        kind=BlobKind(blob.kind).name.lower(),
        tier=blob.tier,
        layout=blob.layout,
        offset=extent.offset,
        length=extent.length,
        devices=[device_id or None for device_id in blob.placement.split(" ")],
    )


def _planned(document: NewMove, version: types.Version) -> Move:
    """The move that would be entered."""
    return Move(
        id=str(version.sequence),
        bucket=document.bucket,
        key=document.key,
        version_id=version.version_id,
        source=version.tier,
        target=document.to,
        storage_class=document.storage_class,
        reason=Reason.OPERATOR,
        priority=document.priority,
        state="planned",
        result="",
        error="",
        attempts=0,
        byte_count=sum(extent.length for extent in unpack_extents(version.extents)),
        created=None,
        due=None,
        ended=None,
    )


def _answer(move: Move, status: int, **headers: str) -> Response:
    return Response(move.model_dump_json(by_alias=True), status, headers, "application/json")


async def _move(services: Services, move_id: str) -> MoveRow:
    sequence = int(move_id)
    move = await services.mover.find(sequence) if sequence < 1 << 63 else None
    if move is None:
        raise _no_move()
    return move


def _no_move() -> Problem:
    return Problem(404, "NotFound", "There is no such move.")


def _problem(refused: MoveRefused) -> Problem:
    status, code = _STATUS[refused.reason]
    return Problem(status, code, f"Not moved: {refused.reason.value}.")


async def _version(services: Services, bucket_name: str, key: str, version_id: str) -> types.Version:
    """A version with content. Errors: Problem 404."""
    key_bytes = key.encode(errors="surrogatepass")  # what is no UTF-8 names no key, and is not found
    located = await services.reader.locate(bucket_name, key_bytes)
    version = None if located is None else located.version
    if located is not None and version_id:
        version = await services.reader.find_version(located.bucket.bucket_id, key_bytes, version_id)
    if version is None or version.is_delete_marker:
        raise Problem(404, "NotFound", "There is no such version.")
    return version
