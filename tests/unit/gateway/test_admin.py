"""The admin API over a whole store in one process: permissions from the table, answers, paging, repeats."""

import asyncio
from inspect import iscoroutinefunction
from pathlib import Path

import pytest

from gateway.admin import keys, storage, system, users
from gateway.admin.access import INCLUDES, Scope
from gateway.admin.application import BODY_BYTES_MAX
from gateway.admin.replays import KEEP_SECONDS
from gateway.admin.routes import ROUTES, Route
from metadata.tables import ACCESS_KEY
from tests.unit.gateway.admin_world import EXPIRED, TOKENS, Admin, problem, with_admin
from tests.world import OWNER
from tiers.namespace.accounts import ROOT_PRINCIPAL_ID

CANARY = "canary-secret-that-must-not-travel"


def path_of(route: Route) -> str:
    return route.path.replace("{bucket}", "b").replace("{tier}", "hot").replace("{user_id}", "u").replace(
        "{access_key_id}", "k"
    ).replace("{device_id}", "d").replace("{move_id}", "1").replace("{key:path}", "k")  # fmt: skip


class TestPermissions:
    def test_matrix_of_every_route_and_every_kind_of_caller(self, tmp_path: Path) -> None:
        """Anonymous 401, other schemes 403, a token without the scope 403, with it anything else."""

        async def act(admin: Admin) -> None:
            for number, route in enumerate(ROUTES):
                source, path = f"10.1.0.{number}", path_of(route)
                answer = await admin.call(route.method, path, token=None, source=source)
                problem(answer, 401, "Unauthorised")
                assert answer.headers["www-authenticate"].startswith("Bearer")
                problem(await admin.call(route.method, path, token=EXPIRED, source=source), 401, "Unauthorised")
                problem(await admin.call(route.method, path, token="wrong", source=source), 401, "Unauthorised")
                for scheme in ("AWS4-HMAC-SHA256 Credential=a/b, Signature=c", "Basic Zm9vOmJhcg=="):
                    answer = await admin.call(
                        route.method, path, token=None, headers={"authorization": scheme}, source=source
                    )
                    problem(answer, 403, "SchemeNotAccepted")
                for scope in Scope:
                    answer = await admin.call(route.method, path, token=TOKENS[scope], source=source)
                    if route.scope in INCLUDES[scope]:
                        assert answer.status_code in {route.status, 404, 422}, (route.path, scope, answer.text)
                    else:
                        problem(answer, 403, "ScopeMissing")

        with_admin(tmp_path, act)

    def test_a_token_in_the_query_is_no_token(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            for name in ("token", "access_token", "authorization"):
                path = f"/admin/v1/info?{name}={TOKENS[Scope.ADMIN]}"
                problem(await admin.call("GET", path, token=None), 401, "Unauthorised")

        with_admin(tmp_path, act)

    def test_a_route_without_a_scope_cannot_be_written(self) -> None:
        with pytest.raises(TypeError):
            Route("GET", "/admin/v1/open", handler=system.show_info)  # type: ignore[call-arg]  # the point of the test
        with pytest.raises(AssertionError):
            Route("GET", "/admin/v1/open", "read", system.show_info)  # type: ignore[arg-type]  # as above

    def test_table_handlers_and_description_agree(self, tmp_path: Path) -> None:
        handlers = {route.handler for route in ROUTES}
        verbs = ("list_", "show_", "create_", "edit_", "delete_", "revoke_")
        for module in (users, keys, storage, system):
            for name, member in vars(module).items():
                if name.startswith(verbs) and iscoroutinefunction(member):
                    assert member in handlers, f"{module.__name__}.{name} is on no route"

        async def act(admin: Admin) -> None:
            document = (await admin.call("GET", "/admin/openapi.json")).json()
            described = {
                (method.upper(), path, operation["x-scope"])
                for path, operations in document["paths"].items()
                for method, operation in operations.items()
            }
            assert described == {(route.method, route.path.replace(":path", ""), route.scope.value) for route in ROUTES}

        with_admin(tmp_path, act)

    def test_guessing_is_slowed_by_source(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            for _ in range(10):
                problem(await admin.call("GET", "/admin/v1/info", token="guess"), 401, "Unauthorised")
            answer = await admin.call("GET", "/admin/v1/info", token="guess")
            problem(answer, 429, "TooManyFailures")
            assert 0 < int(answer.headers["retry-after"]) <= 61
            right = await admin.call("GET", "/admin/v1/info")
            problem(right, 429, "TooManyFailures")  # or the answer would tell which guess was right
            assert (await admin.call("GET", "/admin/v1/info", source="10.0.0.2")).status_code == 200
            admin.world.clock.advance(61)
            assert (await admin.call("GET", "/admin/v1/info")).status_code == 200

        with_admin(tmp_path, act)

    def test_unknown_paths_and_bodies_need_a_token_first(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            problem(await admin.call("GET", "/admin/v2/x", token=None), 401, "Unauthorised")
            problem(await admin.call("GET", "/admin/v2/x"), 404, "NotFound")
            problem(await admin.call("PUT", "/admin/v1/users"), 405, "MethodNotAllowed")
            problem(await admin.call("POST", "/admin/v1/users", content=b"{", token=None), 401, "Unauthorised")
            answer = await admin.call("POST", "/admin/v1/users", content=b"x" * (BODY_BYTES_MAX + 1))
            problem(answer, 413, "BodyTooLarge")
            chunked = await admin.call(
                "POST", "/admin/v1/users", content=b"{}", headers={"transfer-encoding": "chunked"}
            )
            problem(chunked, 411, "LengthRequired")

        with_admin(tmp_path, act)


class TestUsersAndKeys:
    def test_a_user_from_creation_to_deletion(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            created = await admin.call("POST", "/admin/v1/users", {"name": "alice"})
            assert created.status_code == 201
            place = created.headers["location"]
            user = created.json()
            assert user["name"] == "alice"
            assert not user["is_root"]
            shown = await admin.call("GET", place)
            assert shown.json() == user
            assert shown.headers["etag"] == created.headers["etag"]
            problem(await admin.call("POST", "/admin/v1/users", {"name": "alice"}), 409, "NameTaken")
            edited = await admin.call("PATCH", place, {"is_enabled": False})
            assert edited.json() == {**user, "is_enabled": False}
            listed = (await admin.call("GET", "/admin/v1/users?name=alice")).json()
            assert [found["id"] for found in listed["users"]] == [user["id"]]
            assert (await admin.call("GET", "/admin/v1/users?name=nobody")).json()["users"] == []
            assert (await admin.call("DELETE", place)).status_code == 204
            problem(await admin.call("GET", place), 404, "NotFound")
            root = f"/admin/v1/users/{ROOT_PRINCIPAL_ID}"
            problem(await admin.call("DELETE", root), 409, "RootAccount")
            problem(await admin.call("PATCH", root, {"is_enabled": False}), 409, "RootAccount")

        with_admin(tmp_path, act)

    def test_an_address_belongs_to_one_user(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            first = await admin.call("POST", "/admin/v1/users", {"name": "alice", "email": "a@example.com"})
            assert first.json()["email"] == "a@example.com"
            taken = await admin.call("POST", "/admin/v1/users", {"name": "bob", "email": "A@Example.com"})
            problem(taken, 409, "EmailTaken")
            second = await admin.call("POST", "/admin/v1/users", {"name": "bob"})
            assert second.json()["email"] == ""
            place = second.headers["location"]
            problem(await admin.call("PATCH", place, {"email": "a@example.com"}), 409, "EmailTaken")
            problem(await admin.call("PATCH", place, {"email": "nobody"}), 422, "RequestInvalid")
            assert (await admin.call("PATCH", first.headers["location"], {"email": ""})).json()["email"] == ""
            assert (await admin.call("PATCH", place, {"email": "a@example.com"})).json()["name"] == "bob"

        with_admin(tmp_path, act)

    def test_an_edit_is_refused_when_the_user_is_not_as_seen(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            created = await admin.call("POST", "/admin/v1/users", {"name": "alice"})
            place, seen = created.headers["location"], {"If-Match": created.headers["etag"]}
            assert (await admin.call("PATCH", place, {"name": "bob"}, headers=seen)).status_code == 200
            problem(await admin.call("PATCH", place, {"name": "carol"}, headers=seen), 412, "ChangedMeanwhile")
            problem(await admin.call("DELETE", place, headers=seen), 412, "ChangedMeanwhile")
            assert (await admin.call("DELETE", place, headers={"If-Match": "*"})).status_code == 204

        with_admin(tmp_path, act)

    def test_a_secret_key_is_shown_once_and_opens(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            place = (await admin.call("POST", "/admin/v1/users", {"name": "alice"})).headers["location"]
            created = await admin.call("POST", f"{place}/keys")
            assert created.status_code == 201
            assert created.headers["cache-control"] == "no-store"
            key = created.json()
            row = await admin.world.reader.get_row(ACCESS_KEY, (key["access_key_id"],))
            assert row is not None
            opened = admin.box.open(row.secret, principal_id=row.principal_id, access_key_id=row.access_key_id)
            assert opened.decode() == key["secret_key"]
            for path in ("/admin/v1/keys", f"{place}/keys", "/admin/v1/users"):
                assert key["secret_key"] not in (await admin.call("GET", path)).text
            mine = (await admin.call("GET", f"{place}/keys")).json()["keys"]
            assert [found["access_key_id"] for found in mine] == [key["access_key_id"]]
            assert (await admin.call("DELETE", f"/admin/v1/keys/{key['access_key_id']}")).status_code == 204
            mine = (await admin.call("GET", f"{place}/keys")).json()["keys"]
            assert not mine[0]["is_active"]
            problem(await admin.call("POST", "/admin/v1/users/nobody/keys"), 404, "NotFound")
            problem(await admin.call("DELETE", "/admin/v1/keys/ROOT"), 409, "RootAccount")

        with_admin(tmp_path, act)

    def test_a_repeated_create_is_one(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            key = {"Idempotency-Key": "attempt-1"}
            first, second = await asyncio.gather(
                *[admin.call("POST", "/admin/v1/users", {"name": "alice"}, headers=key) for _ in range(2)]
            )
            assert {first.status_code, second.status_code} <= {201, 409}
            again = await admin.call("POST", "/admin/v1/users", {"name": "alice"}, headers=key)
            assert again.status_code == 201
            assert again.json() in (first.json(), second.json())
            assert len((await admin.call("GET", "/admin/v1/users")).json()["users"]) == 2
            other = await admin.call("POST", "/admin/v1/users", {"name": "bob"}, headers=key)
            problem(other, 422, "IdempotencyKeyReused")
            admin.world.clock.advance(KEEP_SECONDS + 1)
            late = await admin.call("POST", "/admin/v1/users", {"name": "alice"}, headers=key)
            problem(late, 409, "NameTaken")
            failed = {"Idempotency-Key": "attempt-2"}
            problem(await admin.call("POST", "/admin/v1/users", {"name": "alice"}, headers=failed), 409, "NameTaken")
            place = again.headers["location"]
            assert (await admin.call("DELETE", place)).status_code == 204
            retried = await admin.call("POST", "/admin/v1/users", {"name": "alice"}, headers=failed)
            assert retried.status_code == 201  # a failure is not kept

        with_admin(tmp_path, act)

    def test_wrong_documents_are_named_and_not_repeated(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            for document in ({"name": CANARY * 9}, {"nome": CANARY}, {"name": 7}, {}, [CANARY], {"name": "a/b"}):
                answer = await admin.call("POST", "/admin/v1/users", document)
                assert problem(answer, 422, "RequestInvalid")["faults"]
                assert CANARY not in answer.text
            answer = await admin.call("PATCH", f"/admin/v1/users/{ROOT_PRINCIPAL_ID}", {"is_enabled": "yes"})
            problem(answer, 422, "RequestInvalid")

        with_admin(tmp_path, act)


class TestListings:
    def test_pages_meet_every_entry_once(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            for number in range(7):
                await admin.world.namespace.buckets.create(f"bucket-{number}", ROOT_PRINCIPAL_ID, "us-east-1")
                await admin.call("POST", "/admin/v1/users", {"name": f"user-{number}"})
            for path, member, name in (
                ("/admin/v1/buckets", "buckets", "name"),
                ("/admin/v1/users", "users", "id"),
                ("/admin/v1/devices", "devices", "id"),
            ):
                whole = [entry[name] for entry in (await admin.call("GET", path)).json()[member]]
                found: list[str] = []
                cursor = ""
                while True:
                    page = (await admin.call("GET", f"{path}?limit=3&cursor={cursor}")).json()
                    assert len(page[member]) <= 3
                    found += [entry[name] for entry in page[member]]
                    cursor = page["next_cursor"]
                    if not cursor:
                        break
                assert found == whole
                assert len(set(found)) == len(found) >= 6

        with_admin(tmp_path, act)

    def test_a_path_is_served_as_it_was_judged(self, tmp_path: Path) -> None:
        """Starlette's router lets a line feed follow a path: what the table of routes does not name stays outside."""

        async def act(admin: Admin) -> None:
            weakest = TOKENS[Scope.METRICS]
            for method, path in (("GET", "/admin/v1/users"), ("POST", "/admin/v1/users"), ("GET", "/admin/v1/keys")):
                for suffix in ("%0A", "/", "%0D", "%20", "%00", "%2F", "//", "%0A%0A"):
                    for token in (weakest, TOKENS[Scope.ADMIN]):
                        answer = await admin.call(method, path + suffix, {"name": "evil"}, token=token)
                        assert answer.status_code in {403, 404, 405}, (path, suffix, answer.text)
            root = (await admin.call("GET", "/admin/v1/users")).json()["users"]
            assert len(root) == 1
            minted = await admin.call("POST", f"/admin/v1/users/{root[0]['id']}/keys%0A", {}, token=weakest)
            problem(minted, 404, "NotFound")
            problem(await admin.call("PUT", "/admin/v1/users", {}), 405, "MethodNotAllowed")

        with_admin(tmp_path, act)

    def test_a_cursor_is_ours_and_of_its_listing(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            for number in range(2):
                await admin.call("POST", "/admin/v1/users", {"name": f"user-{number}"})
            cursor = (await admin.call("GET", "/admin/v1/users?limit=1")).json()["next_cursor"]
            problem(await admin.call("GET", f"/admin/v1/keys?cursor={cursor}"), 400, "CursorInvalid")
            for at in range(0, len(cursor), 7):
                flipped = cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :]
                problem(await admin.call("GET", f"/admin/v1/users?cursor={flipped}"), 400, "CursorInvalid")
            problem(await admin.call("GET", "/admin/v1/users?cursor=%FF%00"), 400, "CursorInvalid")
            problem(await admin.call("GET", "/admin/v1/users?limit=0"), 422, "RequestInvalid")

        with_admin(tmp_path, act)

    def test_usage_space_and_layout_are_told(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            await admin.world.namespace.buckets.create("one", OWNER.owner_id, "us-east-1")
            await admin.world.put("one", "key", b"12345")
            bucket = (await admin.call("GET", "/admin/v1/buckets/one")).json()
            assert (bucket["object_count"], bucket["byte_count"], bucket["versioning"]) == (1, 5, "never")
            problem(await admin.call("GET", "/admin/v1/buckets/none"), 404, "NotFound")
            tier = (await admin.call("GET", "/admin/v1/tiers/hot")).json()
            assert (tier["devices"], tier["pack_copies"], tier["storage_classes"]) == (3, 2, ["STANDARD"])
            assert 0 < tier["free_bytes"] <= tier["total_bytes"]
            problem(await admin.call("GET", "/admin/v1/tiers/none"), 404, "NotFound")
            device = (await admin.call("GET", "/admin/v1/devices/hot-0")).json()
            assert (device["state"], device["tier"]) == ("active", "hot")
            problem(await admin.call("GET", "/admin/v1/devices/none"), 404, "NotFound")
            assert (await admin.call("GET", "/admin/v1/info")).json() == {"version": "1", "workers": 2}
            metrics = await admin.call("GET", "/metrics", token=TOKENS[Scope.METRICS])
            assert metrics.text == "isotherm_up 1\n"
            assert metrics.headers["content-type"].startswith("text/plain")

        with_admin(tmp_path, act)
