"""Ways of packets through wanted flows, asked of Open vSwitch: it agrees, or says what differs."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from ipaddress import IPv4Address
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import DROP
from ofnet.tables import TableId
from ofnet.trace import packets
from ofnet.trace.evaluator import PacketFields
from ofnet.trace.journey import Journey, follow
from ofnet.trace.packets import Talk
from ofnet.trace.switch import TraceDifference, command, difference, hits
from ofnet.world import Bridge, FwdMode, Provider, Service, ServicePort, World
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.network_policy import numbered, packet, sendable, world_of
from tests.integration.ofnet.switch_flows import flows_of
from tests.integration.ofnet.trace import TracedBridge
from tests.model import random_worlds
from tests.model.random_worlds import PORTS, worlds
from tests.unit.netplugin.world.kubernetes.random_policies import random_cluster
from tests.unit.netplugin.world.kubernetes.world import policies_of
from tests.unit.ofnet.worlds import address, local, world

pytestmark = pytest.mark.ovs
MODES = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]


@pytest.fixture(scope="module")
def bridge(ovs_module: OvsHost) -> TracedBridge:
    return TracedBridge(ovs_module, "asked", PORTS)


def differences(bridge: TracedBridge, journey: Journey) -> Iterator[TraceDifference]:
    for number, stretch in enumerate(journey.stretches):
        answer = bridge.ask(*command(bridge.name, stretch, resumed=number > 0))
        found = difference(stretch, hits(answer))
        if found is not None:
            yield found


@pytest.mark.parametrize(("kind", "fwd_mode"), MODES)
def test_the_switch_says_what_is_wanted(
    bridge: TracedBridge, kind: Bridge, fwd_mode: FwdMode
) -> None:
    @given(worlds(fwd_mode), st.lists(random_worlds.packets(), min_size=15, max_size=15))
    @settings(
        max_examples=8,
        # the same ones each time: a failure must be about the change under test
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def agree(world: World, sent: list[PacketFields]) -> None:
        flows = flows_of(kind, world)
        bridge.install(flows)
        for one in (one for one in sent if not one.tags):  # one tag may come on the way
            journey = follow(flows, world, [one])
            assert list(differences(bridge, journey)) == [], one

    agree()


@pytest.mark.parametrize("seed", range(3))
def test_the_switch_says_what_policies_of_kubernetes_want(bridge: TracedBridge, seed: int) -> None:
    known = random_cluster(seed)
    world, ports = world_of(known, policies_of(known)), numbered(known)
    flows = flows_of(Bridge.VXLAN, world)
    bridge.install(flows)
    for sent in Random(seed).sample(sendable(known), 12):
        journey = follow(flows, world, [packet(ports[sent[0]], *sent)])
        assert list(differences(bridge, journey)) == [], sent


WEB = Service(
    key="web:default",
    vrf=1,
    address=IPv4Address("10.1.200.1"),
    ports=(ServicePort(6, 80, frozenset({Provider(address(2), 8080, 1)})),),
)
SERVED = replace(world(here=(local(1), local(2))), services={WEB.key: WEB})


def to_service() -> PacketFields:
    talk = Talk(to=WEB.address, protocol=oxm.PROTO_TCP, port=80)
    first = packets.from_endpoint(SERVED, local(1), talk)
    assert first is not None
    return first


@pytest.mark.parametrize("table", [TableId.INPUT, TableId.SRV_PROXY_DNAT, TableId.IP])
def test_a_flow_that_is_missing_is_named(bridge: TracedBridge, table: TableId) -> None:
    flows = flows_of(Bridge.VXLAN, SERVED)
    journey = follow(flows, SERVED, [to_service()])
    (gone,) = [one.flow for one in journey.path if one.table == table and one.flow][:1]
    bridge.install(flow for flow in flows if flow != gone)
    first, *_ = differences(bridge, journey)
    assert first.wanted.flow == gone


def test_a_foreign_flow_is_found(bridge: TracedBridge) -> None:
    flows = flows_of(Bridge.VXLAN, SERVED)
    journey = follow(flows, SERVED, [to_service()])
    (met,) = [one.flow for one in journey.path if one.table == TableId.POLICY and one.flow]
    foreign = Flow(met.owner, TableId.POLICY, 99, met.match, DROP)
    bridge.install([*flows, foreign])
    (found,) = differences(bridge, journey)
    assert found.found is not None
    assert found.found.cookie == foreign.cookie


def test_the_answer_of_a_provider_is_followed(bridge: TracedBridge) -> None:
    flows = flows_of(Bridge.VXLAN, SERVED)
    bridge.install(flows)
    asked = to_service()
    there = follow(flows, SERVED, [asked])
    (delivered,) = there.exits
    back = follow(flows, SERVED, [asked, packets.answer(delivered.packet, delivered.port)])
    assert [one.place for one in back.exits] == [("endpoint", local(1).key)]
    assert back.exits[0].packet.get("ipv4_src") == WEB.address
    assert list(_each(bridge, there, back)) == []


def _each(bridge: TracedBridge, *journeys: Journey) -> Iterable[TraceDifference]:
    for journey in journeys:
        yield from differences(bridge, journey)
