"""Long packets, and connections full of them, pass wherever there is a way, in all four modes.

Pods on another host by tunnel and by VLAN, the host and what is beyond it: for pods without a
gateway by `host1`, on a bridged VLAN by its router.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import UPLINK
from tests.bed.netns import Namespace
from tests.bed.physical import OUTSIDE
from tests.bed.pods import IFNAME, Pod
from tests.bed.traffic import throughput
from tests.bed.waiting import eventually
from tests.system.echoes import passes
from tests.system.planes import FWD_MODES, NETWORKS, planes

pytestmark = [pytest.mark.system, pytest.mark.ovs]

VLAN = 61
USUAL, SMALLER = 1500, 1400
TUNNEL = 50
"""Bytes around what a pod sends to another host by a tunnel."""


class MtuCluster(NamedTuple):
    """A cluster on a physical network, with pods of each network on both hosts."""

    bed: Bed
    pods: dict[str, list[Pod]]

    def ways(self) -> Iterator[tuple[str, Pod, Namespace, str]]:
        """Yield each way: what it is, from whom, to whom, and to which address."""
        for network in (*NETWORKS, "bare"):
            source, target = self.pods[network]
            yield f"{network} to a pod", source, target.namespace, target.address
        bare, _ = self.pods["bare"]
        yield "to the host", bare, bare.host.namespace, bare.host.address
        yield "beyond the host", bare, self.bed.fabric.namespace, self.bed.fabric.address
        if self.bed.fwd_mode == "bridge":
            pod, _ = self.pods["vlan"]
            yield "beyond the router", pod, self.bed.physical.outside, OUTSIDE


@pytest.fixture(scope="module", params=FWD_MODES)
def cluster(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[MtuCluster]:
    """Run a cluster in a forwarding mode, with a router on its VLAN."""
    with planes(next(bed_dirs), request.param, cards=(UPLINK,)) as bed:
        bed.physical.route({VLAN: [f"{NETWORKS['vlan'][1]}/24"]})
        bed.netctl("net", "create", "--subnet=10.70.0.0/24", "--encap=vxlan", "bare")
        for host in bed.hosts:
            host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        networks = [*NETWORKS, "bare"]
        pods = {
            network: [
                bed.add_pod(host, f"{network}-{host.label}", network=network) for host in bed.hosts
            ]
            for network in networks
        }
        yield MtuCluster(bed, pods)


def set_links(bed: Bed, mtu: int) -> None:
    """Give the hosts' links another MTU: that of the tunnels and the uplink."""
    for host in bed.hosts:
        for link in ("eth0", UPLINK):
            host.namespace.run(["ip", "link", "set", link, "mtu", str(mtu)])


def mtus(pod: Pod) -> dict[str, int]:
    links = json.loads(pod.namespace.run(["ip", "-json", "link"]).stdout)
    return {link["ifname"]: int(link["mtu"]) for link in links}


def test_what_pods_may_send_arrives(cluster: MtuCluster) -> None:
    try:
        for underlay in (USUAL, SMALLER):
            set_links(cluster.bed, underlay)
            follow(cluster.pods["vxlan"] + cluster.pods["bare"], IFNAME, underlay - TUNNEL)
            follow(cluster.pods["bare"], "host1", underlay - TUNNEL)
            follow(cluster.pods["vlan"], IFNAME, underlay)
            for what, pod, target, address in cluster.ways():
                longest = underlay - (0 if pod in cluster.pods["vlan"] else TUNNEL)
                passing = partial(passes, pod.namespace, address, longest)
                eventually(passing, f"{longest} bytes pass {what}")
                assert throughput(pod.namespace, target, address, seconds=1) > 0, what
    finally:
        set_links(cluster.bed, USUAL)


def follow(pods: Sequence[Pod], link: str, mtu: int) -> None:
    for pod in pods:
        eventually(lambda: mtus(pod)[link] == mtu, f"{link} of {pod.name} has {mtu}")  # noqa: B023
