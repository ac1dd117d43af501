"""Health on both ports: a state word, without a token, and never in the way of a key."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.admin.front import FrontDoor
from gateway.admin.health import health_application
from tests.unit.gateway.admin_world import Admin, problem, with_admin
from tiers.devices.fleet import Fleet
from tiers.upkeep.vitals import Vital, Vitals


class FixedChecks:
    """Checks that say what they are told to."""

    def __init__(self, state: Vital) -> None:
        self.state = state

    async def ready(self) -> Vital:
        return self.state

    async def cluster(self) -> Vital:
        return self.state


@asynccontextmanager
async def front(state: Vital) -> AsyncIterator[httpx.AsyncClient]:
    async def data(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 299, "headers": []})
        await send({"type": "http.response.body", "body": b"s3"})

    door = FrontDoor(health_application(FixedChecks(state)), data, lambda host: host.endswith(b".s3.test"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=door), base_url="http://gateway") as client:
        yield client


class TestHealth:
    @pytest.mark.parametrize(("state", "status"), [(Vital.OK, 200), (Vital.DEGRADED, 200), (Vital.UNAVAILABLE, 503)])
    def test_a_state_word_and_nothing_else(self, state: Vital, status: int) -> None:
        async def run() -> None:
            async with front(state) as client:
                for prefix in ("/health", "/minio/health"):
                    for name in ("ready", "cluster"):
                        answer = await client.get(f"{prefix}/{name}")
                        assert (answer.status_code, answer.json()) == (status, {"status": state.value})
                        assert (await client.head(f"{prefix}/{name}")).status_code == status
                    assert (await client.get(f"{prefix}/live")).status_code == 200

        asyncio.run(run())

    def test_everything_else_is_s3_also_under_a_bucket_host(self) -> None:
        async def run() -> None:
            async with front(Vital.OK) as client:
                assert (await client.get("/bucket/health/live")).status_code == 299
                assert (await client.get("/healthy")).status_code == 299
                hosted = await client.get("/health/live", headers={"host": "bucket.s3.test"})
                assert hosted.status_code == 299

        asyncio.run(run())

    def test_lost_devices_change_the_word(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            world = admin.world
            for gone, ready, cluster in ((0, "ok", "ok"), (1, "unavailable", "unavailable")):
                present = dict(list(world.devices.items())[gone:])
                fleet = Fleet(present)
                vitals = Vitals(world.reader, fleet, world.catalogue, world.clock)
                assert (await vitals.ready()).value == ready
                assert (await vitals.cluster()).value == cluster
                fleet.close()

        with_admin(tmp_path, act)

    def test_health_needs_no_token_on_the_admin_port(self, tmp_path: Path) -> None:
        async def act(admin: Admin) -> None:
            answer = await admin.call("GET", "/health/ready", token=None)
            assert (answer.status_code, json.loads(answer.text)) == (200, {"status": "ok"})
            problem(await admin.call("GET", "/health/secret", token=None), 401, "Unauthorised")

        with_admin(tmp_path, act)
