"""BGP by a bond: each of its cards is a way to the router and back."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.bed.bgp_router import BEHIND
from tests.bed.waiting import eventually
from tests.system.peers import SLOW, Site, all_at_peace, peer, peers, reaches
from tests.system.test_uplinks import CARDS, aggregate, uses

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def site(bed_dirs: Iterator[Path]) -> Iterator[Site]:
    """Have all hosts speak with the router, by bonds that speak LACP."""
    with peers(next(bed_dirs), CARDS) as site:
        aggregate(site.bed)
        for host in site.bed.hosts:
            peer(site, host)
        yield site


def test_a_session_and_its_routes_live_on_what_is_left_of_a_bond(site: Site) -> None:
    all_at_peace(site)
    (host, _), (pod, other) = site.bed.hosts, site.pods
    for card in CARDS[:-1]:
        site.bed.physical.pull(host.label, card)
    try:
        uses(host, CARDS[-1])
        eventually(partial(reaches, pod, BEHIND), "the pod reaches the outside", within=SLOW)
        eventually(partial(site.router.reaches, pod.address), "and is reached", within=SLOW)
        more = site.bed.add_pod(host, "more", network="vlan")
        eventually(partial(site.router.reaches, more.address), "a new one too", within=SLOW)
        eventually(partial(reaches, pod, other.address), "and a pod elsewhere", within=SLOW)
    finally:
        for card in CARDS[:-1]:
            site.bed.physical.push(host.label, card)
    all_at_peace(site)
