"""In whatever order the nodes of the graph get what comes, the Worlds are the same."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Address
from random import Random
from typing import Final, TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st

from core.ids import POD_NAME, POD_NAMESPACE, GroupName, NetworkId, TenantName
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from netplugin.world.kubernetes.kube_services import KubePort, KubeService, KubeTarget
from netplugin.world.kubernetes.policy_objects import NETWORK_POLICIES
from netplugin.world.management import management_ports
from ofnet.world import Bridge, FwdMode
from state.intents import Attachment, Fact
from state.policy_rules import PolicyRule
from state.records import Encap
from tests.unit.netplugin.records import HOST, PEER, endpoint, group, host, network
from tests.unit.netplugin.world.service_records import provider, record

T = TypeVar("T")
DOTTED: Final = network("n1", "a.b", tag=2)
PODS: Final = {POD_NAMESPACE: "shop", POD_NAME: "web", "app": "web"}
VRFS: Final = {TenantName("default"): 1, TenantName("a.b"): 2}
HERE: Final = replace(provider(1, homing_host=HOST), labels=PODS)
THERE: Final = replace(provider(2, network=DOTTED.id), labels={**PODS, POD_NAME: "db"})
EARLY: Final = replace(provider(4, homing_host=HOST, network=DOTTED.id), labels=PODS)
"""Has a port here, and no record yet."""

KUBE: Final = KubeService(
    namespace="shop",
    name="web",
    addresses=(IPv4Address("10.96.0.10"),),
    ports=(
        KubePort(
            protocol="TCP",
            port=80,
            targets=frozenset({KubeTarget(address=IPv4Address("10.1.0.1"), port=8080)}),
        ),
    ),
)
DENY: Final = {"metadata": {"namespace": "shop", "name": "deny"}, "spec": {"podSelector": {}}}
WEB: Final = group("web")
RULE: Final = PolicyRule(
    tenant=TenantName("default"), policy="p", rule_id="1", direction="in", priority=1, action="deny"
)
FACTS: Final[tuple[Fact, ...]] = (
    network(),
    DOTTED,
    network("n2", encap=Encap.VLAN, tag=3),
    HERE,
    THERE,
    endpoint(3, nid=NetworkId("n2.default"), host=PEER, group="web"),
    record(),
    record(tenant="a.b", name="db"),
    replace(host(), uplink_macs=("52:54:00:00:00:01",), control_ip="192.0.2.9"),
    replace(host("h3", "10.1.0.2"), control_ip="10.1.0.2"),
    WEB,
    Attachment(TenantName("default"), GroupName("web"), ("p",)),
    RULE,
)
STEPS: Final[tuple[Callable[[WorldBuilder], object], ...]] = (
    *(partial(WorldBuilder.put, fact=fact) for fact in FACTS),
    lambda it: it.put_kube_service(KUBE),
    lambda it: it.pod_policies.put(NETWORK_POLICIES, DENY),
    lambda it: it.put_port(HERE.key, LocalPort(record=HERE, ofport=5, number=1)),
    lambda it: it.put_port(EARLY.key, LocalPort(record=EARLY, ofport=6, number=2)),
    lambda it: it.management.set_ports("test", management_ports([9999])),
    lambda it: it.management.close(frozenset()),
    lambda it: it.set_complete(),
)


def rewired(random: Random) -> WorldBuilder:
    """Return a builder whose nodes come in another order."""
    made = WorldBuilder(HOST, FwdMode.ROUTING, VRFS)

    def shuffled(nodes: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(random.sample(nodes, len(nodes)))

    made._sources = {
        kind: replace(source, nodes=shuffled(source.nodes))
        for kind, source in made._sources.items()
    }
    made._late = shuffled(made._late)
    made.endpoint_records.feed(*shuffled(made.endpoint_records._nodes))
    made.networks.feed(*shuffled(made.networks._followers))
    return made


@settings(deadline=None, max_examples=100)
@given(
    random=st.randoms(use_true_random=False),
    steps=st.permutations(STEPS),
    gone=st.lists(st.sampled_from(FACTS), max_size=5),
    taken=st.sets(st.integers(0, len(STEPS))),
)
def test_the_order_of_nodes_does_not_matter(
    random: Random,
    steps: list[Callable[[WorldBuilder], object]],
    gone: list[Fact],
    taken: set[int],
) -> None:
    plain = WorldBuilder(HOST, FwdMode.ROUTING, VRFS)
    other = rewired(random)
    removals: list[Callable[[WorldBuilder], object]]
    removals = [partial(WorldBuilder.remove, fact=fact) for fact in gone]
    for number, step in enumerate([*steps, *removals]):
        step(plain)
        step(other)
        if number in taken:
            same(plain, other)
    same(plain, other)


def same(plain: WorldBuilder, other: WorldBuilder) -> None:
    for bridge in Bridge:
        assert plain.take(bridge)[0] == other.take(bridge)[0]
    assert plain.names.report() == other.names.report()
    assert set(plain.faults()) == set(other.faults())
    assert plain.vrfs == other.vrfs


def test_what_is_put_reaches_every_part_of_a_world() -> None:
    world = WorldBuilder(HOST, FwdMode.ROUTING, VRFS)
    for step in STEPS:
        step(world)
    vxlan, vlan = (world.take(bridge)[0] for bridge in Bridge)
    assert vxlan.local
    assert vxlan.services.keys() >= {"web:default", "shop/web"}
    assert vxlan.policy_subjects
    assert vxlan.rules
    assert vxlan.management
    assert vlan.remote
    assert vlan.peer_macs
    assert world.faults(), "an endpoint has the address of a host"
