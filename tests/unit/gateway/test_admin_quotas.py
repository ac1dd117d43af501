"""Quotas and rates over the admin API."""

from pathlib import Path

from gateway.admin.access import Scope
from metadata.tables import PRINCIPAL
from tests.unit.gateway.admin_world import TOKENS, Admin, problem, with_admin
from tiers.namespace.quotas import Quota, Rate, unpack_allowance

UNLIMITED = {"byte_count_max": None, "object_count_max": None, "requests_per_second": 0, "bytes_per_second": 0}
LIMITS = {"byte_count_max": 10, "object_count_max": 2, "requests_per_second": 5, "bytes_per_second": 1 << 20}
NOTHING = {"byte_count": 0, "object_count": 0}


async def new_user(admin: Admin) -> str:
    return str((await admin.call("POST", "/admin/v1/users", {"name": "ann"})).json()["id"])


def test_limits_of_a_user_are_set_shown_and_taken_away(tmp_path: Path) -> None:
    async def act(admin: Admin) -> None:
        path = f"/admin/v1/users/{await new_user(admin)}/quota"
        first = await admin.call("GET", path)
        assert first.json() == {**UNLIMITED, **NOTHING}
        changed = await admin.call("PUT", path, LIMITS, headers={"If-Match": first.headers["etag"]})
        assert changed.json() == {**LIMITS, **NOTHING}
        assert changed.headers["etag"] != first.headers["etag"]
        stale = await admin.call("PUT", path, LIMITS, headers={"If-Match": first.headers["etag"]})
        problem(stale, 412, "ChangedMeanwhile")
        assert (await admin.call("PUT", path, {})).json() == {**UNLIMITED, **NOTHING}

    with_admin(tmp_path, act)


def test_rates_of_keys_stay_when_their_user_is_limited(tmp_path: Path) -> None:
    async def act(admin: Admin) -> None:
        user = await new_user(admin)
        key = (await admin.call("POST", f"/admin/v1/users/{user}/keys", {})).json()["access_key_id"]
        rate = {"requests_per_second": 7, "bytes_per_second": 0}
        assert (await admin.call("PUT", f"/admin/v1/keys/{key}/rate", rate)).json() == rate
        await admin.call("PUT", f"/admin/v1/users/{user}/quota", LIMITS)
        shown = await admin.call("GET", f"/admin/v1/keys/{key}/rate")
        assert shown.json() == rate
        row = await admin.world.reader.get_row(PRINCIPAL, (user,))
        assert row is not None
        allowance = unpack_allowance(row.quotas)
        assert (allowance.quota, allowance.rate, allowance.keys) == (Quota(10, 2), Rate(5, 1 << 20), {key: Rate(7, 0)})
        stale = await admin.call("PUT", f"/admin/v1/keys/{key}/rate", {}, headers={"If-Match": '"other"'})
        problem(stale, 412, "ChangedMeanwhile")
        await admin.call("PUT", f"/admin/v1/keys/{key}/rate", {}, headers={"If-Match": shown.headers["etag"]})
        assert (await admin.call("GET", f"/admin/v1/keys/{key}/rate")).json()["requests_per_second"] == 0

    with_admin(tmp_path, act)


def test_a_tenant_has_a_quota_and_users(tmp_path: Path) -> None:
    async def act(admin: Admin) -> None:
        user = await new_user(admin)
        quota = {"byte_count_max": 10, "object_count_max": None}
        assert (await admin.call("PUT", "/admin/v1/tenants/team/quota", quota)).json() == {**quota, **NOTHING}
        moved = await admin.call("PUT", f"/admin/v1/users/{user}/tenant", {"tenant": "team"})
        assert moved.json() == {"tenant": "team"}
        assert (await admin.call("GET", f"/admin/v1/users/{user}/tenant")).json() == {"tenant": "team"}
        assert (await admin.call("GET", "/admin/v1/tenants/team/quota")).json() == {**quota, **NOTHING}

    with_admin(tmp_path, act)


def test_what_does_not_exist_or_fit_is_refused(tmp_path: Path) -> None:
    async def act(admin: Admin) -> None:
        for path in ("users/absent/quota", "users/absent/tenant", "buckets/absent/quota", "keys/absent/rate"):
            document = {"tenant": "x"} if path.endswith("tenant") else {}
            problem(await admin.call("PUT", f"/admin/v1/{path}", document), 404, "NotFound")
            problem(await admin.call("GET", f"/admin/v1/{path}"), 404, "NotFound")
        user = await new_user(admin)
        path = f"/admin/v1/users/{user}/quota"
        for wrong in ({"byte_count_max": -1}, {"byte_count_max": 1.5}, {"byte_count_max": 2**63}, {"bytes": 1}):
            problem(await admin.call("PUT", path, wrong), 422, "RequestInvalid")
        problem(await admin.call("PUT", path, {"bytes_per_second": 1}), 422, "RateTooLow")
        read = TOKENS[Scope.READ]
        problem(await admin.call("PUT", path, {}, token=read), 403, "ScopeMissing")
        assert (await admin.call("GET", path, token=read)).status_code == 200

    with_admin(tmp_path, act)
