"""Users: list, create, show, edit, delete."""

from hashlib import sha256
from typing import Annotated, Any, Final

from fastapi import Header, Query, Request, Response

from gateway.admin.documents import NAME_PATTERN, Id, NewUser, User, UserChange, UserPage, iso_time
from gateway.admin.paging import LIMIT_DEFAULT, Cursor, Limit
from gateway.admin.problems import Problem
from gateway.admin.services import Services, Serving
from metadata.tables import PRINCIPAL
from metadata.types import Principal
from tiers.namespace.accounts import AccountRefused, CreatePrincipal, DeletePrincipal, EditPrincipal, Refusal

IfMatch = Annotated[str | None, Header(alias="If-Match", description="ETag of the user as last seen.")]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", description="Repeats of a request are one.")]

_STATUS: Final = {
    Refusal.NOT_FOUND: (404, "NotFound"),
    Refusal.NAME_TAKEN: (409, "NameTaken"),
    Refusal.EMAIL_TAKEN: (409, "EmailTaken"),
    Refusal.ID_TAKEN: (409, "IdTaken"),
    Refusal.CHANGED: (412, "ChangedMeanwhile"),
    Refusal.IS_ROOT: (409, "RootAccount"),
    Refusal.OWNS_BUCKETS: (409, "OwnsBuckets"),
}


def refused(error: AccountRefused) -> Problem:
    """The problem that says why a change of accounts was not made."""
    status, code = _STATUS[error.reason]
    return Problem(status, code, f"Not changed: {error.reason.value}.")


async def list_users(
    services: Serving,
    limit: Limit = LIMIT_DEFAULT,
    cursor: Cursor = "",
    name: Annotated[str | None, Query(pattern=NAME_PATTERN, description="Only the user of this name.")] = None,
) -> UserPage:
    """Users by id; with `name`, the one of that name."""
    if name is not None:
        row = await find_named(services, name)
        return UserPage(users=[] if row is None else [user_of(row)], next_cursor="")
    bound = services.cursors.bound(limit)
    rows = await services.reader.scan(PRINCIPAL, services.cursors.decode("users", cursor), bound)
    following = services.cursors.encode("users", (rows[-1].principal_id,)) if len(rows) == bound else ""
    return UserPage(users=[user_of(row) for row in rows], next_cursor=following)


async def create_user(
    services: Serving, request: Request, document: NewUser, idempotency_key: IdempotencyKey = None
) -> Response:
    """Create a user without access keys."""

    async def act() -> Response:
        principal_id = (services.new_id() + services.new_id()).hex()
        try:
            row = await services.committer.submit(CreatePrincipal(principal_id, document.name, document.email))
        except AccountRefused as error:
            raise refused(error) from error
        return user_response(row, 201, {"location": f"/admin/v1/users/{row.principal_id}"})

    place = (request.state.token_name, "create_user")
    return await services.replays.once(place, idempotency_key, document.model_dump_json().encode(), act)


async def show_user(services: Serving, user_id: Id) -> Response:
    """One user, with the ETag that an edit may name."""
    return user_response(await get_user(services, user_id), 200, {})


async def edit_user(services: Serving, user_id: Id, document: UserChange, if_match: IfMatch = None) -> Response:
    """Change name, e-mail address or state of a user. Disabled users are refused by every worker within seconds."""
    seen = await _seen(services, user_id, if_match)
    change = EditPrincipal(user_id, document.name, document.is_enabled, seen, document.email)
    try:
        row = await services.committer.submit(change)
    except AccountRefused as error:
        raise refused(error) from error
    return user_response(row, 200, {})


async def delete_user(services: Serving, user_id: Id, if_match: IfMatch = None) -> Response:
    """Delete a user and its access keys; refused while it owns buckets."""
    seen = await _seen(services, user_id, if_match)
    try:
        await services.committer.submit(DeletePrincipal(user_id, seen))
    except AccountRefused as error:
        raise refused(error) from error
    return Response(status_code=204)


async def get_user(services: Services, user_id: str) -> Principal:
    """The user's row. Errors: Problem 404."""
    row = await services.reader.get_row(PRINCIPAL, (user_id,))
    if row is None:
        raise Problem(404, "NotFound", "There is no such user.")
    return row


async def find_named(services: Services, name: str) -> Principal | None:
    """The user of a name. Cost: one pass over the users, in pages."""
    after: tuple[Any, ...] | None = None
    while rows := await services.reader.scan(PRINCIPAL, after, 1000):
        for row in rows:
            if row.name == name:
                return row
        after = (rows[-1].principal_id,)
    return None


async def _seen(services: Services, user_id: str, if_match: str | None) -> Principal | None:
    """The row an If-Match stands for, so that the commit can compare rows. Errors: Problem 404, 412."""
    if if_match is None:
        return None
    row = await get_user(services, user_id)
    if if_match.strip() not in {"*", etag_of(row)}:
        raise Problem(412, "ChangedMeanwhile", "The user is not as it was when last seen.")
    return row


def user_of(row: Principal) -> User:
    """A user's document."""
    return User(
        id=row.principal_id,
        name=row.name,
        is_root=bool(row.is_root),
        is_enabled=bool(row.state),
        created=iso_time(row.created_ms),
        email=row.email,
    )


def user_response(row: Principal, status: int, headers: dict[str, str]) -> Response:
    """A user's document with its ETag."""
    body = user_of(row).model_dump_json()
    return Response(body, status, {**headers, "etag": etag_of(row)}, "application/json")


def etag_of(row: Principal) -> str:
    """The ETag of a user: a digest of its row."""
    return f'"{sha256(repr(tuple(row)).encode()).hexdigest()[:32]}"'
