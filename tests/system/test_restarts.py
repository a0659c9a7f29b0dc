"""Killing parts of the cluster loses no packet between pods that need nothing new, and no trace.

Every test sends without a pause between hosts and within one, meanwhile kills or freezes something,
and in the end compares flows (cookies and age included), ports, links, journals and store with
those of before; then a new pod must work.
"""

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import Host
from tests.bed.pods import CniFailed, Pod
from tests.bed.routing_events import routing_events
from tests.bed.waiting import eventually
from tests.system import footprint
from tests.system.footprint import eventually_same, flow_ages, steady
from tests.system.planes import applied
from tests.system.rest import release
from tests.system.watcher import Watcher, both_ways, unbroken

pytestmark = [pytest.mark.system]

OUTAGE = 10.0
"""Seconds: shorter than a pod remembers a neighbour (23 s at least), for nobody answers its ARP."""
FREEZE = 4.0
"""Seconds: longer than the leader's lease lives."""


@pytest.fixture(scope="module")
def three(bed: Bed) -> tuple[Pod, Pod, Pod]:
    """Run pods that send to each other: two on the first host, one on the second."""
    near, far = bed.hosts
    return bed.add_pod(near, "a"), bed.add_pod(near, "b"), bed.add_pod(far, "c")


@contextmanager
def undisturbed(bed: Bed, pods: tuple[Pod, Pod, Pod]) -> Iterator[Watcher]:
    """Send during the body; afterwards everything is as it was, and a new pod works."""
    a, b, c = pods
    before = steady(bed)
    ages = [flow_ages(host) for host in bed.hosts]
    began = time.monotonic()
    with unbroken(both_ways((a, c), (c, b), (a, b))) as watcher:
        yield watcher
    passed = time.monotonic() - began
    eventually_same(bed, before)
    for host, old in zip(bed.hosts, ages, strict=True):
        written_anew = [
            flow for flow, age in flow_ages(host).items() if age < old[flow] + passed - 1
        ]
        assert written_anew == []
    for host in bed.hosts:
        new_pod_works(bed, host, c if host is a.host else a)
    eventually_same(bed, before)


def new_pod_works(bed: Bed, host: Host, peer: Pod) -> None:
    pod = bed.add_pod(host, "new")
    try:
        eventually(lambda: pod.ping(peer.address), f"a new pod on {host.label} reaches {peer.name}")
        eventually(lambda: peer.ping(pod.address), f"{peer.name} reaches a new pod")
    finally:
        bed.delete_pod(pod)


def remember_neighbours(pods: tuple[Pod, ...]) -> None:
    """Have the pods ask for each other anew: while the agent is away nobody answers ARP."""
    for pod in pods:
        pod.namespace.run(["ip", "neigh", "flush", "dev", "eth0"])


@pytest.mark.usefixtures("three")
def test_no_host_numbers_its_flows_as_another_does(bed: Bed) -> None:
    """The key of the numbers is the host's: a look at one host tells nothing of another's."""
    near, far = (numbers(host) for host in bed.hosts)
    both = near.keys() & far.keys()
    assert len(both) > len(near) / 2, "most flows are on the other host too"
    assert not [flow for flow in both if near[flow] == far[flow]]


def numbers(host: Host) -> dict[str, str]:
    """Return the cookies of a host's flows, by bridge, table, match and actions."""
    found = (re.fullmatch(r"(\S+) cookie=(\w+), (.*)", flow) for flow in footprint.flows(host))
    return {f"{one[1]} {one[3]}": one[2] for one in found if one}


def test_killed_agents_lose_no_packet(bed: Bed, three: tuple[Pod, Pod, Pod]) -> None:
    with undisturbed(bed, three) as watcher:
        for _ in range(2):
            for agent in bed.agents:
                agent.kill()
                watcher.goes_on()
                agent.start()
                watcher.goes_on()
        for agent in bed.agents:
            assert agent.terminate() == 0
            watcher.goes_on()
            agent.start()


@pytest.mark.usefixtures("three")
def test_a_restarted_agent_leaves_the_routing_of_its_host_alone(bed: Bed, tmp_path: Path) -> None:
    """Each event of a route may cost tunnels of the userspace datapath packets."""
    steady(bed)
    with ExitStack() as heard:
        seen = [
            heard.enter_context(routing_events(host.namespace, tmp_path / host.label))
            for host in bed.hosts
        ]
        for agent in bed.agents:
            agent.kill()
            agent.start()
        applied(bed)
    assert seen == [[] for _ in bed.hosts]


def test_agents_and_netmaster_that_are_long_away_lose_no_packet(
    bed: Bed, three: tuple[Pod, Pod, Pod]
) -> None:
    remember_neighbours(three)
    away = [*bed.agents, bed.netmaster]
    with undisturbed(bed, three) as watcher:
        for daemon in away:
            daemon.kill()
        watcher.goes_on(OUTAGE)
        for daemon in away:
            daemon.spawn()
        for daemon in away:
            daemon.await_ready()


def test_agents_that_are_frozen_lose_no_packet(bed: Bed, three: tuple[Pod, Pod, Pod]) -> None:
    with undisturbed(bed, three) as watcher:
        for agent in bed.agents:
            agent.pause()
        watcher.goes_on(2)
        for agent in bed.agents:
            agent.resume()
        watcher.goes_on()


def test_a_store_that_freezes_dies_and_returns_loses_no_packet(
    bed: Bed, three: tuple[Pod, Pod, Pod]
) -> None:
    with undisturbed(bed, three) as watcher:
        bed.store.pause()
        watcher.goes_on(FREEZE)
        bed.store.resume()
        watcher.goes_on()
        bed.store.kill()
        watcher.goes_on(1)
        bed.store.start()
        netmaster_leads(bed)


def test_agents_killed_while_the_store_is_away_lose_no_packet(
    bed: Bed, three: tuple[Pod, Pod, Pod]
) -> None:
    remember_neighbours(three)
    with undisturbed(bed, three) as watcher:
        bed.store.kill()
        for agent in bed.agents:
            agent.kill()
            agent.spawn()
        watcher.goes_on(2)
        bed.store.start()
        for agent in bed.agents:
            agent.await_ready()
        netmaster_leads(bed)


def test_everything_killed_at_once_loses_no_packet(bed: Bed, three: tuple[Pod, Pod, Pod]) -> None:
    remember_neighbours(three)
    with undisturbed(bed, three) as watcher:
        everything: list[Daemon] = [*bed.agents, bed.netmaster, bed.store]
        for daemon in everything:
            daemon.kill()
        watcher.goes_on()
        for daemon in everything:
            daemon.spawn()
        for daemon in everything:
            daemon.await_ready()


def test_a_killed_agent_finds_what_changed_elsewhere(bed: Bed, three: tuple[Pod, Pod, Pod]) -> None:
    near, far = bed.hosts
    a, _, c = three
    before = steady(bed)
    gone = bed.add_pod(far, "gone")
    eventually(lambda: a.ping(gone.address), "the pod is reached")
    bed.agents[0].kill()
    bed.delete_pod(gone)
    come = bed.add_pod(far, "come")
    bed.netctl("net", "create", "--subnet=10.60.0.0/24", "fresh")
    bed.agents[0].start()
    eventually(lambda: a.ping(come.address), "a pod that came meanwhile is reached")
    fresh = bed.add_pod(near, "fresh", network="fresh")
    bed.delete_pod(fresh)
    bed.delete_pod(come)
    bed.agents[0].kill()
    bed.netctl("net", "rm", "fresh")
    bed.agents[0].start()
    eventually_same(bed, before)
    assert a.loses_nothing_to(c.address)


@pytest.mark.parametrize("namespace_goes", [False, True], ids=["pod stays", "pod is gone"])
def test_a_pod_deleted_while_its_agent_was_away_vanishes(bed: Bed, namespace_goes: bool) -> None:
    before = steady(bed)
    pod = bed.add_pod(bed.hosts[0], "gone")
    bed.agents[0].kill()
    with pytest.raises(CniFailed) as failed:
        bed.runtime.delete(pod)
    assert failed.value.answer["code"] == 11
    if namespace_goes:
        pod.namespace.delete()
    bed.agents[0].start()
    bed.delete_pod(pod)
    eventually_same(bed, before)


def test_an_endpoint_released_while_its_agent_was_away_is_cut_off(
    bed: Bed, three: tuple[Pod, Pod, Pod]
) -> None:
    a, _, _ = three
    before = steady(bed)
    pod = bed.add_pod(bed.hosts[0], "reclaimed")
    bed.agents[0].kill()
    release(bed, pod)
    bed.agents[0].start()
    eventually(lambda: not pod.ping(a.address), "the pod is cut off")
    bed.delete_pod(pod)
    eventually_same(bed, before)


def netmaster_leads(bed: Bed) -> None:
    """Wait until netmaster has taken the lock again."""
    bed.netmaster.await_ready()
