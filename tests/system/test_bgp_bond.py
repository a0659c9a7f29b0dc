"""BGP by a bond: each of its cards is a way to the router and back."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.bed.bgp_router import BEHIND, BEHIND6
from tests.bed.cluster import AGENT_PORT
from tests.bed.hosts import Host
from tests.bed.netns import http_request
from tests.bed.waiting import eventually
from tests.system.peers import RoutedCluster, all_at_peace, peer, peers, reaches
from tests.system.planes import addresses
from tests.system.uplinks import CARDS, aggregate, uses

pytestmark = [pytest.mark.system, pytest.mark.ovs]


@pytest.fixture(scope="module")
def cluster(bed_dirs: Iterator[Path]) -> Iterator[RoutedCluster]:
    """Have all hosts speak with the router, by bonds that speak LACP."""
    with peers(next(bed_dirs), CARDS) as cluster:
        aggregate(cluster.bed)
        for host in cluster.bed.hosts:
            peer(cluster, host)
        yield cluster


def losses(host: Host) -> int:
    """Return how many sessions an agent has lost since its start."""
    url = f"http://127.0.0.1:{AGENT_PORT}/inspect/bgp"
    _, body = http_request(url, namespace=host.namespace)
    return int(json.loads(body)["peers"][0]["State"]["Flops"])


@pytest.mark.parametrize("card", CARDS)
def test_the_loss_of_one_card_is_no_loss_of_the_session(cluster: RoutedCluster, card: str) -> None:
    all_at_peace(cluster)
    (host, _), (pod, _) = cluster.bed.hosts, cluster.pods
    before = losses(host)
    cluster.bed.physical.pull(host.label, card)
    try:
        for address in (BEHIND, BEHIND6):
            eventually(partial(reaches, pod, address), f"the pod reaches {address}")
        for address in addresses(pod):
            eventually(partial(cluster.router.reaches, address), f"{address} answers")
    finally:
        cluster.bed.physical.push(host.label, card)
    all_at_peace(cluster)
    assert losses(host) == before


def test_a_session_and_its_routes_live_on_what_is_left_of_a_bond(cluster: RoutedCluster) -> None:
    all_at_peace(cluster)
    (host, _), (pod, other) = cluster.bed.hosts, cluster.pods
    for card in CARDS[:-1]:
        cluster.bed.physical.pull(host.label, card)
    try:
        uses(host, CARDS[-1])
        eventually(partial(reaches, pod, BEHIND), "the pod reaches the outside")
        eventually(partial(cluster.router.reaches, pod.address), "and is reached")
        more = cluster.bed.add_pod(host, "more", network="vlan")
        eventually(partial(cluster.router.reaches, more.address), "a new one too")
        eventually(partial(reaches, pod, other.address), "and a pod elsewhere")
    finally:
        for card in CARDS[:-1]:
            cluster.bed.physical.push(host.label, card)
    all_at_peace(cluster)
