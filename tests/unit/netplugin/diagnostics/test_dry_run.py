"""What an agent answers about records that are not written."""

import json
from http import HTTPStatus
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from core import keys
from core.errors import Invalid
from netplugin.diagnostics.dry_run import PATH, DryRuns, read
from objdb.memory import MemoryBackend
from ofnet.world import Bridge
from state import codec
from state.records import GroupRecord
from state.watch import RecordFeed
from tests.unit.netplugin import records
from tests.unit.netplugin.worlds import built

GROUP = records.group("web")
KEY = f"{keys.GROUPS}{GROUP.key}"


def asked(**writes: Any) -> bytes:
    return json.dumps({"writes": writes}).encode()


def test_records_are_read_as_from_the_store() -> None:
    text = codec.encode(GROUP).decode()
    found = read(json.dumps({"writes": {KEY: text, "/gone": None}}).encode())
    assert found == {KEY: GROUP, "/gone": None}
    assert isinstance(found[KEY], GroupRecord)


def test_a_record_that_no_agent_could_read_changes_nothing() -> None:
    assert read(json.dumps({"writes": {KEY: "{"}}).encode()) == {}
    assert read(asked(**{"/contiv.io/what": "{}"})) == {}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"writes": 1}', b"[" * 100_000])
def test_another_question_is_refused(body: bytes) -> None:
    with pytest.raises(Invalid):
        read(body)


async def test_figures_are_told_by_bridge(unread: RecordFeed) -> None:
    world = built()
    world.set_complete()
    told = await DryRuns(world, unread, Nobody()).report({"net": records.network()})
    assert told.keys() == {str(bridge) for bridge in Bridge}
    vxlan = told[str(Bridge.VXLAN)]
    assert vxlan["added"] > 0
    assert vxlan["removed"] == 0


async def test_who_is_no_master_is_refused(unread: RecordFeed) -> None:
    app = web.Application()
    app.add_routes(DryRuns(built(), unread, Nobody()).routes())
    async with TestClient(TestServer(app)) as client:
        answer = await client.post(PATH, data=asked())
        assert answer.status == HTTPStatus.FORBIDDEN


class Nobody:
    async def asked_by_master(self, _: web.Request) -> bool:
        return False


@pytest.fixture
def unread() -> RecordFeed:
    """Return a feed that has read nothing."""
    return RecordFeed(MemoryBackend())
