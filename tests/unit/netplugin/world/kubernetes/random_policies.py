"""Random sets of policies of all three kinds, reproducible by their seed."""

from random import Random
from typing import Any

from tests.unit.netplugin.world.kubernetes.admin_cases import ADMIN, BASELINE, clustered
from tests.unit.netplugin.world.kubernetes.cases import (
    IPV6_PEERS,
    ODD_PORTS,
    PEERS,
    SINGLE_PORTS,
)
from tests.unit.netplugin.world.kubernetes.oracle import KubeCluster
from tests.unit.netplugin.world.kubernetes.world import cluster, in_ipv6, policy

NODE = "192.0.2.1"
_SELECTORS: tuple[dict[str, Any], ...] = (
    {},
    {"matchLabels": {"pod": "a"}},
    {"matchExpressions": [{"key": "pod", "operator": "NotIn", "values": ["b"]}]},
    {"matchExpressions": [{"key": "absent", "operator": "Exists"}]},
)
_SPACES: tuple[dict[str, Any], ...] = (
    {},
    {"matchLabels": {"ns": "y"}},
    {"matchExpressions": [{"key": "ns", "operator": "In", "values": ["x", "z"]}]},
)


def network_policy(chance: Random, number: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"podSelector": chance.choice(_SELECTORS)}
    for direction, key in (("ingress", "from"), ("egress", "to")):
        if chance.random() < 0.6:
            spec[direction] = [
                {
                    key: chance.sample((*PEERS, *IPV6_PEERS), chance.randint(0, 2)),
                    "ports": chance.sample((*SINGLE_PORTS, *ODD_PORTS), chance.randint(0, 2)),
                }
                for _ in range(chance.randint(0, 3))
            ]
    if chance.random() < 0.7:
        spec["policyTypes"] = chance.choice((["Ingress"], ["Egress"], ["Ingress", "Egress"]))
    return policy(f"p{number}", chance.choice("xyz"), **spec)


def _admin_end(chance: Random) -> dict[str, Any]:
    if chance.random() < 0.5:
        return {"namespaces": chance.choice(_SPACES)}
    both = {"namespaceSelector": chance.choice(_SPACES), "podSelector": chance.choice(_SELECTORS)}
    return {"pods": both}


def _admin_port(chance: Random) -> dict[str, Any]:
    protocol = chance.choice(("TCP", "UDP", "SCTP"))
    kind = chance.randrange(3)
    if kind == 0:
        return {"portNumber": {"protocol": protocol, "port": chance.choice((80, 81, 60))}}
    if kind == 1:
        return {
            "portRange": {
                "protocol": protocol,
                "start": chance.randint(50, 80),
                "end": chance.randint(80, 90),
            }
        }
    return {"namedPort": chance.choice(("serve-80-tcp", "serve-81-udp", "not-served"))}


def admin_policy(chance: Random, name: str, priority: int | None) -> dict[str, Any]:
    actions = ("Allow", "Deny") if priority is None else ("Allow", "Deny", "Pass")
    spec: dict[str, Any] = {"subject": _admin_end(chance)}
    if priority is not None:
        spec["priority"] = priority
    for direction, key in (("ingress", "from"), ("egress", "to")):
        rules = []
        for _ in range(chance.randint(0, 3)):
            peers = [_admin_end(chance) for _ in range(chance.randint(1, 2))]
            if direction == "egress" and chance.random() < 0.3:
                peers.append(
                    {"networks": ["203.0.113.0/24", "10.1.2.0/24", in_ipv6("10.1.1.0/24")]}
                )
            if direction == "egress" and chance.random() < 0.2:
                peers.append({"nodes": {"matchLabels": {"role": "edge"}}})
            ports = [_admin_port(chance) for _ in range(chance.randint(0, 2))]
            rules.append({"action": chance.choice(actions), key: peers, "ports": ports})
        spec[direction] = rules
    return {"metadata": {"name": name}, "spec": spec}


def random_cluster(seed: int) -> KubeCluster:
    """Return the cluster of the truth tables with random policies."""
    chance = Random(seed)
    known = cluster()
    known.nodes["edge"] = ({"role": "edge"}, NODE)
    known.policies = [network_policy(chance, number) for number in range(chance.randint(0, 5))]
    priorities = chance.sample(range(50), chance.randint(0, 3))
    known.admin = [admin_policy(chance, f"admin-{one}", one) for one in priorities]
    if chance.random() < 0.6:
        known.baseline = [admin_policy(chance, "default", None)]
    for priority in chance.sample(range(50, 100), chance.randint(0, 3)):
        tier = chance.choice((ADMIN, BASELINE))
        known.tiered.append(clustered(admin_policy(chance, "tiered", priority), tier))
    return known
