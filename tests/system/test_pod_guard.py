"""From a pod no management port is reached: of no host, no master and no store, in any mode.

The same scan reaches such ports where the agent runs without the guard: else a way that is closed
anyhow would pass for a guard.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.hosts import UPLINK, Host
from tests.bed.netns import Namespace
from tests.bed.physical import OUTSIDE
from tests.bed.waiting import eventually
from tests.system.echoes import reaches
from tests.system.joined import OUTSIDE6, address6
from tests.system.planes import FWD_MODES, NETWORKS, planes
from tests.system.scans import register_master, scanning, unguarded

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.thorough]

INFRA, BARE = "contivh1", "bare"
VICTIM_PORT = 5555
FORGED = 1000


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts that forward packets; VLAN 61 has a router."""
    flags = {"netplugin": ["--audit-interval", "2"]}
    with planes(next(bed_dirs), request.param, flags=flags, cards=[UPLINK]) as bed:
        for host in bed.hosts:
            forwards = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"]
            host.namespace.run(["sysctl", "-q", "-w", *forwards])
        for address, (namespace, link) in places6(bed).items():
            namespace.run(["ip", "address", "add", f"{address}/64", "dev", link, "nodad"])
        bed.netctl("net", "create", "--subnet=10.70.0.0/24", "--encap=vxlan", BARE)
        infra = ["--subnet=10.80.0.0/24", "--gateway=10.80.0.254", "--nw-type=infra"]
        bed.netctl("net", "create", *infra, INFRA)
        bed.physical.route({61: [f"{NETWORKS['vlan'][1]}/24"]})
        register_master(bed, OUTSIDE)
        for host, address in product(bed.hosts, places6(bed)):
            # the record of a host follows its addresses, that of a master looks now and then
            eventually(partial(knows, host, address), f"{host.label} knows of {address}")
        yield bed


def places6(bed: Bed) -> dict[str, tuple[Namespace, str]]:
    """Return the addresses of IPv6 of the master and the hosts, each with its link."""
    here, there = bed.hosts
    return {
        OUTSIDE6: (bed.fabric.namespace, "sw"),
        address6(here): (here.namespace, "br-phy"),
        address6(there): (there.namespace, "br-phy"),
    }


def knows(host: Host, address: str) -> bool:
    """Say whether the switch of a host marks an address as one of the management."""
    return f"ipv6_dst={address} " in host.ovs.ofctl("dump-flows", Bridge.VXLAN.value, "table=4")


def infra_address(host: Host) -> str:
    """Return the host's address on the infra network, once it has one."""

    def held() -> str:
        done = host.namespace.run(["ip", "-json", "-4", "addr", "show", INFRA], check=False)
        found = json.loads(done.stdout or "[]")
        return next((a["local"] for link in found for a in link.get("addr_info", ())), "")

    return eventually(held, f"{host.label} has an address on {INFRA}")


@pytest.mark.parametrize("network", ["vxlan", "vlan", BARE, INFRA])
def test_no_management_port_is_reached(bed: Bed, network: str) -> None:
    """The finding of docs/notes/trust.md §2."""
    here, there = bed.hosts
    places = {
        bed.fabric.address: bed.fabric.namespace,
        here.address: here.namespace,
        there.address: there.namespace,
        infra_address(here): here.namespace,
        infra_address(there): there.namespace,
    }
    places |= {address: namespace for address, (namespace, _) in places6(bed).items()}
    if network == "vlan":
        places[OUTSIDE] = bed.physical.outside
    pod = bed.add_pod(here, f"on-{network}", network=network)
    try:
        ways = ways_of(bed.fwd_mode, network, places)
        for address in ways:
            eventually(partial(reaches, pod.namespace, address), f"{network} reaches {address}")
        with scanning(pod, places) as scan:
            assert scan.reached(*places) == set()
            if not ways:
                return
            with unguarded(bed):
                open_ports = scan.reached(*places)
                for address in ways:
                    assert f"tcp {address} 9090" in open_ports, address
                    assert f"udp {address} 9090" in open_ports, address
            assert scan.reached(*places) == set()
    finally:
        bed.delete_pod(pod)


def ways_of(fwd_mode: str, network: str, places: Mapping[str, Namespace]) -> list[str]:
    """Return the addresses that pods of a network reach, if not at management ports."""
    fabric, here, there, infra_here, infra_there, *six = places
    if network == BARE:
        return [fabric, here, there]
    if network == INFRA:
        more = [fabric, here, there] if fwd_mode == "routing" else []
        return [infra_here, infra_there, *more]
    if (fwd_mode, network) == ("bridge", "vlan"):
        return [OUTSIDE]
    if (fwd_mode, network) == ("routing", "vxlan"):
        return [fabric, here, there, infra_here, infra_there, *six]
    return []
