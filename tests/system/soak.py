"""Random policies on real packets under load: what passes is what the oracle says, for long.

Run by `make soak`, not by `make test`. SOAK_ROUNDS sets of rules are tried in each forwarding mode
and on each network, by SOAK_SEED; the probes and the wrong ones are printed.
"""

import os
import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import repeating
from tests.model import policy_oracle as oracle
from tests.system import truth_table as table
from tests.system.planes import FWD_MODES, NETWORKS, addresses, planes
from tests.system.rest import ask
from tests.system.shouting import Mouth
from tests.system.ways import Family, Verdicts, Ways

pytestmark = [pytest.mark.system, pytest.mark.timeout(7200)]

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "20"))
SEED = os.environ.get("SOAK_SEED", "1")
PORTS = (table.ASKED, table.OTHER)
PACE = 0.02


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of three hosts in a forwarding mode."""
    with planes(next(bed_dirs), request.param, hosts=3) as bed:
        yield bed


@pytest.mark.parametrize("network", list(NETWORKS))
def test_random_policies_under_load(bed: Bed, network: str) -> None:
    choices = random.Random(f"{SEED} {bed.fwd_mode} {network}")
    pods = table.add_pods(bed, network)
    probes, wrong = 0, []
    with load(pods):
        for number in range(ROUNDS):
            rules = random_rules(choices, network, pods)
            table.post(bed, network, rules)
            for family in (4, 6):
                verdicts = expected(network, rules, pods, family)
                probes += len(verdicts)
                found = Ways(pods, family).wrong(verdicts)
                wrong += [f"round {number}, IPv{family}: {line}: {rules}" for line in found]
            for rule in rules:
                path = table.RULE_PATH.format(network=network, name=rule.name)
                assert ask(bed, "DELETE", path).status == 200
    for pod in pods.values():
        bed.delete_pod(pod)
    print(f"{bed.fwd_mode}, {network}, seed {SEED}: {probes} probes, {len(wrong)} wrong")  # noqa: T201 - the result
    assert wrong == []


def random_rules(
    choices: random.Random, network: str, pods: Mapping[str, Pod]
) -> tuple[oracle.UserRule, ...]:
    """Return one to five rules, of different priorities, at least one of them for UDP."""
    count = choices.randint(1, 5)
    priorities = choices.sample(range(1, 100), count)
    rules = []
    for number, priority in enumerate(priorities):
        protocol = choices.choice(("", "tcp", "udp", "icmp")) if number else "udp"
        ends: list[dict[str, str]] = [
            {},
            {"group": choices.choice(("db", "cache"))},
            {"network": network},
            {"address": pods[choices.choice(("db2", "cache1", "db3"))].address},
        ]
        rules.append(
            oracle.UserRule(
                name=str(number),
                direction=choices.choice(("in", "out")),
                action=choices.choice(("allow", "deny")),
                priority=priority,
                protocol=protocol,
                port=choices.choice((0, *PORTS)) if protocol in {"tcp", "udp"} else 0,
                audit=not choices.randrange(4),
                **choices.choice(ends),
            )
        )
    return tuple(rules)


def expected(
    network: str, rules: tuple[oracle.UserRule, ...], pods: dict[str, Pod], family: Family
) -> Verdicts:
    """Ask the oracle about every way that has a pod of the policy's group at an end."""
    subnet, _, subnet6, _, _ = NETWORKS[network]
    there = oracle.Subnet(IPv4Network(subnet), IPv6Network(subnet6))
    cluster = oracle.PolicyCluster(
        policies={"web": ("p1",), "db": (), "cache": ()}, networks={network: there}, rules=rules
    )
    ends = {name: table._end(name, pod) for name, pod in pods.items()}
    return {
        way: all(
            oracle.outcome(cluster, ends[sender], ends[receiver], talk) is oracle.Outcome.ALLOWED
            for sender, receiver, talk in table.exchange(way, family)
        )
        for way in table.ways(pods)
    }


@contextmanager
def load(pods: Mapping[str, Pod]) -> Iterator[None]:
    """Send datagrams on all ways all the while, so that no megaflow ends for want of packets."""
    with ExitStack() as stack:
        mouths = [
            stack.enter_context(Mouth(pod, [address], PORTS))
            for name, pod in pods.items()
            for other, target in pods.items()
            if other != name
            for address in addresses(target)
        ]

        def send() -> None:
            for mouth in mouths:
                mouth.say()

        with repeating(send, PACE):
            yield
