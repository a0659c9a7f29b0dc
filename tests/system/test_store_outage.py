"""The store is gone for longer than any lease lives: what runs goes on, what ends is made up for.

Datagrams go down open and forbidden lanes all the while. The leader has lost its lock and every
registration has ended when the store is back; who was deleted meanwhile must be forgotten
everywhere, by the host's agent or, where that was killed too, by the next one.
"""

from typing import NamedTuple

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually
from tests.system.footprint import eventually_same, flows, steady
from tests.system.planes import add_rules, applied
from tests.system.watcher import Lane, unbroken, watching

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.usefixtures("no_pods_left"),
    pytest.mark.system,
    pytest.mark.store,
    pytest.mark.stores("etcd", "consul"),
]

AWAY = 90.0
"""Seconds the store is away: more than leases of etcd and sessions of consul live."""
OPEN, FORBIDDEN = 7000, 7001
TRY_AGAIN_LATER = 11


class Lanes(NamedTuple):
    """The ways that are watched: open within a host, open between hosts, forbidden."""

    within: list[Lane]
    across: list[Lane]
    forbidden: list[Lane]


def lay_lanes(bed: Bed) -> Lanes:
    """Run a pod outside of a group and one in it on either host; the group is open at one port."""
    here, there = bed.hosts
    bed.netctl("policy", "create", "guard")
    bed.netctl("group", "create", "-p", "guard", "default-net", "web")
    rules = {
        "1": ["--action=deny", "--protocol=udp", "--priority=1"],
        "2": ["--action=allow", "--protocol=udp", f"--port={OPEN}", "--priority=10"],
    }
    add_rules(bed, "guard", rules)
    asker = bed.add_pod(here, "asker")
    near, far = (bed.add_pod(host, f"on-{host.label}", group="web") for host in (here, there))
    applied(bed)
    return Lanes(
        within=[
            Lane(asker, near, near.address, OPEN),
            Lane(near, asker, asker.address, FORBIDDEN),
        ],
        across=[
            Lane(asker, far, far.address, OPEN),
            Lane(far, asker, asker.address, OPEN),
        ],
        forbidden=[
            *(Lane(asker, pod, pod.address, FORBIDDEN) for pod in (near, far)),
            Lane(far, near, near.address, FORBIDDEN),
            Lane(near, far, far.address, FORBIDDEN),
        ],
    )


def test_a_store_that_is_away_for_longer_than_leases_live(bed: Bed) -> None:
    """What must not be lost stays within a host (see `test_dataplane_restarts`)."""
    lanes = lay_lanes(bed)
    before = steady(bed)
    going = [bed.add_pod(host, f"going-{host.label}") for host in bed.hosts]
    applied(bed)
    assert all(mentions(host, pod) for host in bed.hosts for pod in going)
    agent = bed.agents[0]
    with watching(lanes.across, lanes.forbidden), unbroken(lanes.within) as watcher:
        bed.store.kill()
        for pod in going:
            bed.delete_pod(pod)
        agent.kill()
        agent.spawn()
        watcher.goes_on(AWAY / 2)
        assert refusals(bed) == [TRY_AGAIN_LATER, TRY_AGAIN_LATER]
        watcher.goes_on(AWAY / 2)
        assert agent.running, "it waits for the store, and leaves the flows alone"
        bed.store.start()
        bed.netmaster.await_ready()
        agent.await_ready()
        eventually_same(bed, before)
        assert not any(mentions(host, pod) for host in bed.hosts for pod in going)
        applied(bed)
        fresh = [bed.add_pod(host, f"fresh-{host.label}") for host in bed.hosts]
    assert {pod.address for pod in fresh} == {pod.address for pod in going}
    eventually(lambda: fresh[0].ping(fresh[1].address), "new pods reach each other")


def refusals(bed: Bed) -> list[int]:
    """Return the codes with which each host's plugin refuses a new pod."""
    return [_refusal(bed, host) for host in bed.hosts]


def _refusal(bed: Bed, host: Host) -> int:
    with pytest.raises(CniFailed) as failed:
        bed.add_pod(host, "refused")
    return int(failed.value.answer["code"])


def mentions(host: Host, pod: Pod) -> bool:
    """Tell whether a switch knows a pod's address."""
    return any(f"nw_dst={pod.address} " in line for line in flows(host))
