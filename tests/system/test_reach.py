"""Who reaches whom by ICMP: as recorded from the original, on all four planes.

The recordings (`tests/golden/reach`) are of nine pods on two hosts: `d` is on a second network, `e`
in a group whose policy has the rules below. They hold without a difference.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.planes import FWD_MODES, applied

pytestmark = [pytest.mark.system]

RECORDINGS = Path(__file__).parents[1] / "golden" / "reach"
ENCAPS = {"vxlan": 1, "vlan": 2}
"""Encapsulation -> the second octet of its addresses."""
HOMES = {
    **dict.fromkeys("acdeqs", 0),
    **dict.fromkeys("bft", 1),
}
"""Pod -> its host; they get their addresses in the order of their names."""


class Way(NamedTuple):
    """From a pod to an address."""

    pod: str
    address: str


def recorded(encap: str, fwd_mode: str) -> dict[Way, bool]:
    """Read whether each way was open."""
    found: dict[Way, bool] = {}
    pod = ""
    for line in (RECORDINGS / f"{encap}-{fwd_mode}.txt").read_text().splitlines():
        if begin := re.fullmatch(r"from (\w+) \(.*\):", line):
            pod = begin[1]
        elif way := re.fullmatch(r"  (\S+) (reply|NO REPLY)", line):
            found[Way(pod, way[1])] = way[2] == "reply"
    assert len(found) == 60
    return found


def rules(net: int, near: str, second: str) -> dict[str, str]:
    """Return the policy's rules; 2 had been deleted."""
    return {
        "1": "-d in --action=deny --priority=1",
        "3": f"-d in --action=allow -l udp -P 53 --priority=20 -i 10.{net}.1.9",
        "4": f"-d in --action=allow -l icmp --priority=30 -i 10.{net}.2.0/24",
        "5": f"-d in --action=allow --priority=40 -g {near}",
        "6": f"-d in --action=deny -l tcp --priority=50 -n {second}",
        "7": "-d out --action=deny -l tcp -P 443 --priority=10",
        "8": f"-d out --action=allow -l udp -P 5000 --priority=100 -e {near}",
        "9": f"-d out --action=deny --priority=60 -s 10.{net}.1.0/28",
        "10": f"-d out --action=deny --priority=70 -o {second}",
        "11": "-d in --action=allow -l 47 --priority=5",
    }


@pytest.fixture(scope="module", params=FWD_MODES)
def fwd_mode(request: pytest.FixtureRequest) -> str:
    """Say in which forwarding mode the cluster is."""
    return str(request.param)


@pytest.fixture(scope="module")
def bed(fwd_mode: str, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Bed(directory, fwd_mode=fwd_mode).start()
    try:
        yield bed
    finally:
        bed.stop()


def settle(bed: Bed, encap: str) -> dict[str, Pod]:
    """Make the networks, groups and pods of a recording."""
    net = ENCAPS[encap]
    for number in (1, 2):
        words = [f"--subnet=10.{net}.{number}.0/24", f"--gateway=10.{net}.{number}.254"]
        bed.netctl("net", "create", f"--encap={encap}", *words, f"{encap}{number}")
    first, second, near, guarded = (f"{encap}{name}" for name in ("1", "2", "-near", "-guarded"))
    bed.netctl("policy", "create", guarded)
    bed.netctl("group", "create", first, near)
    bed.netctl("group", "create", "-p", guarded, first, guarded)
    for name, said in rules(net, near, second).items():
        bed.netctl("policy", "rule-add", *said.split(), guarded, name)
    groups = {"e": guarded, "f": near}
    return {
        name: bed.add_pod(
            bed.hosts[home],
            f"{name}-{encap}",
            network=second if name == "d" else first,
            group=groups.get(name, ""),
        )
        for name, home in sorted(HOMES.items())
    }


@pytest.mark.parametrize("encap", list(ENCAPS))
def test_reach_is_as_recorded(bed: Bed, fwd_mode: str, encap: str) -> None:
    pods = settle(bed, encap)
    ways = recorded(encap, fwd_mode)
    applied(bed)
    with ThreadPoolExecutor(4) as many:
        list(many.map(partial(opens, pods), [way for way, is_open in ways.items() if is_open]))
        closed = [way for way, is_open in ways.items() if not is_open]
        replies = list(many.map(lambda way: pods[way.pod].ping(way.address), closed))
    assert [way for way, reply in zip(closed, replies, strict=True) if reply] == []


def opens(pods: dict[str, Pod], way: Way) -> None:
    eventually(lambda: pods[way.pod].ping(way.address), f"{way.pod} reaches {way.address}")
