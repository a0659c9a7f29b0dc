"""Hosts that speak BGP with a real router on the physical network, and a pod on each.

The first host speaks eBGP, the second iBGP. In come a directory and the hosts' cards; out comes a
running `RoutedCluster`. Must not know what is done to it.
"""

import json
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tests.bed.bgp_router import ADDRESS, BEHIND, EXTRA, BgpRouter
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.pods import Pod
from tests.bed.waiting import PATIENCE, WITHIN, eventually
from tests.system.conftest import unforeseen
from tests.system.planes import planes

HOST_AS, ROUTER_AS = 65002, 500
ROUTERS = {"h1": ("50.1.1.1", HOST_AS), "h2": ("50.1.1.3", ROUTER_AS)}
BEHIND_SUBNET, BEHIND_SUBNET6 = "198.51.100.0/24", "2001:db8:100::/64"
FLAGS = {"netplugin": ["--audit-interval", f"{5 * PATIENCE:g}"]}


class RoutedCluster(NamedTuple):
    """A cluster whose hosts have a router to speak with, and a pod each."""

    bed: Bed
    router: BgpRouter
    pods: list[Pod]


@contextmanager
def peers(directory: Path, cards: Sequence[str]) -> Iterator[RoutedCluster]:
    """Run a cluster of two hosts and a router; the hosts are yet to be told of it."""
    with planes(directory, "routing", cards=cards, flags=FLAGS) as bed:
        router = BgpRouter(
            f"{bed.physical.namespace.name}-tor",
            directory / "tor",
            bed.physical,
            asn=ROUTER_AS,
            neighbours=dict(ROUTERS.values()),
        )
        try:
            router.start()
            pods = [bed.add_pod(host, f"on-{host.label}", network="vlan") for host in bed.hosts]
            yield RoutedCluster(bed, router, pods)
            assert unforeseen(bed) == []
        finally:
            router.stop()


def all_at_peace(cluster: RoutedCluster) -> None:
    """Wait for all sessions, and until every pod reaches who is behind the router."""
    for host, pod in zip(cluster.bed.hosts, cluster.pods, strict=True):
        in_session(cluster, host)
        eventually(partial(reaches, pod, BEHIND, EXTRA), f"{pod.name} reaches all")


def peer(cluster: RoutedCluster, host: Host, *, asn: int = ROUTER_AS) -> None:
    """Tell netmaster whom a host is to speak with."""
    address, own = ROUTERS[host.label]
    words = [f"--router-ip={address}/24", f"--as={own}"]
    words += [f"--neighbor={ADDRESS}", f"--neighbor-as={asn}"]
    cluster.bed.netctl("bgp", "create", host.label, *words)


def shown(cluster: RoutedCluster, host: Host) -> dict[str, Any]:
    """Return what netmaster says of a host's session."""
    said: dict[str, Any] = json.loads(cluster.bed.netctl("bgp", "inspect", host.label))
    return dict(said.get("Oper", {}))


def in_session(cluster: RoutedCluster, host: Host) -> None:
    """Wait for both ends to say that there is a session."""
    address, _ = ROUTERS[host.label]
    eventually(lambda: cluster.router.established(address), f"{host.label}'s session")
    eventually(
        lambda: shown(cluster, host).get("neighborStatus") == "established",
        f"netmaster knows of {host.label}'s session",
    )


def reaches(pod: Pod, *addresses: str) -> bool:
    """Tell whether a pod reaches all of these."""
    return all(pod.ping(address) is not None for address in addresses)


@contextmanager
def pinging(pod: Pod, address: str, log: Path) -> Iterator[Callable[[], int]]:
    """Ping all the while; yield what ends it and counts the echoes that are missing."""
    log.unlink(missing_ok=True)
    process = pod.namespace.popen(["ping", "-q", "-n", "-i", "0.05", "-w", "200", address], log=log)

    def lost() -> int:
        process.send_signal(signal.SIGINT)
        process.wait(WITHIN)
        said = log.read_text()
        counts = re.search(r"(\d+) packets transmitted, (\d+) received", said)
        assert counts, said
        assert int(counts[2]) > 10, said
        return int(counts[1]) - int(counts[2])

    try:
        yield lost
    finally:
        process.kill()
        process.wait()
