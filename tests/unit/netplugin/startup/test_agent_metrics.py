"""The metrics of an agent follow what it does."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from unittest.mock import Mock

import pytest

from core.errors import SwitchUnavailable
from core.metrics import Histogram, Metric
from netplugin.flow_records.recorder import FlowRecorder
from netplugin.flow_records.ring import Ring
from netplugin.masters.leader import LeaderClient
from netplugin.masters.registration import AgentRegistrations
from netplugin.startup import metric_names as names
from netplugin.startup.agent_metrics import AgentMetrics
from netplugin.startup.membership import ClusterMembership
from netplugin.startup.tunnel_health import build_tunnel_health
from objdb.memory import MemoryBackend
from ofnet.world import Bridge
from tests.unit.netplugin.agent import Agent, Outside, eventually, request, running

KUBERNETES = {
    names.KUBE_FAULTY,
    names.KUBE_LISTED,
    names.KUBE_OBJECTS,
    names.KUBE_SILENT,
}
HOST = {
    *(names.DISK_FREE, names.DISK_SIZE, names.CONNTRACK, names.CONNTRACK_LIMIT),
    *(names.LOOKUPS, names.CACHED),
}
"""Read by `netplugin.startup.host_numbers`."""
FLOWS = {
    *(names.FLOWS_KEPT, names.FLOWS_MADE, names.FLOWS_LOST),
    *(names.FLOWS_EXPORTED, names.FLOWS_NOT_EXPORTED),
}
BGP = {names.BGP_UP, names.BGP_ROUTES, names.BGP_ANNOUNCED, names.BGP_SESSIONS}


def source(agent: Agent) -> AgentMetrics:
    leader = Mock(spec=LeaderClient)
    leader.leader = "10.0.0.1:9999"
    context, clients, dataplane = agent.context, agent.clients, agent.dataplane
    membership = ClusterMembership(
        context=context,
        clients=clients,
        dataplane=dataplane,
        own=Mock(),
        leader=leader,
        control=Mock(),
        services=AgentRegistrations(MemoryBackend(), agent.sup),
    )
    tunnels = build_tunnel_health(context, clients, dataplane, agent.mtus)
    parts = (clients, dataplane, agent.host_services, agent.pod_services, membership, tunnels)
    return AgentMetrics(context=context, subsystems=parts)


async def values(metrics: AgentMetrics) -> Mapping[Metric, Mapping[tuple[str, ...], object]]:
    return {one.metric: one.values for one in await metrics.read()}


async def number(metrics: AgentMetrics, metric: Metric, *labels: str) -> float:
    found = (await values(metrics))[metric][labels]
    assert isinstance(found, float | int)
    return found


async def test_every_metric_is_read_and_with_the_labels_it_declares() -> None:
    async with running(Outside.new()) as agent:
        found = await values(source(agent))
        assert set(found) == set(names.METRICS) - KUBERNETES - BGP - HOST - FLOWS - {names.EXPIRY}
        for metric, samples in found.items():
            assert all(len(labels) == len(metric.labels) for labels in samples), metric.name


async def test_records_of_flows_are_counted_where_they_are_made() -> None:
    async with running(Outside.new()) as agent:
        recorder = Mock(spec=FlowRecorder)
        recorder.ring = Ring()
        recorder.ring.made["dropped"] = 3
        recorder.lost = {"room": 0, "dump": 1, "drop": 2}
        dataplane = replace(agent.dataplane, flow_recorder=recorder)
        found = {one.metric: dict(one.values) for one in await dataplane.readings()}
        assert found[names.FLOWS_KEPT] == {(): 0}
        assert found[names.FLOWS_MADE] == {("dropped",): 3}
        assert found[names.FLOWS_LOST] == {("room",): 0, ("dump",): 1, ("drop",): 2}
        assert dataplane.flow_tasks()["flow records"] == recorder.run


async def test_an_add_leaves_its_stages_and_its_endpoint() -> None:
    async with running(Outside.new()) as agent:
        metrics = source(agent)
        await agent.pods.add(request())
        stages = (await values(metrics))[names.STAGES]
        assert set(stages) == {
            (stage,)
            for stage in (
                *("place", "lock", "journal adding", "grant", "records", "link", "port"),
                *("flows", "namespace", "journal present"),
            )
        }
        for histogram in stages.values():
            assert isinstance(histogram, Histogram)
            assert sum(histogram.counts) == 1
        assert await number(metrics, names.ENDPOINTS, Bridge.VXLAN, "local") == 1
        wanted = await number(metrics, names.WANTED, Bridge.VXLAN)
        assert await number(metrics, names.INSTALLED, Bridge.VXLAN) == wanted
        await agent.pods.delete(request())
        assert await number(metrics, names.ENDPOINTS, Bridge.VXLAN, "local") == 0


async def test_flows_that_the_switch_lost_are_seen_before_and_counted_after_an_audit() -> None:
    outside = Outside.new()
    async with running(outside) as agent:
        metrics = source(agent)
        await agent.pods.add(request())
        switch = outside.switches[Bridge.VXLAN]
        before = await number(metrics, names.DIFFERENCES, Bridge.VXLAN)
        lost = list(switch.table)[:3]
        for key in lost:
            del switch.table[key]
        missing = await number(metrics, names.WANTED, Bridge.VXLAN) - await number(
            metrics, names.INSTALLED, Bridge.VXLAN
        )
        assert missing == 3
        switch.go(online=False)
        switch.go(online=True)
        await eventually(lambda: agent.dataplane.agents[Bridge.VXLAN].sync.fully_synced)
        assert await number(metrics, names.DIFFERENCES, Bridge.VXLAN) == before + 3
        assert await number(metrics, names.INSTALLED, Bridge.VXLAN) == len(switch.table)


async def test_a_switch_that_does_not_answer_leaves_the_rest_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outside = Outside.new()
    async with running(outside) as agent:
        metrics = source(agent)

        async def silent() -> int:
            raise SwitchUnavailable("it is gone")

        monkeypatch.setattr(outside.switches[Bridge.VLAN], "flow_count", silent)
        found = await values(metrics)
        assert set(found[names.INSTALLED]) == {(Bridge.VXLAN,)}
        assert (Bridge.VLAN,) in found[names.WANTED]


async def test_a_revision_that_was_read_is_behind_until_it_is_realised() -> None:
    outside = Outside.new()
    async with running(outside) as agent:
        metrics, progress = source(agent), agent.progress
        outside.switches[Bridge.VXLAN].go(online=False)
        progress.observed("/contiv.io/state/nets/", 9)
        agent.world.set_revision("/contiv.io/state/nets/", 9)
        await asyncio.sleep(0)
        assert await number(metrics, names.BEHIND) > 0
        assert _observed(await values(metrics)) == 0
        outside.switches[Bridge.VXLAN].go(online=True)
        agent.reconciler.on_bridges_recreated()
        await eventually(lambda: progress.behind == 0)
        assert await number(metrics, names.REALISED, "/contiv.io/state/nets/") == 9
        assert _observed(await values(metrics)) == 1


def _observed(found: Mapping[Metric, Mapping[tuple[str, ...], object]]) -> int:
    histogram = found[names.REALISE_SECONDS][()]
    assert isinstance(histogram, Histogram)
    return sum(histogram.counts)
