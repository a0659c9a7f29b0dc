"""What tests of truth table share."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from itertools import permutations

from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.model import policy_oracle as oracle
from tests.model.policy_cases import Case
from tests.system.planes import NETWORKS, addresses, applied
from tests.system.rest import ask
from tests.system.ways import Family, Verdicts, Way

BRIDGES = {"vxlan": Bridge.VXLAN, "vlan": Bridge.VLAN}


GROUPS = ("web", "db", "cache")
"""The first and the last have the policy that is tried, and share the flows of its rules."""


ASKED, OTHER = 80, 81


CLIENT_PORT = 40000


RULE_PATH = "/api/v1/rules/default:guard-{network}:{name}/"


def add_pods(bed: Bed, network: str) -> dict[str, Pod]:
    """Run a pod of each group on each host, named by both; the first group is there already."""
    bed.netctl("group", "create", network, f"db-{network}")
    bed.netctl("group", "create", "-p", f"guard-{network}", network, f"cache-{network}")
    pods = {
        f"{group}{host.label[1:]}": bed.add_pod(
            host, f"{group}{host.label[1:]}", network=network, group=f"{group}-{network}"
        )
        for host in bed.hosts
        for group in GROUPS
    }
    applied(bed)
    return pods


def post(bed: Bed, network: str, rules: tuple[oracle.UserRule, ...], *, log: bool = False) -> float:
    """Post rules; return how long it took until every host had applied them."""
    began = time.monotonic()
    for rule in rules:
        end = "from" if rule.direction == "in" else "to"
        body = {
            "tenantName": "default",
            "policyName": f"guard-{network}",
            "ruleId": rule.name,
            "direction": rule.direction,
            "action": rule.action,
            "priority": rule.priority,
            "protocol": rule.protocol,
            "port": rule.port,
            f"{end}EndpointGroup": f"{rule.group}-{network}" if rule.group else "",
            f"{end}Network": rule.network,
            f"{end}IpAddress": rule.address,
            **({"log": True} if log else {}),
        }
        path = RULE_PATH.format(network=network, name=rule.name)
        answer = ask(bed, "POST", path, body)
        assert answer.status == 200, answer.text
    applied(bed)
    return time.monotonic() - began


def expected(
    case: Case, network: str, rules: tuple[oracle.UserRule, ...], pods: dict[str, Pod]
) -> Verdicts:
    """Ask the oracle about the ways that have a pod of the policy's groups at an end."""
    subnet, _, subnet6, _, _ = NETWORKS[network]
    there = oracle.Subnet(IPv4Network(subnet), IPv6Network(subnet6))
    cluster = oracle.PolicyCluster(
        policies={"web": ("p1",), "db": (), "cache": ("p1",)},
        networks={network: there},
        rules=rules,
    )
    family: Family = 4 if case.family == "ipv4" else 6
    ends = {name: _end(name, pod) for name, pod in pods.items()}
    return {
        way: all(
            oracle.outcome(cluster, ends[sender], ends[receiver], talk) is oracle.Outcome.ALLOWED
            for sender, receiver, talk in exchange(way, family)
        )
        for way in ways(pods)
    }


def ways(pods: Iterable[str]) -> Iterator[Way]:
    """Yield the ways with a pod of `web` at an end, or the first of `cache`; for ICMP, `web1`."""
    for source, target in permutations(pods, 2):
        if "web" in {source[:-1], target[:-1]} or "cache1" in {source, target}:
            for port in (ASKED, OTHER):
                yield Way(source, target, "tcp", port)
                yield Way(source, target, "udp", port)
        if "web1" in {source, target}:
            yield Way(source, target, "icmp")


def exchange(way: Way, family: Family) -> Iterator[tuple[str, str, oracle.Talk]]:
    """Yield the packets that have to pass for a way to be found open."""
    there = oracle.Talk(
        family=family,
        protocol=way.protocol,
        source_port=CLIENT_PORT if way.port else 0,
        destination_port=way.port,
        flags=oracle.SYN if way.protocol == "tcp" else 0,
    )
    yield way.source, way.target, there
    if way.protocol != "udp":
        answer = replace(
            there,
            source_port=there.destination_port,
            destination_port=there.source_port,
            flags=there.flags and oracle.SYN | oracle.ACK,
        )
        yield way.target, way.source, answer


def _end(name: str, pod: Pod) -> oracle.Pod:
    four, six = addresses(pod)
    return oracle.Pod(name[:-1], IPv4Address(four), IPv6Address(six))
