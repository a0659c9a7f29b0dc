"""GET /inspect/adds: the last ADDs by container, with stages and outcome."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from core.errors import HostError
from netplugin.diagnostics import adds
from netplugin.pods.registry.add_stages import AddTimes
from netplugin.pods.registry.recent_adds import MOST, RecentAdds
from tests.unit.netplugin.agent import Agent, Outside, request, running
from tests.unit.netplugin.pods.handler import STEPS
from tests.unit.netplugin.records import asking, key

AT = datetime(2026, 1, 2, 3, 4, 5, 6000, UTC)


async def told(agent: Agent, query: str = "") -> list[dict[str, Any]]:
    app = web.Application()
    app.add_routes(adds.routes(agent.pod_services.host.adds))
    async with TestClient(TestServer(app)) as client:
        found: list[dict[str, Any]] = (await (await client.get(f"{adds.PATH}{query}")).json())[
            "adds"
        ]
    return found


async def test_an_add_is_found_by_its_container_with_its_stages() -> None:
    outside = Outside.new()
    async with running(outside) as agent:
        asked = replace(request("c1"), namespace="shop", pod_name="web-1")
        await agent.pods.add(asked)
        await agent.pods.add(asked)
        outside.faults.failing["link"] = STEPS["link"]
        with pytest.raises(HostError):
            await agent.pods.add(asking(asked, container_id="x2"))
        failed, repeated, added = await told(agent)
        assert (added["outcome"], repeated["outcome"]) == ("added", "repeated")
        assert (failed["outcome"], failed["container"]) == ("failed", "x2")
        assert failed["error"]
        assert (added["namespace"], added["pod"], added["interface"]) == ("shop", "web-1", "eth0")
        assert added["endpoint"] == key("c1")
        stages = {one["stage"]: one for one in added["stages"]}
        assert {"place", "grant", "link", "port", "flows", "journal present"} <= stages.keys()
        assert all(0 <= one["from"] <= added["milliseconds"] for one in stages.values())
        assert stages["grant"]["from"] <= stages["flows"]["from"]
        assert [one["container"] for one in await told(agent, "?container=x")] == ["x2"]
        assert await told(agent, "?container=none") == []


def test_the_last_adds_are_kept_and_those_under_way_are_among_them() -> None:
    kept = RecentAdds(now=lambda: AT, clock=iter(range(9999)).__next__)
    for number in range(MOST + 5):
        with kept.keep(request(f"c{number}"), AddTimes()) as one:
            (shown,) = adds.shown([next(kept.newest())])["adds"]
            assert (shown["outcome"], shown["at"]) == ("under way", "2026-01-02T03:04:05.006+00:00")
        assert (one.outcome, one.seconds) == ("added", 1)
    assert [one.request.spec.container_id for one in kept.newest()][:: MOST - 1] == ["c204", "c5"]
