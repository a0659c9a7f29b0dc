"""Endpoint clean-up on real hosts: the endpoint goes from the store, and from the switch."""

import pytest

from tests.bed.cluster import Bed
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.store, pytest.mark.ovs, pytest.mark.system]


def clean_up(bed: Bed, what: str) -> str:
    """Ask for a clean-up in the tenant `default`; return the answer with its status behind it."""
    url = f"{bed.url}/debug/epcleanup/tenant/default/{what}"
    asked = ["curl", "-s", "-X", "DELETE", "-w", " %{http_code}", url]
    return bed.fabric.namespace.run(asked).stdout


def ports(bed: Bed, number: int) -> set[str]:
    """Return the ports of pods on a host's bridges."""
    listed = bed.hosts[number].ovs.vsctl("--bare", "--columns=name", "list", "Port").split()
    return {name for name in listed if name.startswith("vvport")}


def test_endpoints_are_taken_away_from_their_hosts(bed: Bed) -> None:
    here, there = bed.hosts
    first = bed.add_pod(here, "first")
    second = bed.add_pod(there, "second")
    eventually(lambda: first.ping(second.address) is not None, "the pods reach each other")
    assert clean_up(bed, f"ep/{first.sandbox.container_id}").endswith(" 200")
    eventually(lambda: not ports(bed, 0), "the first host's port is gone")
    assert ports(bed, 1)
    bed.agents[1].kill()
    answer = clean_up(bed, "net/default-net")
    assert answer.startswith("1 endpoints removed, but not from every host: host ")
    assert answer.endswith(" 500")
    assert clean_up(bed, "net/default-net").startswith("no endpoints of network default-net")
