"""A cluster whose hosts' network and VLANs are joined by a router, as in a data centre.

In comes a running cluster of `tests.system.planes`; out come routes of both families between hosts,
VLANs and the outside, and the way to an external address by the first host.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bed.cluster import NO_AUDITS, Bed
from tests.bed.hosts import UNDERLAY, UPLINK, Host
from tests.system.kube_site import api_beside, api_flags
from tests.system.planes import NETWORKS, planes
from tests.system.service_ways import EXTERNAL, EXTERNAL6

ROUTER = f"{UNDERLAY}.253"
VLAN_SUBNET, VLAN_SUBNET6 = NETWORKS["vlan"][0], NETWORKS["vlan"][2]
PODS_FIRST = ("--pod-prefixes", f"{VLAN_SUBNET},{VLAN_SUBNET6}")
"""Of agents: the hosts' own routes to the physical network lead to their own pods there as well."""
UNDERLAY6 = "fd77::"
ROUTER6, OUTSIDE6 = f"{UNDERLAY6}253", f"{UNDERLAY6}fe"


@contextmanager
def joined_site(
    directory: Path,
    fwd_mode: str,
    factory: pytest.TempPathFactory,
    *,
    family: str = "dual",
    more: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> Iterator[Bed]:
    """Run a cluster of two hosts beside an API server, and a router between all networks.

    Agents have `more` flags, the API `groups` besides.
    """
    flags = {"netplugin": [*api_flags(factory), *NO_AUDITS, *PODS_FIRST, *more]}
    with planes(directory, fwd_mode, family=family, flags=flags, cards=[UPLINK]) as bed:
        join_networks(bed)
        with api_beside(bed, *groups):
            yield bed


def join_networks(bed: Bed) -> None:
    """Join the networks; the cluster must have been made with a card for VLANs."""
    bed.physical.route({61: ["10.61.0.1/24", "fd00:61::1/64"]})
    router, outside = bed.physical.router, bed.fabric.namespace
    bed.fabric.join(router, "rlan", card="lan")
    router.run(["ip", "address", "add", f"{ROUTER}/24", "dev", "lan"])
    router.run(["ip", "route", "add", "default", "via", bed.fabric.address])
    outside.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
    outside.run(["ip", "route", "add", f"{EXTERNAL}/32", "via", bed.hosts[0].address])
    outside.run(["ip", "route", "add", VLAN_SUBNET, "via", ROUTER])
    _join_networks6(bed)
    for host in bed.hosts:
        host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        host.namespace.run(["ip", "route", "add", "default", "via", bed.fabric.address])
        host.namespace.run(["ip", "route", "add", VLAN_SUBNET, "via", ROUTER])


def address6(host: Host) -> str:
    """Return the address of IPv6 of a host in their network."""
    return f"{UNDERLAY6}{host.address.rpartition('.')[2]}"


def _join_networks6(bed: Bed) -> None:
    router, outside = bed.physical.router, bed.fabric.namespace
    ends = [(router, "lan", ROUTER6), (outside, "sw", OUTSIDE6)]
    ends += [(host.namespace, "br-phy", address6(host)) for host in bed.hosts]
    for namespace, link, address in ends:
        namespace.run(["sysctl", "-q", "-w", "net.ipv6.conf.all.forwarding=1"])
        namespace.run(["ip", "address", "add", f"{address}/64", "dev", link, "nodad"])
        to = ["default", "via", OUTSIDE6] if namespace is not outside else None
        routes = [to, [VLAN_SUBNET6, "via", ROUTER6] if namespace is not router else None]
        for route in filter(None, routes):
            namespace.run(["ip", "-6", "route", "add", *route])
    first = address6(bed.hosts[0])
    outside.run(["ip", "-6", "route", "add", f"{EXTERNAL6}/128", "via", first])
