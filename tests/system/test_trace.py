"""`netctl trace` on two hosts: who reaches whom and why not, and what is named when it is broken."""

import json
from typing import Any

import pytest

from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.planes import applied

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

VIP = "10.20.9.9"


@pytest.fixture(scope="module")
def pods(bed: Bed) -> dict[str, Pod]:
    """Have two pods on the first host and one on the second, a policy and a service."""
    bed.netctl("policy", "create", "doors")
    bed.netctl("policy", "rule-add", "-d", "in", "--action=deny", "-l", "tcp", "doors", "1")
    allowed = ["-d", "in", "--action=allow", "--priority=10", "-l", "tcp", "-P", "8080"]
    bed.netctl("policy", "rule-add", *allowed, "doors", "2")
    bed.netctl("group", "create", "-p", "doors", "default-net", "guarded")
    one, two = bed.hosts
    pods = {
        "a": bed.add_pod(one, "a"),
        "b": bed.add_pod(one, "b", group="guarded"),
        "c": bed.add_pod(two, "c", group="guarded"),
    }
    applied(bed)
    return pods


def traced(bed: Bed, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bed.netctl("trace", "--json", *words))
    return found


def test_ways(bed: Bed, pods: dict[str, Pod]) -> None:
    for name in pods:
        print(bed.netctl("trace", "a", name))
    print(bed.netctl("trace", "a", "c", "-l", "tcp", "-P", "80"))
    print(bed.netctl("trace", "a", "c", "-l", "tcp", "-P", "8080"))
    print(bed.netctl("trace", "a", "8.8.8.8", "-l", "tcp", "-P", "80"))
    print(bed.netctl("trace", "a", "h2"))
    print(bed.netctl("trace", "h1", "b"))
    print(bed.netctl("trace", "h1", "c"))
