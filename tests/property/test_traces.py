"""Traces of pods that policies of Kubernetes select: they say what the policies mean.

Rules of groups are held against their oracle by `test_policies`, on the same model of a switch.
"""

from random import Random

import pytest

from ofnet.changes import EVERYTHING, ObjectKind
from ofnet.desired import Desired
from ofnet.tables import TableId
from ofnet.trace.journey import follow
from ofnet.world import Bridge
from tests.integration.ofnet.network_policy import numbered, packet, sendable, world_of
from tests.unit.netplugin.world.kubernetes.cases import CASES
from tests.unit.netplugin.world.kubernetes.oracle import KubeCluster, allowed
from tests.unit.netplugin.world.kubernetes.random_policies import random_cluster
from tests.unit.netplugin.world.kubernetes.world import cluster, policies_of

PACKETS = 30
"""Packets of each set of policies."""


def wrong(known: KubeCluster, seed: int | str) -> list[str]:
    """Return the packets of which a trace says something else than the oracle."""
    world, ports = world_of(known, policies_of(known)), numbered(known)
    desired = Desired(Bridge.VXLAN)
    desired.update(world, EVERYTHING)
    flows = tuple(desired.flows.values())
    found = []
    every = sendable(known)
    for sent in Random(seed).sample(every, min(PACKETS, len(every))):
        journey = follow(flows, world, [packet(ports[sent[0]], *sent)])
        if bool(journey.exits) != allowed(known, *sent):
            found.append(f"{sent}: {journey.exits}")
        last = journey.path[-1].flow
        if not journey.exits and last is not None and last.table > TableId.KUBE_POLICY:
            owner = desired.owner(last.key)
            assert owner is not None
            assert owner.kind is ObjectKind.POLICY_ENTRY
    return found


@pytest.mark.parametrize("seed", range(40))
def test_random_policies(seed: int) -> None:
    assert wrong(random_cluster(seed), seed) == []


@pytest.mark.parametrize("name", CASES)
def test_the_truth_table(name: str) -> None:
    known = cluster()
    known.policies = CASES[name]
    assert wrong(known, name) == []
