"""What Kubernetes tells becomes the World's services and names."""

import asyncio
import logging
from ipaddress import IPv4Address

import pytest

from core.ids import TenantName
from netplugin.kube.api import KubeApi, Listed, Told
from netplugin.kube.config import KubeConfig
from netplugin.kube.feed import KubeFeed
from netplugin.world.builder import WorldBuilder
from netplugin.world.kube_services import ENDPOINTS, SERVICES
from ofnet.changes import ObjectKind
from ofnet.world import Bridge, FwdMode
from tests.bed.kubernetes import service
from tests.unit.netplugin.agent import Outside, eventually, running
from tests.unit.netplugin.records import HOST
from tests.unit.netplugin.world.test_kube_services import KEY, SERVED, SERVING, WEB, said


@pytest.fixture
def world() -> WorldBuilder:
    return WorldBuilder(HOST, FwdMode.ROUTING)


def api() -> KubeApi:
    return KubeApi(KubeConfig.model_validate({"K8S_API_SERVER": "http://192.0.2.1"}))


@pytest.fixture
def feed(world: WorldBuilder) -> KubeFeed:
    return KubeFeed(api(), world)


def known(world: WorldBuilder, name: str) -> bool:
    return world.names.lookup(TenantName("default"), name, IPv4Address) is not None


def test_services_come_change_and_go(feed: KubeFeed, world: WorldBuilder) -> None:
    complete = []
    for resource, one in ((SERVICES, WEB), (ENDPOINTS, SERVING)):
        feed.take(resource, Listed((one,)))
        complete.append(feed.complete)
    assert complete == [False, True]
    assert world.services.kube == {KEY: SERVED}
    feed.take(SERVICES, Told(said(service("10.96.0.12"), "db"), gone=False))
    assert world.services.kube.keys() == {KEY, "shop/db"}
    assert known(world, "web.shop")
    assert known(world, "db.shop")
    feed.take(SERVICES, Told(WEB, gone=True))
    assert world.services.kube.keys() == {"shop/db"}
    assert not known(world, "web.shop")


def test_what_a_later_list_lacks_is_gone(feed: KubeFeed, world: WorldBuilder) -> None:
    feed.take(SERVICES, Listed((WEB, said(service("10.96.0.12"), "db"))))
    feed.take(ENDPOINTS, Listed((SERVING,)))
    feed.take(ENDPOINTS, Listed(()))
    assert not any(port.targets for port in world.services.kube[KEY].ports)
    feed.take(SERVICES, Listed((WEB,)))
    assert world.services.kube.keys() == {KEY}


def test_every_change_is_news(feed: KubeFeed) -> None:
    for event in (Listed((WEB,)), Told(WEB, gone=False), Told(WEB, gone=True)):
        changed = feed.changed()
        assert not changed.is_set()
        feed.take(SERVICES, event)
        assert changed.is_set()


async def test_the_switch_follows_with_nothing_else_going_on(outside: Outside) -> None:
    async with running(outside) as agent:
        feed = KubeFeed(api(), agent.world)
        flows = outside.switches[Bridge.VXLAN].table

        def brought_up() -> bool:
            return any(flow.owner is ObjectKind.SERVICE for flow in flows.values())

        feed.take(SERVICES, Listed((WEB,)))
        feed.take(ENDPOINTS, Listed((SERVING,)))
        await eventually(brought_up)
        feed.take(ENDPOINTS, Listed(()))
        await eventually(lambda: not brought_up())


def test_what_cannot_be_read_leaves_the_last_good_in_force(
    feed: KubeFeed, world: WorldBuilder, caplog: pytest.LogCaptureFixture
) -> None:
    feed.take(SERVICES, Listed((WEB,)))
    feed.take(ENDPOINTS, Listed((SERVING,)))
    bad = said(service("10.96"))
    for event in (Told(bad, gone=False), Listed((bad,))):
        with caplog.at_level(logging.WARNING):
            feed.take(SERVICES, event)
        assert "object of kubernetes not understood" in caplog.text
        assert world.services.kube == {KEY: SERVED}


async def test_the_first_lists_are_waited_for(feed: KubeFeed) -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(feed.listed(60))
        for event in ((SERVICES, Listed((WEB,))), (ENDPOINTS, Listed((SERVING,)))):
            await asyncio.sleep(0)
            assert not waiting.done()
            feed.take(*event)
    assert waiting.result()


async def test_a_server_that_is_away_is_not_waited_for_long(feed: KubeFeed) -> None:
    feed.take(SERVICES, Listed((WEB,)))
    assert not await feed.listed(0.01)
