"""What Kubernetes tells becomes the World's services and names, and outlives the agent."""

import asyncio
import json
import logging
from collections.abc import Iterable
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from core.errors import HostError, OrchestratorUnavailable
from core.ids import TenantName
from core.log_lines.extra import extra_of
from core.tasks import background
from netplugin.kube.api import KubeApi, KubeChange, KubeList, KubeSign
from netplugin.kube.api_access import KubeAccess
from netplugin.kube.cache import FILE, KubeCache
from netplugin.kube.feed import KubeFeed
from netplugin.kube.resources import ENDPOINTS, NODES, SERVICES, SLICES, Resource
from netplugin.kube.services import ZONE, ServiceHandler
from netplugin.world.builder import WorldBuilder
from netplugin.world.dns.dns_records import Asker
from netplugin.world.kubernetes.kube_services import KubeService
from ofnet.changes import ObjectKind
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode
from tests.bed.kubernetes import service
from tests.unit.netplugin.agent import Outside, eventually, running
from tests.unit.netplugin.records import HOST
from tests.unit.netplugin.world.kube_services import KEY, SERVED, SERVING, WEB, at, piece, said


@pytest.fixture
def world() -> WorldBuilder:
    return WorldBuilder(HOST, FwdMode.ROUTING)


@pytest.fixture
def feed(world: WorldBuilder, tmp_path: Path) -> KubeFeed:
    return feed_of(world, tmp_path)


def feed_of(world: WorldBuilder, directory: Path, clock: Any = lambda: 0.0) -> KubeFeed:
    api = KubeApi(KubeAccess(servers=("http://192.0.2.1",)))
    services = ServiceHandler(world)
    return KubeFeed(api, KubeCache(directory), {SERVICES: services, SLICES: services}, clock)


def all_of(resource: Resource, *objects: dict[str, Any]) -> KubeList:
    return KubeList(resource, "7", objects)


def change(resource: Resource, one: dict[str, Any], *, deleted: bool = False) -> KubeChange:
    return KubeChange(resource, "8", one, deleted=deleted)


def tell(feed: KubeFeed, *events: KubeList | KubeChange) -> None:
    for event in events:
        feed.apply(SERVICES if event.resource is SERVICES else SLICES, event)


def known(world: WorldBuilder, name: str) -> bool:
    return world.names.lookup(Asker(TenantName("default")), name, IPv4Address) is not None


def test_services_come_change_and_go(feed: KubeFeed, world: WorldBuilder) -> None:
    complete = []
    for event in (all_of(SERVICES, WEB), all_of(ENDPOINTS, SERVING)):
        tell(feed, event)
        complete.append(feed.complete)
    assert complete == [False, True]
    assert world.services.kube == {KEY: SERVED}
    tell(feed, change(SERVICES, said(service("10.96.0.12"), "db")))
    assert world.services.kube.keys() == {KEY, "shop/db"}
    assert known(world, "web.shop")
    assert known(world, "db.shop")
    tell(feed, change(SERVICES, WEB, deleted=True))
    assert world.services.kube.keys() == {"shop/db"}
    assert not known(world, "web.shop")


def test_what_a_later_list_lacks_is_gone(feed: KubeFeed, world: WorldBuilder) -> None:
    tell(feed, all_of(SERVICES, WEB, said(service("10.96.0.12"), "db")))
    tell(feed, all_of(ENDPOINTS, SERVING), all_of(ENDPOINTS))
    assert not any(port.targets for port in world.services.kube[KEY].ports)
    tell(feed, all_of(SERVICES, WEB))
    assert world.services.kube.keys() == {KEY}


def test_every_change_is_news(feed: KubeFeed) -> None:
    for event in (
        all_of(SERVICES, WEB),
        change(SERVICES, WEB),
        change(SERVICES, WEB, deleted=True),
    ):
        changed = feed.changed()
        assert not changed.is_set()
        tell(feed, event)
        assert changed.is_set()


async def test_the_switch_follows_with_nothing_else_going_on(
    outside: Outside, tmp_path: Path
) -> None:
    async with running(outside) as agent:
        feed = feed_of(agent.world, tmp_path)
        flows = outside.switches[Bridge.VXLAN].table

        def brought_up() -> bool:
            return any(
                flow.owner is ObjectKind.SERVICE and flow.table == TableId.SRV_PROXY_SNAT
                for flow in flows.values()
            )

        tell(feed, all_of(SERVICES, WEB), all_of(ENDPOINTS, SERVING))
        await eventually(brought_up)
        tell(feed, all_of(ENDPOINTS))
        await eventually(lambda: not brought_up())


def test_what_cannot_be_read_leaves_the_last_good_in_force(
    feed: KubeFeed, world: WorldBuilder, caplog: pytest.LogCaptureFixture
) -> None:
    tell(feed, all_of(SERVICES, WEB), all_of(ENDPOINTS, SERVING))
    bad = said(service("10.96"))
    for event in (change(SERVICES, bad), all_of(SERVICES, bad)):
        with caplog.at_level(logging.WARNING):
            tell(feed, event)
        assert "Kubernetes object invalid" in caplog.text
        assert world.services.kube == {KEY: SERVED}


async def test_what_cannot_be_read_is_an_error_of_the_host_until_it_is_mended(
    feed: KubeFeed,
) -> None:
    shown: list[list[str]] = []
    complaints = ["policies have no effect"]

    def show(faults: Iterable[str]) -> None:
        shown.append(sorted(faults))

    tell(feed, all_of(SERVICES, WEB), all_of(ENDPOINTS, SERVING))
    async with background("faults", feed.report_faults(show, lambda: complaints)):
        await eventually(lambda: shown == [["Kubernetes: policies have no effect"]])
        complaints.clear()
        tell(feed, change(SERVICES, said(service("10.96"))))
        await eventually(lambda: len(shown) > 1 and len(shown[-1]) == 1)
        assert shown[-1][0].startswith(f"Kubernetes: services {KEY} of Kubernetes: ")
        await feed.ready()
        for mended in (
            change(SERVICES, WEB),
            change(SERVICES, WEB, deleted=True),
            all_of(SERVICES),
        ):
            tell(feed, mended)
            await eventually(lambda: shown[-1] == [])
            tell(feed, change(SERVICES, said(service("10.96"))))
            await eventually(lambda: len(shown[-1]) == 1)


def test_whatever_an_object_does_to_its_handler_the_others_are_served(
    feed: KubeFeed,
    world: WorldBuilder,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    put = world.put_kube_service

    def refuse(service: KubeService) -> None:
        if service.name == "bad":
            raise TypeError("a fault of this program")
        put(service)

    monkeypatch.setattr(world, "put_kube_service", refuse)
    tell(
        feed,
        all_of(
            SERVICES, WEB, said(service("10.96.0.2"), "bad"), said(service("10.96.0.3"), "after")
        ),
    )
    assert world.services.kube.keys() == {KEY, "shop/after"}
    (record,) = [one for one in caplog.records if one.msg == "Kubernetes object not understood"]
    assert extra_of(record)["object"] == "services shop/bad"
    assert record.exc_info is not None


async def test_the_first_lists_are_waited_for(feed: KubeFeed) -> None:
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(feed.listed(60, SERVICES, SLICES))
        for event in (all_of(SERVICES, WEB), all_of(ENDPOINTS, SERVING)):
            await asyncio.sleep(0)
            assert not waiting.done()
            tell(feed, event)
    assert waiting.result()


async def test_a_server_that_is_away_is_not_waited_for_long(feed: KubeFeed) -> None:
    tell(feed, all_of(SERVICES, WEB))
    assert not await feed.listed(0.01, SERVICES, SLICES)
    assert await feed.listed(0.01, SERVICES)


def test_a_list_is_applied_in_steps_and_known_at_their_end(
    feed: KubeFeed, world: WorldBuilder
) -> None:
    many = [said(service("10.96.0.10"), f"s{number}") for number in range(120)]
    steps = feed._steps(SERVICES, all_of(SERVICES, *many))
    next(steps)
    assert 0 < len(world.services.kube) < 120
    assert not feed.knows(SERVICES)
    assert len(list(steps)) == 1
    assert len(world.services.kube) == 120
    assert feed.knows(SERVICES)


def test_what_a_list_repeats_is_not_applied_again(
    feed: KubeFeed, world: WorldBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: list[str] = []
    monkeypatch.setattr(world, "put_kube_service", lambda one: put.append(one.name))
    monkeypatch.setattr(
        feed._followed[SERVICES], "put", lambda _, one: put.append(one["metadata"]["name"])
    )
    tell(feed, all_of(SERVICES, WEB), all_of(SERVICES, WEB), change(SERVICES, WEB))
    assert put == ["web"]


def test_one_of_two_sources_of_endpoints_counts(feed: KubeFeed, world: WorldBuilder) -> None:
    tell(feed, all_of(SERVICES, WEB), all_of(ENDPOINTS, SERVING))
    tell(feed, all_of(SLICES, piece("web-a", at("10.1.0.7"))))
    http, dns = world.services.kube[KEY].ports
    assert {str(one.address) for one in http.targets} == {"10.1.0.7"}
    assert not dns.targets
    tell(feed, all_of(ENDPOINTS, SERVING))
    assert world.services.kube[KEY] == SERVED


# -- never less than known -------------------------------------------------------------------------


async def test_an_agent_begins_with_what_the_one_before_knew(
    feed: KubeFeed, tmp_path: Path
) -> None:
    tell(feed, all_of(SERVICES, WEB, said(service("10.96.0.12"), "db")), all_of(ENDPOINTS, SERVING))
    tell(feed, change(SERVICES, said(service("10.96.0.12"), "db"), deleted=True))
    await feed.save()
    world = WorldBuilder(HOST, FwdMode.ROUTING)
    later = feed_of(world, tmp_path)
    await later.restore()
    assert later.complete
    assert world.services.kube == {KEY: SERVED}
    report = later.report()["resources"]
    assert report["services"]["fromCache"]
    assert report["services"]["version"] == "8"
    tell(later, all_of(SERVICES))
    assert world.services.kube == {}, "now the server has said so"


async def test_what_is_followed_no_more_is_not_begun_with(feed: KubeFeed, tmp_path: Path) -> None:
    tell(feed, all_of(ENDPOINTS, SERVING))
    await feed.save()
    tell(feed, all_of(SLICES, piece("web-a", at("10.1.0.7"))))
    await feed.save()
    cache = KubeCache(tmp_path)
    assert cache.load("endpoints") is None
    pieces = cache.load("endpointslices")
    assert pieces is not None
    assert len(pieces.objects) == 1


async def test_without_a_cache_nothing_is_known(feed: KubeFeed) -> None:
    await feed.restore()
    assert not feed.complete


async def test_a_cache_that_cannot_be_written_is_a_fault(feed: KubeFeed, tmp_path: Path) -> None:
    (tmp_path / FILE).mkdir()
    tell(feed, all_of(SERVICES, WEB), all_of(ENDPOINTS, SERVING))
    with pytest.raises(HostError, match="Kubernetes cache"):
        await feed.save()
    (tmp_path / FILE).rmdir()
    tell(feed, change(SERVICES, said(service("10.96.0.12"), "db")))
    await feed.save()
    services, endpoints = (KubeCache(tmp_path).load(one) for one in ("services", "endpoints"))
    assert services is not None
    assert endpoints is not None
    assert len(services.objects) == 2, "all of it, not only what changed since"
    assert len(endpoints.objects) == 1


async def test_secrets_and_bookkeeping_are_not_saved(feed: KubeFeed, tmp_path: Path) -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "applied", "mine": "yes"}
    meta = {**WEB["metadata"], "managedFields": ["managed"], "annotations": annotations}
    tell(feed, all_of(SERVICES, {**WEB, "metadata": meta}))
    await feed.save()
    cached = KubeCache(tmp_path).load("services")
    assert cached is not None
    text = json.dumps(cached.objects)
    assert "mine" in text
    assert "managed" not in text
    assert "applied" not in text


# -- health ----------------------------------------------------------------------------------------


def test_a_fault_counts_after_a_while(world: WorldBuilder, tmp_path: Path) -> None:
    now = 100.0
    feed = feed_of(world, tmp_path, lambda: now)
    feed.apply(SERVICES, KubeSign(fault="away"))
    feed.apply(SLICES, KubeSign(fault="away"))
    assert feed.faults(60) == []
    now = 130.0
    feed.apply(SERVICES, KubeSign(fault="still away"))
    now = 160.0
    assert feed.faults(60) == ["Kubernetes: still away", "Kubernetes: away"]
    feed.apply(SERVICES, KubeSign())
    assert feed.faults(60) == ["Kubernetes: away"]
    tell(feed, all_of(SLICES))
    assert feed.faults() == []


async def test_a_feed_is_ready_once_all_is_known_and_despite_short_faults(
    world: WorldBuilder, tmp_path: Path
) -> None:
    now = 100.0
    feed = feed_of(world, tmp_path, lambda: now)
    with pytest.raises(OrchestratorUnavailable, match="not listed"):
        await feed.ready()
    feed.apply(SERVICES, KubeSign(fault="wrong token"))
    with pytest.raises(OrchestratorUnavailable, match="wrong token"):
        await feed.ready()
    tell(feed, all_of(SERVICES, WEB), all_of(SLICES))
    await feed.ready()
    feed.apply(SERVICES, KubeSign(fault="away"))
    now = 159.0
    await feed.ready()
    now = 160.0
    with pytest.raises(OrchestratorUnavailable, match="away"):
        await feed.ready()


def test_the_state_of_each_watch_is_told(world: WorldBuilder, tmp_path: Path) -> None:
    now = 100.0
    feed = feed_of(world, tmp_path, lambda: now)
    tell(feed, all_of(SERVICES, WEB))
    now = 103.0
    feed.apply(SERVICES, KubeSign(version="9"))
    now = 105.0
    feed.apply(SLICES, KubeSign(fault="away"))
    report = feed.report()
    assert not report["complete"]
    assert report["resources"]["services"] == {
        "objects": 1,
        "listed": True,
        "fromCache": False,
        "version": "9",
        "connectedSeconds": 5.0,
        "lastEventSeconds": 2.0,
        "fault": "",
    }
    slices = report["resources"]["endpointslices"]
    assert (slices["connectedSeconds"], slices["fault"]) == (None, "away")


async def test_faults_are_shown_when_due(world: WorldBuilder, tmp_path: Path) -> None:
    feed = feed_of(world, tmp_path)
    shown: list[list[str]] = []
    reporting = feed.report_faults(lambda faults: shown.append(list(faults)), grace=0.0)
    async with background("faults", reporting):
        await eventually(lambda: shown == [[]])
        feed.apply(SERVICES, KubeSign(fault="away"))
        await eventually(lambda: shown[-1] == ["Kubernetes: away"])
        feed.apply(SERVICES, KubeSign())
        await eventually(lambda: shown[-1] == [])


def test_the_zone_of_the_own_node_counts_for_hints(world: WorldBuilder) -> None:
    handler = ServiceHandler(world, "n1")

    def zoned(address: str, zone: str) -> dict[str, Any]:
        return {**at(address), "hints": {"forZones": [{"name": zone}]}}

    def node(name: str, **labels: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": labels}}

    def near() -> set[str]:
        return {str(one.address) for one in world.services.kube[KEY].ports[0].near}

    handler.put(SERVICES.name, WEB)
    handler.put(SLICES.name, piece("web-1", zoned("10.1.0.1", "a"), zoned("10.1.0.2", "b")))
    handler.put(NODES.name, node("n2", **{ZONE: "b"}))
    assert near() == {"10.1.0.1", "10.1.0.2"}
    handler.put(NODES.name, node("n1", **{ZONE: "a"}))
    assert near() == {"10.1.0.1"}
    handler.remove(NODES.name, "n2")
    handler.retain(NODES.name, {"n1"})
    assert near() == {"10.1.0.1"}
    handler.retain(NODES.name, {"n2"})
    assert near() == {"10.1.0.1", "10.1.0.2"}
