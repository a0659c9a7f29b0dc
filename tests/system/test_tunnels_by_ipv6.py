"""Clusters whose machines have IPv6 alone: tunnels with IPv6 outside and both families inside."""

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from ofnet.world import tunnel_source4, tunnel_source6
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials, reaches
from tests.system.planes import FWD_MODES, NETWORKS, addresses, applied, planes
from tests.system.preflight import preflight
from tests.system.rest import ask
from tests.system.services import lead_to_both_hosts

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.system,
    pytest.mark.ovs,
    pytest.mark.usefixtures("no_pods_left"),
]

UNDERLAY_MTU, OVERHEAD = 1500, 70
HEADERS = {4: 28, 6: 48}
"""Bytes of IP and ICMP around what an echo request carries."""


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode; a network `six` has IPv6 alone."""
    with planes(next(bed_dirs), request.param, six=True) as bed:
        bed.netctl("net", "create", "--subnetv6=fd00:62::/64", "--gatewayv6=fd00:62::1", "six")
        yield bed


def sources(host: Host) -> tuple[str, str]:
    """Return the addresses under which a host connects to other hosts' pods."""
    four = tunnel_source4(IPv6Address(host.address))
    return str(four), str(tunnel_source6(four))


def test_no_machine_has_ipv4(bed: Bed) -> None:
    for namespace in (bed.fabric.namespace, *(host.namespace for host in bed.hosts)):
        shown = namespace.run(["ip", "-4", "-o", "address", "show", "scope", "global"]).stdout
        links = {line.split()[1] for line in shown.splitlines()}
        assert links <= {"contivh0"}
    shown_hosts = {one["label"]: one for one in ask(bed, "GET", "/hosts").json()}
    assert {label: one["vtepIP"] for label, one in shown_hosts.items()} == {
        host.label: host.address for host in bed.hosts
    }
    assert all(host.address in bed.netctl("host", "ls") for host in bed.hosts)


def test_pods_of_two_hosts_reach_each_other_by_both_families(bed: Bed) -> None:
    here, there = bed.hosts
    for network in (*NETWORKS, "six"):
        one = bed.add_pod(here, f"one-{network}", network=network)
        two = bed.add_pod(there, f"two-{network}", network=network)
        for address in addresses(two):
            eventually(partial(one.ping, address), f"{address} of {network} is reached")
            with answering(two.namespace, address, 80) as callers:
                assert dials(one.namespace, address, 80)
            assert set(callers) <= {*addresses(one)}
    applied(bed)
    assert not [one for host in ask(bed, "GET", "/hosts").json() for one in host["errors"]]


def test_the_largest_packets_pass_and_are_not_fragmented(bed: Bed) -> None:
    here, there = bed.hosts
    one = bed.add_pod(here, "one", network="vxlan")
    two = bed.add_pod(there, "two", network="vxlan")
    for address in addresses(two):
        eventually(partial(one.ping, address), f"{address} is reached")
        size = UNDERLAY_MTU - OVERHEAD - HEADERS[6 if ":" in address else 4]
        ping = ["ping", "-q", "-n", "-c2", "-i0.2", "-W5", "-M", "do"]
        for length, status in ((size, 0), (size + 1, 1)):
            done = one.namespace.run([*ping, "-s", str(length), address], check=False)
            assert done.returncode == status, done.stdout


@pytest.mark.parametrize("network", ["vxlan", "six"])
def test_a_service_leads_to_pods_of_both_hosts(bed: Bed, network: str) -> None:
    lead_to_both_hosts(bed, network)


def test_a_host_reaches_pods_of_both_hosts_by_both_families(bed: Bed) -> None:
    here, there = bed.hosts
    near = bed.add_pod(here, "near", network="vxlan")
    far = bed.add_pod(there, "far", network="vxlan")
    for address in (*addresses(near), *addresses(far)):
        eventually(partial(reaches, here.namespace, address), f"{here.label} reaches {address}")
    for address, source in zip(addresses(far), sources(here), strict=True):
        with answering(far.namespace, address, 80) as callers:
            assert dials(here.namespace, address, 80)
        assert callers == [source]


def test_preflight_finds_nothing_amiss(bed: Bed) -> None:
    status, lines = preflight(bed, number=1)
    assert status == 0, lines
    assert f"tunnels from {bed.hosts[1].address}, pods' MTU 1430" in lines["links"]
    assert "1 other hosts, pods' packets of 1430 bytes" in lines["paths"]
    named = preflight(bed, "--vtep-ip", "::1", number=1)[1]
    assert "::1 is on lo, which is no bridge" in named["datapath"]


def test_a_host_without_the_family_is_an_error_that_names_it(bed: Bed) -> None:
    """With addresses of both, tunnels to it are by the one that the other has."""
    here, there = bed.hosts
    one = bed.add_pod(here, "one", network="vxlan")
    two = bed.add_pod(there, "two", network="vxlan")
    agent = bed.agents[1]
    for host, four in ((here, "192.168.77.1"), (there, "192.168.77.2")):
        host.namespace.run(["ip", "address", "add", f"{four}/24", "dev", "br-phy"])
    given = next(at for at, word in enumerate(agent.command) if word == "--vtep-ip") + 1
    try:
        agent.command[given] = "192.168.77.2"
        agent.kill()
        agent.start()
        for host, other in ((here, there), (there, here)):
            eventually(
                lambda h=host, o=other: f"no tunnel to {o.label}: one of the two" in errors(bed, h),  # type: ignore[misc]
                f"{host.label} names {other.label}",
            )
        assert not one.ping(two.address)
        agent.command[given] = f"192.168.77.2,{there.address}"
        agent.kill()
        agent.start()
        for address in addresses(two):
            eventually(partial(one.ping, address), f"{address} is reached again")
        (shown,) = (o for o in ask(bed, "GET", "/hosts").json() if o["label"] == there.label)
        assert (shown["vtepIP"], shown["vtepIP6"]) == ("192.168.77.2", there.address)
        assert f"192.168.77.2,{there.address}" in bed.netctl("host", "ls")
        for address in addresses(one):
            eventually(partial(reaches, there.namespace, address), f"its host reaches {address}")
        applied(bed)
        eventually(lambda: not errors(bed, here) and not errors(bed, there), "no error is left")
    finally:
        agent.command[given] = there.address
        agent.kill()
        agent.start()


def errors(bed: Bed, host: Host) -> str:
    shown = {one["label"]: one["errors"] for one in ask(bed, "GET", "/hosts").json()}
    return "; ".join(shown[host.label])
