"""Pods ask for names: who has them is told by the agent, all else by the server they asked."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.netns import http_request
from tests.bed.waiting import eventually
from tests.system.planes import FWD_MODES, NETWORKS, addresses, planes
from tests.system.questions import OUTSIDE, hears, serving

pytestmark = [
    pytest.mark.system,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("no_pods_left"),
]


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode, with a network of either encapsulation."""
    with planes(next(bed_dirs), request.param) as bed:
        yield bed


@pytest.mark.parametrize("network", list(NETWORKS))
def test_pods_ask_for_names(bed: Bed, network: str) -> None:
    here, there = bed.hosts
    group = f"web-{network}"
    asker = bed.add_pod(here, "asker", network=network)
    near = bed.add_pod(here, "near", network=network, group=group)
    far = bed.add_pod(there, "far", network=network, group=group)
    with serving(bed.add_pod(there, "server", network=network)) as server:
        hears(asker, server, "far", {far.address})
        hears(asker, server, "NEAR", {near.address})
        hears(asker, server, group, {near.address, far.address})
        hears(asker, server, group, {addresses(near)[1], addresses(far)[1]}, "AAAA")
        hears(far, server, "near", {near.address})
        hears(asker, server, "contiv.example", {OUTSIDE})
        bed.delete_pod(far)
        hears(asker, server, "far", {OUTSIDE})
        hears(asker, server, group, {near.address})


def test_a_service_has_a_name(bed: Bed) -> None:
    words = ["--network=vxlan", "--selector=app=shop", "--port=80:8080:TCP", "-ip=10.60.0.200"]
    bed.netctl("service", "create", *words, "shop")
    asker = bed.add_pod(bed.hosts[0], "asker", network="vlan")
    with serving(bed.add_pod(bed.hosts[1], "server", network="vlan")) as server:
        try:
            hears(asker, server, "shop", {"10.60.0.200"})
            hears(asker, server, "shop", set(), "AAAA")
        finally:
            bed.netctl("service", "rm", "shop")
        hears(asker, server, "shop", {OUTSIDE})


def test_names_are_shown(bed: Bed) -> None:
    far = bed.add_pod(bed.hosts[1], "far", network="vxlan")
    url = f"http://127.0.0.1:{AGENT_PORT}/inspect/nameserver"

    def shown() -> list[str]:
        status, body = http_request(url, namespace=bed.hosts[0].namespace)
        assert status == 200
        names = json.loads(body)["dnsRecords"].get("default", {}).get("commonNames", {})
        return names.get("far", [])  # type: ignore[no-any-return] # JSON

    four, six = addresses(far)
    assert eventually(shown, "the name is shown") == [f"ipv4:{four} ipv6:{six}"]
