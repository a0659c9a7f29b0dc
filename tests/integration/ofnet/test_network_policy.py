"""Policies of Kubernetes on a real Open vSwitch: first packets pass as the oracle says.

Random ones, all of the truth table, and the conformance questions of administrators' policies.
"""

import re
from collections.abc import Iterable
from random import Random

import pytest

from ofnet.trace.evaluator import PacketFields
from ofnet.trace.switch import text
from ofnet.world import Bridge
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.network_policy import Sent, numbered, packet, sendable, world_of
from tests.integration.ofnet.switch_flows import flows_of
from tests.integration.ofnet.trace import TracedBridge
from tests.unit.netplugin.world.kubernetes.admin_cases import (
    NODE,
    STEPS,
    address,
    cluster_of,
)
from tests.unit.netplugin.world.kubernetes.cases import CASES
from tests.unit.netplugin.world.kubernetes.oracle import KubeCluster, allowed
from tests.unit.netplugin.world.kubernetes.random_policies import random_cluster
from tests.unit.netplugin.world.kubernetes.world import (
    OUTSIDE,
    cluster,
    policies_of,
)

pytestmark = pytest.mark.ovs

SEEDS = range(25)
PACKETS = 24
"""Packets of each random set of policies."""
FEW = 2
"""Packets of each case of the truth table that pass, and as many that do not."""


NUMBERS = range(1, 12)


@pytest.fixture(scope="module")
def bridge(ovs_module: OvsHost) -> TracedBridge:
    return TracedBridge(ovs_module, "judged", NUMBERS)


def passes(bridge: TracedBridge, one: PacketFields) -> bool:
    """Return whether a first packet leaves the bridge; each trip through a zone is a trace."""
    answer = bridge.ask("ofproto/trace", bridge.name, text(one))
    done: list[str] = re.findall(r"^Datapath actions: (.*)$", answer, re.MULTILINE)
    return done[-1] != "drop"


def wrong(bridge: TracedBridge, known: KubeCluster, sent: Iterable[Sent]) -> list[Sent]:
    """Install a cluster's policies; return the packets that the switch judges otherwise."""
    bridge.install(flows_of(Bridge.VXLAN, world_of(known, policies_of(known))))
    ports = numbered(known)
    return [
        one for one in sent if passes(bridge, packet(ports[one[0]], *one)) != allowed(known, *one)
    ]


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
