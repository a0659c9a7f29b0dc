"""Policies of Kubernetes on a real Open vSwitch: first packets pass as the oracle says.

Random ones, all of the truth table, and the conformance questions of administrators' policies.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from random import Random

import pytest

from core.ids import EndpointKey, NetworkId
from netplugin.world.kube_policies.objects import PROTOCOLS
from netplugin.world.kube_policies.policies import KubePolicies
from ofnet.openflow import oxm
from ofnet.pipelines.stages import ROUTER_MAC
from ofnet.trace.evaluator import Packet, Value
from ofnet.trace.switch import text
from ofnet.world import Bridge, LocalEndpoint, World
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.test_trace import flows_of
from tests.integration.ofnet.trace import TracedBridge
from tests.unit.netplugin.world.kube_policies.admin_cases import (
    NODE,
    STEPS,
    address,
    cluster_of,
)
from tests.unit.netplugin.world.kube_policies.cases import CASES
from tests.unit.netplugin.world.kube_policies.oracle import Cluster, Pod, allowed
from tests.unit.netplugin.world.kube_policies.random_policies import random_cluster
from tests.unit.netplugin.world.kube_policies.world import (
    OUTSIDE,
    OUTSIDE6,
    cluster,
    packets,
    policies_of,
)
from tests.unit.ofnet.worlds import HOST_PORT, NET, network, world

pytestmark = pytest.mark.ovs

SEEDS = range(25)
PACKETS = 24
"""Packets of each random set of policies."""
FEW = 2
"""Packets of each case of the truth table that pass, and as many that do not."""

Sent = tuple[str, str, str, int]
"""Source, target, protocol and port of a connection's first packet."""

NUMBERS = range(1, 12)
FIELDS = {
    "TCP": ("tcp_src", "tcp_dst"),
    "UDP": ("udp_src", "udp_dst"),
    "SCTP": ("sctp_src", "sctp_dst"),
}


@pytest.fixture(scope="module")
def bridge(ovs_module: OvsHost) -> TracedBridge:
    return TracedBridge(ovs_module, "judged", NUMBERS)


def mac(number: int) -> str:
    return f"02:02:0a:01:00:{number:02x}"


def endpoint(number: int, pod: Pod) -> LocalEndpoint:
    return LocalEndpoint(
        key=EndpointKey(f"{NET}-{pod.namespace}-{pod.name}"),
        network=NetworkId(NET),
        ofport=number,
        mac=mac(number),
        ip=IPv4Address(pod.address),
        ip6=IPv6Address(pod.address6),
        nat_ip=IPv4Address("172.19.0.0") + number,
    )


def numbered(cluster: Cluster) -> dict[str, int]:
    """Return the port of each pod by its addresses; 1 is the host's."""
    pods = list(enumerate(cluster.pods.values(), start=2))
    return {at: number for number, pod in pods for at in (pod.address, pod.address6)}


def world_of(cluster: Cluster, policies: KubePolicies) -> World:
    ports = numbered(cluster)
    here = tuple(endpoint(ports[pod.address], pod) for pod in cluster.pods.values())
    return replace(
        world(here=here),
        networks={NET: network()},
        host_port=HOST_PORT,
        policy_entries=policies.entries,
        policy_subjects=policies.subjects,
    )


def packet(port: int, source: str, target: str, protocol: str, number: int) -> Packet:
    ends = dict(zip(FIELDS[protocol], (40000, number), strict=True))
    frame: dict[str, Value] = {"in_port": port, "eth_src": mac(port), "eth_dst": ROUTER_MAC}
    if ":" in source:
        network: dict[str, Value] = {
            "eth_type": oxm.ETH_IPV6,
            "ipv6_src": IPv6Address(source),
            "ipv6_dst": IPv6Address(target),
        }
    else:
        network = {
            "eth_type": oxm.ETH_IPV4,
            "ipv4_src": IPv4Address(source),
            "ipv4_dst": IPv4Address(target),
        }
    return Packet({**frame, **network, "ip_proto": PROTOCOLS[protocol], **ends})


def passes(bridge: TracedBridge, one: Packet) -> bool:
    """Return whether a first packet leaves the bridge; each trip through a zone is a trace."""
    answer = bridge.ask("ofproto/trace", bridge.name, text(one))
    done: list[str] = re.findall(r"^Datapath actions: (.*)$", answer, re.MULTILINE)
    return done[-1] != "drop"


def wrong(bridge: TracedBridge, known: Cluster, sent: Iterable[Sent]) -> list[Sent]:
    """Install a cluster's policies; return the packets that the switch judges otherwise."""
    bridge.install(flows_of(Bridge.VXLAN, world_of(known, policies_of(known))))
    ports = numbered(known)
    return [
        one for one in sent if passes(bridge, packet(ports[one[0]], *one)) != allowed(known, *one)
    ]


def sendable(known: Cluster) -> list[Sent]:
    """Return the packets of pods; others come from outside, and no route of IPv6 leads there."""
    ports = numbered(known)
    return [one for one in packets(known) if one[0] in ports and one[1] != OUTSIDE6]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_policies(bridge: TracedBridge, seed: int) -> None:
    known = random_cluster(seed)
    assert wrong(bridge, known, Random(seed).sample(sendable(known), PACKETS)) == []


@pytest.mark.parametrize("name", CASES)
def test_the_truth_table(bridge: TracedBridge, name: str) -> None:
    known = cluster()
    known.policies = CASES[name]
    every = sendable(known)
    Random(name).shuffle(every)
    chosen: dict[bool, list[Sent]] = {True: [], False: []}
    for one in every:
        some = chosen[allowed(known, *one)]
        if len(some) < FEW:
            some.append(one)
        if all(len(some) == FEW for some in chosen.values()):
            break
    assert wrong(bridge, known, chosen[True] + chosen[False]) == []


@pytest.mark.parametrize("name", STEPS)
def test_administrators_policies(bridge: TracedBridge, name: str) -> None:
    step = STEPS[name]
    known = cluster_of(step)
    bridge.install(flows_of(Bridge.VXLAN, world_of(known, policies_of(known))))
    ports = numbered(known)
    for check in step.checks:
        outside = {check.source, check.target} & {NODE, OUTSIDE}
        for version in (4,) if outside else (4, 6):
            ends = (address(known, end, version) for end in (check.source, check.target))
            source, target = ends
            first = packet(ports[source], source, target, check.protocol, check.port)
            assert passes(bridge, first) is check.passes, (version, check)
