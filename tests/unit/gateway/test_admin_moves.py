"""Moves over the admin API: enter, show, cancel, pause; and where a content lies."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from gateway.admin.access import Scope
from tests.unit.gateway.admin_world import TOKENS, Admin, problem, with_admin
from tests.unit.lifecycle.moving import Moving
from tests.world import World
from tiers.namespace.types import DeleteTarget

MOVES = "/admin/v1/moves"
KEY = "a dir/ä+%2F.bin"


async def stored(world: World, content: bytes = b"x" * 300) -> Any:
    await world.namespace.buckets.create("bucket", "owner", "us-east-1")
    return await world.put("bucket", KEY, content)


def wish(**changed: object) -> dict[str, object]:
    return {"bucket": "bucket", "key": KEY, "to": "warm", **changed}


def test_a_move_is_entered_once_shown_and_done(tmp_path: Path) -> None:
    async def act(admin: Admin) -> None:
        version = await stored(admin.world)
        planned = await admin.call("POST", MOVES, wish(is_dry_run=True))
        assert (planned.status_code, planned.json()["state"]) == (200, "planned")
        assert (await admin.call("GET", MOVES)).json() == {"moves": [], "next_cursor": ""}
        again = {"Idempotency-Key": "once"}
        entered = await admin.call("POST", MOVES, wish(storage_class="STANDARD_IA"), headers=again)
        assert entered.status_code == 202
        assert entered.headers["location"] == f"{MOVES}/{version.sequence}"
        assert (
            await admin.call("POST", MOVES, wish(storage_class="STANDARD_IA"), headers=again)
        ).content == entered.content
        problem(await admin.call("POST", MOVES, wish(), headers=again), 422, "IdempotencyKeyReused")
        problem(await admin.call("POST", MOVES, wish(to="hot")), 409, "MoveOpen")
        shown = (await admin.call("GET", entered.headers["location"])).json()
        assert shown == entered.json()
        assert (shown["from"], shown["to"], shown["state"], shown["reason"]) == ("hot", "warm", "queued", "operator")
        assert (shown["key"], shown["byte_count"], shown["result"]) == (KEY, 300, "")
        assert await Moving(admin.world, admin.world.committer).work() == 1
        done = (await admin.call("GET", f"{MOVES}?state=ended")).json()["moves"]
        assert [(move["id"], move["result"]) for move in done] == [(str(version.sequence), "moved")]
        assert (await admin.call("GET", f"{MOVES}?state=queued")).json()["moves"] == []

    with_admin(tmp_path, act)


def test_pages_of_moves(tmp_path: Path) -> None:
    async def act(admin: Admin) -> None:
        await stored(admin.world)
        for number in range(5):
            await admin.world.put("bucket", f"key-{number}", b"x")
            await admin.call("POST", MOVES, wish(key=f"key-{number}"))
        await admin.call("DELETE", f"{MOVES}/{(await admin.call('GET', MOVES)).json()['moves'][1]['id']}")
        for state, count in (("", 5), ("&state=queued", 4), ("&state=ended", 1)):
            found, cursor = [], ""
            while True:
                page = (await admin.call("GET", f"{MOVES}?limit=2{state}&cursor={cursor}")).json()
                found += [move["id"] for move in page["moves"]]
                cursor = page["next_cursor"]
                if not cursor:
                    break
            assert found == sorted(set(found), key=int)
            assert len(found) == count

    with_admin(tmp_path, act)


def test_pausing_resuming_and_cancelling(tmp_path: Path) -> None:
    async def act(admin: Admin) -> None:
        version = await stored(admin.world)
        await admin.call("POST", MOVES, wish())
        assert (await admin.call("POST", f"{MOVES}:pause")).json() == {"is_paused": True, "queued": 1, "running": 0}
        moving = Moving(admin.world, admin.world.committer)
        assert await moving.work() == 0
        cancelled = (await admin.call("DELETE", f"{MOVES}/{version.sequence}")).json()
        assert (cancelled["state"], cancelled["result"]) == ("ended", "cancelled")
        assert (await admin.call("POST", f"{MOVES}:resume")).json() == {"is_paused": False, "queued": 0, "running": 0}
        assert (await admin.call("GET", f"{MOVES}:queue")).json()["queued"] == 0
        assert await moving.work() == 0
        problem(await admin.call("POST", f"{MOVES}:pause", token=TOKENS[Scope.READ]), 403, "ScopeMissing")

    with_admin(tmp_path, act)


def test_where_a_content_lies(tmp_path: Path) -> None:
    async def act(admin: Admin) -> None:
        version = await stored(admin.world, b"y" * 300_000)
        path = f"/admin/v1/objects/bucket/{quote(KEY, safe='')}/placement"
        shown = (await admin.call("GET", path)).json()
        assert (shown["key"], shown["size"], shown["tier"], shown["move"]) == (KEY, 300_000, "hot", None)
        (piece,) = shown["pieces"]
        assert (piece["kind"], piece["length"], len(piece["devices"])) == ("striped", 300_000, 3)
        await admin.call("POST", MOVES, wish())
        await Moving(admin.world, admin.world.committer).work()
        shown = (await admin.call("GET", f"{path}?versionId={version.version_id}")).json()
        assert (shown["tier"], shown["move"]["result"], len(shown["pieces"][0]["devices"])) == ("warm", "moved", 4)
        problem(await admin.call("GET", f"{path}?versionId=other"), 404, "NotFound")
        await admin.world.namespace.objects.delete("bucket", DeleteTarget(KEY))
        problem(await admin.call("GET", path), 404, "NotFound")

    with_admin(tmp_path, act)


def test_what_does_not_exist_or_fit_is_refused(tmp_path: Path) -> None:
    async def act(admin: Admin) -> None:
        await stored(admin.world)
        for changed, status, code in (
            ({"bucket": "absent"}, 404, "NotFound"),
            ({"key": "absent"}, 404, "NotFound"),
            ({"version_id": "absent"}, 404, "NotFound"),
            ({"to": "nowhere"}, 422, "NoSuchTier"),
            ({"storage_class": "STANDARD"}, 422, "StorageClassElsewhere"),
            ({"to": ""}, 422, "RequestInvalid"),
            ({"priority": -1}, 422, "RequestInvalid"),
            ({"other": 1}, 422, "RequestInvalid"),
        ):
            problem(await admin.call("POST", MOVES, wish(**changed)), status, code)
        half = b'{"bucket": "bucket", "key": "\\ud800", "to": "warm"}'
        headers = {"content-type": "application/json"}
        answer = await admin.call("POST", MOVES, content=half, headers=headers)
        assert answer.status_code in {404, 422}, "half a character is no key"
        for move_id in ("1", "x", "9" * 19, str(1 << 63)):
            for method in ("GET", "DELETE"):
                answer = await admin.call(method, f"{MOVES}/{move_id}")
                assert answer.status_code in {404, 422}, answer.text
        problem(await admin.call("GET", f"{MOVES}?state=odd"), 422, "RequestInvalid")

    with_admin(tmp_path, act)
