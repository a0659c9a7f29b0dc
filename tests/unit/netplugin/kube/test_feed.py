"""What Kubernetes tells becomes the World's services and names."""

import asyncio
import logging
from ipaddress import IPv4Address

import pytest

from core.ids import TenantName
from netplugin.kube.api import KubeApi, KubeChange, KubeList
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
        feed.apply(resource, KubeList((one,)))
        complete.append(feed.complete)
    assert complete == [False, True]
    assert world.services.kube == {KEY: SERVED}
    feed.apply(SERVICES, KubeChange(said(service("10.96.0.12"), "db"), deleted=False))
    assert world.services.kube.keys() == {KEY, "shop/db"}
    assert known(world, "web.shop")
    assert known(world, "db.shop")
    feed.apply(SERVICES, KubeChange(WEB, deleted=True))
    assert world.services.kube.keys() == {"shop/db"}
    assert not known(world, "web.shop")


def test_what_a_later_list_lacks_is_gone(feed: KubeFeed, world: WorldBuilder) -> None:
    feed.apply(SERVICES, KubeList((WEB, said(service("10.96.0.12"), "db"))))
    feed.apply(ENDPOINTS, KubeList((SERVING,)))
    feed.apply(ENDPOINTS, KubeList(()))
    assert not any(port.targets for port in world.services.kube[KEY].ports)
    feed.apply(SERVICES, KubeList((WEB,)))
    assert world.services.kube.keys() == {KEY}


def test_every_change_is_news(feed: KubeFeed) -> None:
    for event in (KubeList((WEB,)), KubeChange(WEB, deleted=False), KubeChange(WEB, deleted=True)):
        changed = feed.changed()
        assert not changed.is_set()
        feed.apply(SERVICES, event)
        assert changed.is_set()


async def test_the_switch_follows_with_nothing_else_going_on(outside: Outside) -> None:
    async with running(outside) as agent:
        feed = KubeFeed(api(), agent.world)
        flows = outside.switches[Bridge.VXLAN].table

        def brought_up() -> bool:
            return any(flow.owner is ObjectKind.SERVICE for flow in flows.values())

        feed.apply(SERVICES, KubeList((WEB,)))
        feed.apply(ENDPOINTS, KubeList((SERVING,)))
        await eventually(brought_up)
        feed.apply(ENDPOINTS, KubeList(()))
        await eventually(lambda: not brought_up())


def test_what_cannot_be_read_leaves_the_last_good_in_force(
    feed: KubeFeed, world: WorldBuilder, caplog: pytest.LogCaptureFixture
) -> None:
    feed.apply(SERVICES, KubeList((WEB,)))
    feed.apply(ENDPOINTS, KubeList((SERVING,)))
    bad = said(service("10.96"))
    for event in (KubeChange(bad, deleted=False), KubeList((bad,))):
        with caplog.at_level(logging.WARNING):
            feed.apply(SERVICES, event)
        assert "Kubernetes object invalid" in caplog.text
        assert world.services.kube == {KEY: SERVED}


async def test_the_first_lists_are_waited_for(feed: KubeFeed) -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(feed.listed(60))
        for event in ((SERVICES, KubeList((WEB,))), (ENDPOINTS, KubeList((SERVING,)))):
            await asyncio.sleep(0)
            assert not waiting.done()
            feed.apply(*event)
    assert waiting.result()


async def test_a_server_that_is_away_is_not_waited_for_long(feed: KubeFeed) -> None:
    feed.apply(SERVICES, KubeList((WEB,)))
    assert not await feed.listed(0.01)
