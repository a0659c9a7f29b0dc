"""Both networks of both forwarding modes: pods reach each other, unless a policy denies it."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.hosts import Host
from tests.bed.netns import http_request
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.planes import FWD_MODES, NETWORKS, add_rules, addresses, planes
from tests.system.traffic import blocked, connects

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

RULES = {
    "1": ["--action=deny", "--protocol=tcp", "--priority=1"],
    "2": ["--action=allow", "--protocol=tcp", "--port=80", "--priority=10"],
    "3": ["--action=deny", "--protocol=icmp", "--priority=1"],
}


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode, with a network of either encapsulation."""
    with planes(next(bed_dirs), request.param) as bed:
        yield bed


@pytest.fixture(autouse=True)
def no_pods_left(bed: Bed) -> Iterator[None]:
    """Delete the pods of each test."""
    yield
    for pod in list(bed.pods):
        bed.delete_pod(pod)


def three(bed: Bed, network: str, group: str = "") -> tuple[Pod, Pod, Pod]:
    """Run two pods on the first host and one on the second."""
    here, there = bed.hosts
    return (
        bed.add_pod(here, "a", network=network),
        bed.add_pod(here, "b", network=network, group=group),
        bed.add_pod(there, "c", network=network, group=group),
    )


@pytest.mark.parametrize("network", list(NETWORKS))
def test_pods_reach_each_other(bed: Bed, network: str) -> None:
    pods = three(bed, network)
    for source in pods:
        for target in pods:
            if source is not target:
                for address in addresses(target):
                    ping = partial(source.ping, address)
                    eventually(ping, f"{source.name} reaches {target.name} at {address}")


def announcements(host: Host, side: str) -> int:
    url = f"http://127.0.0.1:{AGENT_PORT}/inspect/driver"
    _, body = http_request(url, namespace=host.namespace)
    return int(json.loads(body)[side]["Stats"].get("GarpPktSent", 0))


def test_pods_of_bridged_vlan_networks_alone_are_announced(bed: Bed) -> None:
    host = bed.hosts[0]
    before = announcements(host, "vlan")
    for network in NETWORKS:
        bed.add_pod(host, f"on-{network}", network=network)
    if bed.fwd_mode == "bridge":
        eventually(lambda: announcements(host, "vlan") > before, "an announcement")
    else:
        assert announcements(host, "vlan") == 0
    assert announcements(host, "vxlan") == 0


@pytest.mark.parametrize("network", list(NETWORKS))
def test_policies_hold(bed: Bed, network: str) -> None:
    """Into the group: of TCP connections those to port 80, no ICMP; IPv4 and IPv6 alike."""
    policy = f"guard-{network}"
    add_rules(bed, policy, RULES)
    try:
        asker, near, far = three(bed, network, group=f"web-{network}")
        for target in (near, far):
            for address in addresses(target):
                assert connects(asker, target, address, 80)
                assert blocked(asker, target, address, 81)
                assert not asker.ping(address)
        for address in addresses(asker):
            assert connects(far, asker, address, 81), "nothing is denied out of the group"
    finally:
        for number in RULES:
            bed.netctl("policy", "rule-rm", policy, number)
