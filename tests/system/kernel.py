"""A cluster of two hosts on the kernel's datapath: what differs there from the userspace one.

`make kernel-check` runs it. It is no part of `make test`, whose machine may have no such datapath.
"""

from functools import partial

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import PREFIX_LENGTH, UNDERLAY
from tests.bed.ovs import DATAPATH
from tests.bed.pods import IFNAME, Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, asks, dials, echoing, reaches
from tests.system.preflight import CLOSED
from tests.system.tunnel_probes import both_tell, hears, is_well
from tests.unit.deploy.platforms import rules

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        DATAPATH != "system", reason="for the kernel's datapath (make kernel-check)"
    ),
]

BRIDGES = ("contivVxlanBridge", "contivVlanBridge")
FOUR = ["--subnet=10.30.0.0/24", "--gateway=10.30.0.1"]
SIX = ["--subnetv6=fd00:30::/64", "--gatewayv6=fd00:30::1"]
FAR_FOUR = ["--subnet=10.31.0.0/24", "--gateway=10.31.0.1"]
FAR_SIX = ["--subnetv6=fd00:31::/64", "--gatewayv6=fd00:31::1"]
TUNNELS = "udp dport 4789"
SILENT = "let UDP 4789 pass"
SHORT_ONES = "bytes do not pass the tunnel, short ones do"


def address6(pod: Pod) -> str:
    """Return the pod's IPv6 address of the network."""
    shown = pod.namespace.run(["ip", "-6", "-o", "address", "show", IFNAME, "scope", "global"])
    return shown.stdout.split()[3].partition("/")[0]


def test_pods_reach_each_other_by_both_families(bed: Bed) -> None:
    for host in bed.hosts:
        for bridge in BRIDGES:
            assert not host.ovs.has_nd_extension(bridge), "this is the kernel's datapath"
    bed.netctl("net", "create", *FOUR, *SIX, "dual")
    places = zip(bed.hosts * 2, "abcd", strict=True)
    pods = [bed.add_pod(host, name, network="dual") for host, name in places]
    for source in pods:
        for target in pods:
            for address in (target.address, address6(target)):
                eventually(lambda: source.ping(address), f"{source.name} reaches {address}")  # noqa: B023
    assert not [one for one in bed.agents if "flows refused by the switch" in one.log_text()]


def test_hosts_reach_pods_of_other_hosts(bed: Bed) -> None:
    """By its firewall each host tracks what it sends: the switch must enter it all the same."""
    bed.netctl("net", "create", *FAR_FOUR, *FAR_SIX, "far")
    pod, host = bed.add_pod(bed.hosts[0], "far", network="far"), bed.hosts[1].namespace
    for address in (pod.address, address6(pod)):
        eventually(partial(reaches, host, address), f"the other host reaches {address}")
        with answering(pod.namespace, address, 80), echoing(pod.namespace, address, 80):
            assert dials(host, address, 80)
            assert asks(host, address, 80, size=4000)


def test_tunnels_are_probed(bed: Bed) -> None:
    """Flows reflect short and long packets; what the kernel drops is an error of both hosts."""
    for one, other in ((0, 1), (1, 0)):
        eventually(partial(hears, bed, one, other), "answers to probes")
    host = bed.hosts[1].namespace
    host.run(["nft", "add", "table", "inet", "between"])
    host.run(["nft", "add chain inet between input { type filter hook input priority 0 ; }"])
    try:
        for match, told in ((TUNNELS, SILENT), (f"{TUNNELS} ip length > 1000", SHORT_ONES)):
            for number in range(2):
                eventually(partial(is_well, bed, number), "no errors")
            host.run(["nft", f"add rule inet between input {match} drop"])
            eventually(partial(both_tell, bed, told), told)
            host.run(["nft", "flush", "table", "inet", "between"])
    finally:
        host.run(["nft", "delete", "table", "inet", "between"])
    for number in range(2):
        eventually(partial(is_well, bed, number), "no errors any more")


@pytest.mark.parametrize("firewall", CLOSED)
def test_a_firewall_closes_tunnels_and_the_rules_of_the_document_open_them(
    bed: Bed, firewall: str
) -> None:
    """The host's kernel takes what comes by tunnels, so that its rules judge it."""
    here, there = (bed.add_pod(host, f"{firewall}-{host.label}") for host in bed.hosts)
    eventually(lambda: there.ping(here.address), "the way is open")
    closed = bed.hosts[0].namespace
    closed.run(["sh", "-euc", CLOSED[firewall]])
    try:
        eventually(lambda: not there.ping(here.address), "the firewall drops what tunnels bring")
        network = f"{UNDERLAY}.0/{PREFIX_LENGTH}"
        closed.run(["sh", "-euc", rules(firewall).replace("192.0.2.0/24", network)])
        eventually(lambda: there.ping(here.address), "the rules let it pass")
    finally:
        closed.run(["nft", "delete", "table", "inet", "filter"], check=False)
        closed.run(["iptables", "-w", "-P", "INPUT", "ACCEPT"])
        closed.run(["iptables", "-w", "-F", "INPUT"])
    eventually(lambda: here.ping(there.address), "the way back is open")


def test_open_vswitch_has_nothing_to_say_of_the_bridges(bed: Bed) -> None:
    """Not one line about a port that it cannot make, at no change of its configuration."""
    for host in bed.hosts:
        said = (host.ovs.rundir / "ovs-vswitchd.log").read_text().splitlines()
        assert [line for line in said if "|bridge|WARN|" in line or "|ERR|" in line] == []
