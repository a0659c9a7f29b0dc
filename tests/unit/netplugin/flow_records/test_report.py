"""Who is told of which records by an agent."""

from dataclasses import replace

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from core.ids import HostLabel
from netplugin.flow_records.report import _fitting, routes
from netplugin.flow_records.ring import AGE
from tests.unit.netplugin.flow_records.recorded import DumpRecorder
from tests.unit.state.flow_records import CROSSING, RECORD


def test_a_client_of_one_tenant_asks_by_no_name_of_another() -> None:
    assert _fitting({"toPod": "db-0"})(CROSSING)
    assert not _fitting({"toPod": "db-0", "tenants": "blue"})(CROSSING)
    assert _fitting({"fromPod": "web-1", "tenants": "blue"})(CROSSING)
    assert not _fitting({"tenants": "green"})(CROSSING)


async def test_conversations_are_of_a_tenant_and_say_since_when() -> None:
    dumps = DumpRecorder()
    dumps.recorder.ring.add(RECORD)
    dumps.recorder.ring.add(replace(CROSSING, number=8))
    app = web.Application()
    app.add_routes(routes(dumps.recorder, HostLabel("h1")))
    async with TestClient(TestServer(app)) as client:
        told = await (await client.get("/inspect/conversations?tenant=red")).json()
        assert [one["destination"]["group"] for one in told["conversations"]] == ["vault"]
        assert told["conversations"][0]["source"]["group"] == ""
        assert (told["on"], told["complete"], told["from"]) == (True, True, dumps.now)
        dumps.now += AGE + 60
        later = "?tenant=blue&since=2026-01-01T00:00:00Z"
        told = await (await client.get(f"/inspect/conversations{later}")).json()
        assert (told["conversations"], told["from"]) == ([], dumps.now - AGE)
        assert (await client.get("/inspect/conversations?since=noon")).status == 400


async def test_without_records_there_are_no_conversations() -> None:
    app = web.Application()
    app.add_routes(routes(None, HostLabel("h1")))
    async with TestClient(TestServer(app)) as client:
        told = await (await client.get("/inspect/conversations?tenant=red")).json()
    assert told == {"on": False, "conversations": [], "complete": True, "from": 0.0, "lost": {}}
