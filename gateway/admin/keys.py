"""Access keys: list, create (the secret is shown once), revoke."""

from secrets import token_bytes
from typing import Any

from fastapi import Request, Response

from gateway.admin.documents import AccessKey, AccessKeyPage, Id, NewAccessKey, iso_time
from gateway.admin.paging import LIMIT_DEFAULT, Cursor, Limit
from gateway.admin.services import Services, Serving
from gateway.admin.users import IdempotencyKey, get_user, refused
from gateway.auth.secrets import generate_access_key
from metadata import types
from metadata.tables import ACCESS_KEY
from tiers.namespace.accounts import AccountRefused, CreateAccessKey, RevokeAccessKey


async def list_keys(services: Serving, limit: Limit = LIMIT_DEFAULT, cursor: Cursor = "") -> AccessKeyPage:
    """All access keys by id, revoked ones included."""
    bound = services.cursors.bound(limit)
    rows = await services.reader.scan(ACCESS_KEY, services.cursors.decode("keys", cursor), bound)
    following = services.cursors.encode("keys", (rows[-1].access_key_id,)) if len(rows) == bound else ""
    return AccessKeyPage(keys=[_key_of(row) for row in rows], next_cursor=following)


async def list_user_keys(
    services: Serving, user_id: Id, limit: Limit = LIMIT_DEFAULT, cursor: Cursor = ""
) -> AccessKeyPage:
    """A user's access keys by id. Cost: one pass over the keys from the cursor on."""
    await get_user(services, user_id)
    bound = services.cursors.bound(limit)
    found, is_more = await _of_user(services, user_id, services.cursors.decode("user-keys", cursor), bound)
    following = services.cursors.encode("user-keys", (found[-1].access_key_id,)) if is_more else ""
    return AccessKeyPage(keys=[_key_of(row) for row in found], next_cursor=following)


async def create_key(
    services: Serving, request: Request, user_id: Id, idempotency_key: IdempotencyKey = None
) -> Response:
    """Give a user a new access key. The secret key is in this answer and nowhere else."""

    async def act() -> Response:
        access_key_id, secret = generate_access_key(token_bytes)
        envelope = services.seal(user_id, access_key_id, secret.encode())
        try:
            row = await services.committer.submit(CreateAccessKey(access_key_id, user_id, envelope))
        except AccountRefused as error:
            raise refused(error) from error
        document = NewAccessKey(**_key_of(row).model_dump(), secret_key=secret)
        headers = {"location": f"/admin/v1/keys/{access_key_id}", "cache-control": "no-store"}
        return Response(document.model_dump_json(), 201, headers, "application/json")

    place = (request.state.token_name, "create_key")
    return await services.replays.once(place, idempotency_key, user_id.encode(), act)


async def revoke_key(services: Serving, access_key_id: Id) -> Response:
    """Revoke an access key for good; every worker refuses it within seconds."""
    try:
        await services.committer.submit(RevokeAccessKey(access_key_id))
    except AccountRefused as error:
        raise refused(error) from error
    return Response(status_code=204)


async def _of_user(
    services: Services, user_id: str, after: tuple[Any, ...] | None, limit: int
) -> tuple[list[types.AccessKey], bool]:
    """Up to `limit` keys of a user, and whether more may follow."""
    found: list[types.AccessKey] = []
    while rows := await services.reader.scan(ACCESS_KEY, after, 1000):
        for row in rows:
            if row.principal_id == user_id:
                found.append(row)
                if len(found) == limit:
                    return found, True
        after = (rows[-1].access_key_id,)
    return found, False


def _key_of(row: types.AccessKey) -> AccessKey:
    return AccessKey(
        access_key_id=row.access_key_id,
        user_id=row.principal_id,
        is_active=bool(row.state),
        created=iso_time(row.created_ms),
    )
