"""The flows of a World equal what was recorded from the original on real switches.

The run of the recordings is played step by step through the World's builder (`tests.golden.run`).
Table, priority, match and actions are compared both ways, with port numbers mapped by port name;
cookies are not. What differs has a name (`tests.golden.deviations`) and a line of
`docs/deviations.md`. `pytest -s -k counted` prints how often.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path

import pytest

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.tables import Mode
from ofnet.world import (
    Bridge,
    FwdMode,
    HostPort,
    LocalEndpoint,
    Network,
    RemoteEndpoint,
    Vtep,
    World,
)
from tests.golden.deviations import (
    ADDED,
    CHANGED,
    LEFT_OUT,
    Verdict,
    answers_neighbours,
    hears_errors,
    judge,
    judges_fragments,
    probes_tunnels,
    translates_services,
)
from tests.golden.recordings import FLOWS, lines
from tests.golden.run import Case, play

DOCUMENT = Path(__file__).parents[2] / "docs" / "deviations.md"
KUBE_POLICIES = range(24, 32)
"""Tables of Kubernetes' policies, which the original does not have."""

RECORDED = sorted(path.stem for path in FLOWS.glob("*-node?.txt"))
NAMES = {*CHANGED, *LEFT_OUT, *ADDED}
GUARDED = {"source-guard"}
EVERYWHERE = {
    *("fragments", "judged-at-both-ends", "neighbours-by-switch", "rules-ipv6"),
    *("dns-by-ipv6", "dns-mark", "kube-policies", "pod-guard", "services-by-switch"),
    *GUARDED,
}
OCCURRING: Mapping[Mode, set[str]] = {
    Mode.VLAN: {
        *EVERYWHERE,
        *("arp-mode-kept", "rules-spare-neighbours", "vlan-ipv6-groups"),
    },
    Mode.VXLAN: {
        *EVERYWHERE,
        *("arp-mode-kept", "flood-without-groups", "rules-spare-neighbours", "tunnel-by-services"),
        *("group-source", "tunnel-probes"),
    },
    Mode.VLROUTER: {
        *EVERYWHERE,
        *("group-source", "vlrouter-ipv6-on-vlans", "vlrouter-ipv6-tagged"),
    },
    Mode.VROUTER: {
        *EVERYWHERE,
        *("dns-of-host", "group-source", "host-errors", "host-port-found-again"),
        *("host-untracked", "tunnel-probes"),
    },
}


@cache
def verdicts(*, guard: bool) -> Mapping[str, tuple[Case, Verdict]]:
    """Return every recording beside ours, and what is to be said of it, by its name."""
    cases = (case for mode in FwdMode for case in play(mode, guard=guard))
    return {case.recording.name: (case, judge(case)) for case in cases}


def of_mode(mode: Mode, *, guard: bool) -> list[tuple[Case, Verdict]]:
    """Return what is to be said of all recordings of a mode."""
    return [found for found in verdicts(guard=guard).values() if found[0].mode is mode]


def deviations(found: list[tuple[Case, Verdict]]) -> Counter[str]:
    """Return how often each deviation occurs."""
    return sum((verdict.deviating for _, verdict in found), Counter())


@pytest.mark.parametrize("name", RECORDED)
def test_each_difference_has_a_name(name: str) -> None:
    _, verdict = verdicts(guard=True)[name]
    assert not verdict.unnamed, "\n".join(map(str, verdict.unnamed))
    assert verdict.equal


@pytest.mark.parametrize("mode", Mode)
def test_the_names_that_occur_are_counted(mode: Mode) -> None:
    found = of_mode(mode, guard=True)
    deviating = deviations(found)
    equal = sum(verdict.equal for _, verdict in found)
    recorded = sum(len(case.recording.lines) for case, _ in found)
    counts = "".join(f"\n{count:7} {name}" for name, count in deviating.most_common())
    print(  # noqa: T201 - what the whole comparison comes to
        f"\n{mode}: {len(found)} recordings, {equal} of {recorded} recorded flows are equal,"
        f" deviations:{counts}\n{equal + deviating.total():7} in total"
    )
    assert set(deviating) == OCCURRING[mode]


@pytest.mark.parametrize("mode", Mode)
def test_without_the_source_guard_there_is_nothing_of_it(mode: Mode) -> None:
    found = of_mode(mode, guard=False)
    assert not any(verdict.unnamed for _, verdict in found)
    assert set(deviations(found)) == OCCURRING[mode] - GUARDED


def test_each_name_is_documented() -> None:
    documented = {line.split("|")[1].strip() for line in _rows(DOCUMENT.read_text())}
    assert documented >= NAMES


def _rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")]


THERE = HostLabel("node2")


def test_every_object_of_the_vrouter() -> None:
    """Group, DSCP, IPv6, host port in one World, worked out by hand."""
    text = (FLOWS / "vrouter-all-objects.txt").read_text()
    expected = [line.removeprefix("table=0, ") for line in text.splitlines() if "actions=" in line]
    network = Network(id=NetworkId("net.tenant1"), vrf=1, vlan=1, vni=10001)
    mine = LocalEndpoint(
        key=EndpointKey("net.tenant1-a"),
        network=network.id,
        ofport=14,
        mac="02:02:0a:01:01:01",
        ip=IPv4Address("10.1.1.1"),
        ip6=IPv6Address("2016::1:1"),
        group_id=100,
        dscp=10,
        nat_ip=IPv4Address("172.19.0.1"),
    )
    theirs = RemoteEndpoint(
        key=EndpointKey("net.tenant1-b"),
        network=network.id,
        host=THERE,
        mac="02:02:0a:01:01:02",
        ip=IPv4Address("10.1.1.2"),
        group_id=200,
    )
    world = World(
        fwd_mode=FwdMode.ROUTING,
        networks={network.id: network},
        local={mine.key: mine},
        remote={theirs.key: theirs},
        vteps={THERE: Vtep(host=THERE, ip=IPv4Address("192.168.2.11"), ofport=5)},
        host_port=HostPort(ofport=7, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16")),
    )
    desired = Desired(Bridge.VXLAN)
    desired.update(world, EVERYTHING)
    ours = set(lines(map(str, desired.flows.values()), {}))
    added = {
        line
        for line in ours
        if answers_neighbours(line)
        or hears_errors(line)
        or judges_fragments(line)
        or probes_tunnels(line)
        or line.match.startswith("udp6,")
        or translates_services(line)
        or line.table in KUBE_POLICIES
    }
    assert ours - added == set(lines(expected, {}))
