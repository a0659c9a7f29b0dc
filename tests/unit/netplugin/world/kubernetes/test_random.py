"""Random sets of policies: entries and oracle agree, whatever came first."""

from itertools import chain
from random import Random

import pytest

from netplugin.world.kubernetes.policy_objects import (
    ADMIN_POLICIES,
    BASELINE_POLICIES,
    NETWORK_POLICIES,
)
from tests.unit.netplugin.world.kubernetes.random_policies import (
    admin_policy,
    network_policy,
    random_cluster,
)
from tests.unit.netplugin.world.kubernetes.world import cluster, disagreements, policies_of


@pytest.mark.parametrize("seed", range(200))
def test_entries_and_oracle_agree(seed: int) -> None:
    known = random_cluster(seed)
    assert disagreements(known, policies_of(known)) == []


def test_the_order_of_arrival_does_not_matter() -> None:
    chance = Random(1)
    known = cluster()
    known.policies = [network_policy(chance, number) for number in range(8)]
    known.admin = [admin_policy(chance, f"admin-{one}", one) for one in range(4)]
    expected = policies_of(known)
    for _ in range(20):
        made = policies_of(cluster())
        puts = list(
            chain(
                ((NETWORK_POLICIES, one) for one in known.policies),
                ((ADMIN_POLICIES, one) for one in known.admin),
            )
        )
        extra = admin_policy(chance, "passing", 2)
        puts.append((ADMIN_POLICIES, extra))
        puts.append((BASELINE_POLICIES, admin_policy(chance, "default", None)))
        chance.shuffle(puts)
        for resource, one in puts:
            made.put(resource, one)
        made.remove(ADMIN_POLICIES, "passing")
        made.remove(BASELINE_POLICIES, "default")
        assert made.entries == expected.entries
        assert made.subjects == expected.subjects
