"""Both networks of both forwarding modes: pods reach each other, unless a policy denies it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.hosts import Host
from tests.bed.netns import Namespace, fresh_name, http_request
from tests.bed.ovs import OvsHost
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.planes import FAMILIES, FWD_MODES, NETWORKS, add_rules, addresses, applied, planes
from tests.system.traffic import blocked, connects

pytestmark = [
    pytest.mark.system,
    pytest.mark.usefixtures("no_pods_left"),
]

RULES = {
    "1": ["--action=deny", "--protocol=tcp", "--priority=1"],
    "2": ["--action=allow", "--protocol=tcp", "--port=80", "--priority=10"],
    "3": ["--action=deny", "--protocol=icmp", "--priority=1"],
}


@pytest.fixture(scope="module", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    """Say of which addresses the networks are."""
    return str(request.param)


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path], family: str) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode, with a network of either encapsulation."""
    with planes(next(bed_dirs), request.param, family=family) as bed:
        yield bed


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


ADDRESS_COMES_AGAIN = pytest.mark.parametrize("family", ["v4", "dual"], indirect=True)
"""Of IPv4 the lowest free one is given; those of IPv6 are given in turn."""


@ADDRESS_COMES_AGAIN
def test_a_pod_is_reached_at_an_address_that_another_hosts_pod_had(bed: Bed) -> None:
    """At once, although its switch has learned its MAC behind the uplink and it says nothing."""
    peers = [bed.add_pod(host, f"peer-{host.label}", network="vlan") for host in bed.hosts]
    pod, home = bed.add_pod(bed.hosts[0], "pod0", network="vlan"), 0
    for move in range(1, 6):
        eventually(partial(pod.ping, peers[1 - home].address), "it is heard on the other host")
        bed.delete_pod(pod)
        home, address = 1 - home, pod.address
        pod = bed.add_pod(bed.hosts[home], f"pod{move}", network="vlan")
        assert pod.address == address
        # the ADD waits for its own host alone (`test_a_pod_is_reached_from_hosts_with_its_record`)
        applied(bed)
        assert peers[1 - home].loses_nothing_to(address), f"move {move}"


@ADDRESS_COMES_AGAIN
def test_a_pod_is_reached_from_hosts_with_its_record(bed: Bed) -> None:
    """One that is late drops what is sent to the pod, and needs no second try once it has it."""
    late, other = bed.hosts
    peer, before = (bed.add_pod(late, name, network="vlan") for name in ("peer", "before"))
    bed.delete_pod(before)
    applied(bed)
    bed.agents[0].pause()
    try:
        pod = bed.add_pod(other, "pod", network="vlan")
        assert pod.address == before.address
        assert not peer.ping(pod.address)
    finally:
        bed.agents[0].resume()
    applied(bed)
    assert peer.loses_nothing_to(pod.address)


@contextmanager
def gateway_outside(bed: Bed) -> Iterator[str]:
    """Have the vlan network's gateway on the physical VLAN; give its MAC address.

    An Open vSwitch gives the tag, since not every kernel has VLANs.
    """
    _, four, _, six, _ = NETWORKS["vlan"]
    router = Namespace(fresh_name("router")).create()
    ovs = OvsHost(router, bed.dir / "router")
    try:
        bed.fabric.join(router, "prouter", switch="phys")
        ovs.start()
        ovs.vsctl(
            *("add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"),
            *("--", "add-port", "br0", "eth0", "--", "add-port", "br0", "gw", "tag=61"),
            *("--", "set", "interface", "gw", "type=internal"),
        )
        router.run(["ip", "address", "add", f"{four}/24", "dev", "gw"])
        router.run(["ip", "address", "add", f"{six}/64", "dev", "gw", "nodad"])
        router.run(["ip", "link", "set", "gw", "up"])
        yield json.loads(router.run(["ip", "-json", "link", "show", "gw"]).stdout)[0]["address"]
    finally:
        ovs.kill()
        router.delete()


def told(pod: Pod, address: str) -> str:
    """Have a pod ask for an address; return the MAC address it has been told, if any."""
    pod.ping(address)
    command = ["ip", "-json", "neigh", "show", address]
    known = json.loads(pod.namespace.run(command).stdout)
    return str(known[0].get("lladdr", "")) if known else ""


def test_whose_the_gateway_is(bed: Bed, family: str) -> None:
    """Of a bridged vlan network it is somebody's outside; where we route, it is the host's."""
    _, four, _, six, _ = NETWORKS["vlan"]
    gateways = {"v4": (four,), "dual": (four, six), "v6": (six,)}[family]
    with gateway_outside(bed) as outside:
        for host in bed.hosts:
            pod = bed.add_pod(host, f"on-{host.label}", network="vlan")
            for address in gateways:
                wanted = outside if bed.fwd_mode == "bridge" else ROUTER_MAC
                eventually(lambda p=pod, a=address, w=wanted: told(p, a) == w, address)  # type: ignore[misc]
                if bed.fwd_mode == "bridge":
                    eventually(partial(pod.ping, address), f"{address} is reached")


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
