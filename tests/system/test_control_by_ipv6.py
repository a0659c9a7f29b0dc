"""Store, masters and agents reach each other by IPv6; tunnels between hosts stay with IPv4."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.store import STORES
from tests.bed.waiting import eventually
from tests.system.planes import applied
from tests.system.rest import ask

pytestmark = [pytest.mark.system, pytest.mark.store]


@pytest.fixture(scope="module", params=list(STORES))
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts on one of the stores, with a network of IPv6 alone."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Bed(directory, 2, store=request.param, control6=True).start()
    try:
        bed.netctl("net", "create", "--subnetv6=fd00:20::/64", "--gatewayv6=fd00:20::1", "six")
        yield bed
    finally:
        bed.stop()


def test_pods_reach_each_other_under_a_later_leader(bed: Bed) -> None:
    here, there = bed.hosts
    one = bed.add_pod(here, "one", network="six")
    two = bed.add_pod(there, "two", network="six")
    eventually(partial(one.ping, two.address), "pods on two hosts reach each other")
    second = bed.another_master(9998)
    second.start()
    bed.netmaster.kill()
    try:
        three = bed.add_pod(there, "three", network="six")
        eventually(partial(one.ping, three.address), "a pod that the second master added")
    finally:
        second.kill()
    bed.netmaster.start()
    applied(bed)


def test_the_leader_asks_the_agents(bed: Bed) -> None:
    applied(bed)
    shown = {one["label"]: one for one in ask(bed, "GET", "/hosts").json()}
    assert {label: one["controlIP"] for label, one in shown.items()} == {
        host.label: host.address6 for host in bed.hosts
    }
    listed = bed.netctl("host", "ls")
    assert all(host.address6 in listed for host in bed.hosts)
