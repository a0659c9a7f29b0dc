"""Metrics of pods on an agent: names, bounds, what goes with a pod and what stays."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from core.errors import HostError
from core.ids import POD_NAME, POD_NAMESPACE
from core.metrics import Metric
from netplugin.cni.request import PodRequest
from netplugin.kernel.links.link_counters import LinkCount
from netplugin.pod_metrics.pod_metrics import PodMetrics
from netplugin.startup import metric_names as names
from netplugin.world.bridges import port_names
from ofnet.changes import ObjectId, ObjectKind
from ofnet.channel.flow_stats import FlowCount
from ofnet.drops import DroppedPacket
from ofnet.logged_rules import LoggedEnd
from ofnet.tables import TableId
from ofnet.world import Bridge
from tests.unit.netplugin.agent import Agent, Outside, in_group, request, running
from tests.unit.netplugin.records import asking, group, key, network
from tests.unit.ofnet.worlds import address

GROUP = ("default", "n1", "web")


@asynccontextmanager
async def counting(most: int | None = 100) -> AsyncIterator[Agent]:
    """Run an agent that names so many pods, with a group `web`."""
    outside = Outside.new()
    outside.settings = replace(outside.settings, named_pods=most)
    async with running(outside, known=(group(),)) as agent:
        yield agent


def pod(container: str, name: str) -> PodRequest:
    labels = {POD_NAMESPACE: "shop", POD_NAME: name}
    return asking(in_group(request(container), "web"), labels=labels)


def carry(agent: Agent, container: str, count: LinkCount) -> None:
    """Have the link of a pod count."""
    entry = agent.registry.get(key(container))
    assert entry is not None
    agent.outside.link_counts[port_names.switch_name(entry.port)] = count


def metrics(agent: Agent) -> PodMetrics:
    found = agent.dataplane.pod_metrics
    assert found is not None
    return found


async def shown(agent: Agent, metric: Metric) -> Mapping[tuple[str, ...], object]:
    found = {one.metric: one.values for one in await agent.dataplane.readings()}
    return dict(found[metric])


async def test_a_pod_has_what_it_sees_of_its_link_under_its_names() -> None:
    async with counting() as agent:
        await agent.pods.add(pod("c1", "web-1"))
        await agent.pods.add(replace(in_group(request("c2"), "web"), pod_name="/c2"))
        carry(agent, "c1", LinkCount(300, 3, 400, 4))
        assert await shown(agent, names.POD_BYTES) == {
            (*GROUP, "shop", "web-1", "", "received"): 400,
            (*GROUP, "shop", "web-1", "", "sent"): 300,
            (*GROUP, "", "", "c2", "received"): 0,
            (*GROUP, "", "", "c2", "sent"): 0,
        }
        assert (await shown(agent, names.POD_PACKETS))[*GROUP, "shop", "web-1", "", "sent"] == 3
        assert await shown(agent, names.GROUP_BYTES) == {
            (*GROUP, "received"): 400,
            (*GROUP, "sent"): 300,
        }
        assert await shown(agent, names.POD_DROPS) == {}


async def test_what_a_pod_has_sent_when_it_goes_is_in_the_sum_of_its_group() -> None:
    async with counting() as agent:
        await agent.pods.add(pod("c1", "web-1"))
        carry(agent, "c1", LinkCount(300, 3, 400, 4))
        await agent.pods.delete(pod("c1", "web-1"))
        agent.outside.link_counts.clear()
        assert await shown(agent, names.POD_BYTES) == {}
        assert await shown(agent, names.GROUP_BYTES) == {
            (*GROUP, "received"): 400,
            (*GROUP, "sent"): 300,
        }
        agent.world.remove(group())
        assert await shown(agent, names.GROUP_BYTES) == {}


async def test_pods_without_a_group_are_added_up_by_network() -> None:
    async with counting() as agent:
        await agent.pods.add(request("c1"))
        assert set(await shown(agent, names.GROUP_PACKETS)) == {
            ("default", "n1", "", "received"),
            ("default", "n1", "", "sent"),
        }
        await agent.pods.delete(request("c1"))
        assert await shown(agent, names.GROUP_PACKETS)
        agent.world.remove(network())
        assert await shown(agent, names.GROUP_PACKETS) == {}


async def test_a_page_names_no_more_pods_than_it_may_and_adds_up_all() -> None:
    async with counting(2) as agent:
        for number in range(1, 5):
            await agent.pods.add(pod(f"c{number}", f"web-{number}"))
            carry(agent, f"c{number}", LinkCount(100 * number, 1, 0, 0))
        sent = await shown(agent, names.POD_BYTES)
        assert {labels[4] for labels in sent} == {"web-3", "web-4"}
        assert len(sent) == len(await shown(agent, names.POD_PACKETS)) == 4
        assert (await shown(agent, names.GROUP_BYTES))[*GROUP, "sent"] == 1000


async def test_pods_of_one_name_are_one() -> None:
    async with counting() as agent:
        for number in (1, 2):
            await agent.pods.add(pod(f"c{number}", "db-0"))
            carry(agent, f"c{number}", LinkCount(number, 1, 0, 0))
        assert (await shown(agent, names.POD_BYTES))[*GROUP, "shop", "db-0", "", "sent"] == 3


async def test_off_counts_nothing() -> None:
    async with counting(None) as agent:
        await agent.pods.add(request("c1"))
        await agent.pods.delete(request("c1"))
        assert agent.dataplane.pod_metrics is None
        found = {one.metric for one in await agent.dataplane.readings()}
        assert found.isdisjoint({names.POD_BYTES, names.GROUP_BYTES, names.GROUP_DROPS})


async def test_counters_that_cannot_be_read_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with counting() as agent:
        await agent.pods.add(request("c1"))
        carry(agent, "c1", LinkCount(7, 1, 0, 0))
        before = await shown(agent, names.GROUP_BYTES)

        def broken(_beginnings: tuple[str, ...]) -> Mapping[str, LinkCount]:
            raise HostError("counters of links: no such file")

        with monkeypatch.context() as patched:
            patched.setattr(metrics(agent), "_read", broken)
            assert await shown(agent, names.GROUP_BYTES) == before
            assert agent.context.loops.failing()["traffic of pods not counted"] == 1
        assert await shown(agent, names.GROUP_BYTES) == before
        assert agent.context.loops.failing()["traffic of pods not counted"] == 0


RULE = ObjectId(ObjectKind.RULE, "default:web:default:doors:default:doors:7:inTx:x")
GUARD = ObjectId(ObjectKind.LOCAL, key("c1"))


def packet(source: str, destination: str) -> DroppedPacket:
    ends = (
        LoggedEnd(address=address(1), endpoint=key(one) if one else None)
        for one in (source, destination)
    )
    return DroppedPacket(
        bridge=Bridge.VXLAN,
        table=TableId.POLICY,
        owner=RULE,
        refused=False,
        protocol=6,
        source=next(ends),
        destination=next(ends),
    )


async def test_a_dropped_packet_is_its_senders_or_else_its_receivers() -> None:
    async with counting() as agent:
        for number in (1, 2):
            await agent.pods.add(pod(f"c{number}", f"web-{number}"))
        counted = metrics(agent)
        for ends in (("c1", "c2"), ("c1", "far"), ("far", "c2"), ("", "c2"), ("far", ""), ("", "")):
            counted.report(packet(*ends), "policy")
        assert await shown(agent, names.POD_DROPS) == {
            (*GROUP, "shop", "web-1", "", "sent", "policy"): 2,
            (*GROUP, "shop", "web-2", "", "received", "policy"): 2,
        }
        assert await shown(agent, names.GROUP_DROPS) == {
            (*GROUP, "sent", "policy"): 2,
            (*GROUP, "received", "policy"): 2,
        }


async def test_what_the_datapath_counts_is_the_pods_whose_link_it_came_by() -> None:
    async with counting() as agent:
        await agent.pods.add(pod("c1", "web-1"))
        entry = agent.registry.get(key("c1"))
        assert entry is not None
        counted, link = metrics(agent), port_names.switch_name(entry.port)
        counted.count(link, RULE, "policy", 40)
        counted.count(port_names.access_name(entry.port), RULE, "policy", 2)
        counted.count("vxlan_sys_4789", RULE, "policy", 5)
        counted.count("vvport4000", RULE, "policy", 5)
        counted.count(link, GUARD, "spoofed", 9)  # the guard counts these itself
        counted.guarded(key("c1"), 6)
        counted.guarded(key("gone"), 6)
        of_pod = (*GROUP, "shop", "web-1", "", "sent")
        assert await shown(agent, names.POD_DROPS) == {
            (*of_pod, "policy"): 42,
            (*of_pod, "spoofed"): 6,
        }


async def no_counts(_kind: ObjectKind) -> list[FlowCount]:
    return []


async def test_the_guards_tell_whose_packets_they_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    async with counting() as agent:
        for switch in agent.outside.switches.values():
            monkeypatch.setattr(switch, "counts", no_counts)
        await agent.pods.add(request("c1"))
        agent.dataplane.agents[Bridge.VXLAN].forged[key("c1")] = 4
        await agent.host_services.guard_drops.look()
        assert list((await shown(agent, names.POD_DROPS)).values()) == [4]
