"""What nobody deletes is found and released: pods that died, hosts that died; live ones never.

After each, the cluster holds what it held before: addresses and records, flows, ports, journals.
"""

import time
from collections.abc import Mapping, Sequence

import pytest

from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.netns import http_request
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually
from tests.system.footprint import Footprint, eventually_same, footprint, steady, stored
from tests.system.rest import ask, create_endpoint

pytestmark = [pytest.mark.system, pytest.mark.timeout(150)]

LATE = 60.0
"""Seconds in which a dead host is surely given up: a lease's end, looks, the grace period."""
OUTAGE = 12.0
"""Seconds: longer than a registration lives and than a host may be missing."""


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Make grace periods short."""
    return {"netmaster": ["--dead-host-after", "2"], "netplugin": ["--leak-grace", "2"]}


def cut_off(agent: Daemon, pod: Pod) -> bool:
    """Tell whether an agent has said that a pod's endpoint was reclaimed."""
    lines = agent.log_text().splitlines()
    said = [line for line in lines if "endpoint is not connected" in line]
    return any(pod.sandbox.container_id in line and "reclaimed" in line for line in said)


def holds(bed: Bed, pod: Pod) -> bool:
    return any(pod.sandbox.container_id in line for line in stored(bed))


def renumbered(found: Footprint) -> tuple[object, ...]:
    """Return a footprint for which the tunnel to a host that was given up is any tunnel."""
    rest = found.stored, found.inspected, found.links, found.ports, found.journal
    return *rest, len(found.flows)


def new_pod_works(bed: Bed, peer: Pod) -> None:
    """See that the first host takes part again."""
    pod = bed.add_pod(bed.hosts[0], "new")
    eventually(lambda: peer.ping(pod.address), "a new pod is reached from the other host")
    bed.delete_pod(pod)


def test_a_pod_that_dies_without_a_del_is_released(bed: Bed) -> None:
    alive = bed.add_pod(bed.hosts[0], "alive")
    before = steady(bed)
    pod = bed.add_pod(bed.hosts[0], "dies")
    pod.namespace.delete()
    bed.pods.remove(pod)
    eventually_same(bed, before, within=30)
    url = "http://127.0.0.1:9090/debug/leaks"
    answer = http_request(url, namespace=bed.hosts[0].namespace)
    assert answer == (200, b'{"pod gone":1}')
    again = bed.add_pod(bed.hosts[0], "again")
    assert again.address == pod.address
    eventually(lambda: again.ping(alive.address), "the pods reach each other")
    bed.delete_pod(again)
    bed.delete_pod(alive)


def test_a_record_its_host_does_not_know_is_released(bed: Bed) -> None:
    alive = bed.add_pod(bed.hosts[0], "alive")
    before = steady(bed)
    assert create_endpoint(bed, "lost", host=bed.hosts[0].label).status == 200
    eventually_same(bed, before, within=30)
    assert holds(bed, alive)
    bed.delete_pod(alive)


@pytest.mark.parametrize("way", ["killed", "frozen"])
def test_a_host_that_was_away_for_too_long_finds_its_pods_cut_off(bed: Bed, way: str) -> None:
    near, far = bed.hosts
    agent = bed.agents[0]
    peer = bed.add_pod(far, "peer")
    before = steady(bed)
    pod = bed.add_pod(near, "pod")
    eventually(lambda: peer.ping(pod.address), "the pod is reached")
    (agent.kill if way == "killed" else agent.pause)()
    eventually(lambda: not holds(bed, pod), "the dead host's endpoint is given up", within=LATE)
    assert holds(bed, peer)
    taker = bed.add_pod(far, "taker")
    assert taker.address == pod.address
    (agent.start if way == "killed" else agent.resume)()
    eventually(lambda: cut_off(agent, pod), "the agent has said so", within=30)
    eventually(lambda: pod.ping(peer.address) is None, "the pod is cut off")
    eventually(lambda: peer.ping(taker.address), "its address is another's")
    bed.delete_pod(pod)
    bed.delete_pod(taker)
    eventually(lambda: renumbered(footprint(bed)) == renumbered(before), "all is as before")
    new_pod_works(bed, peer)
    bed.delete_pod(peer)


def test_a_store_that_was_away_gives_nobody_up_who_is_there(bed: Bed) -> None:
    near, far = bed.hosts
    dead, alive = bed.add_pod(near, "dead"), bed.add_pod(far, "alive")
    before = stored(bed)
    bed.agents[0].kill()
    bed.etcd.kill()
    time.sleep(OUTAGE)  # an outage has a length
    assert bed.etcd.running is False
    bed.etcd.start()
    # the one that is really dead shows when a leader believes in absence again
    eventually(lambda: not holds(bed, dead), "the dead host is given up", within=LATE)
    assert stored(bed) == {line for line in before if dead.sandbox.container_id not in line}
    bed.agents[0].start()
    bed.delete_pod(dead)
    new_pod_works(bed, alive)
    bed.delete_pod(alive)


def test_a_drained_host_takes_no_pod(bed: Bed) -> None:
    near, far = bed.hosts
    stays = bed.add_pod(near, "stays")
    peer = bed.add_pod(far, "peer")
    before = steady(bed)
    assert "is drained, it has 1 endpoints" in bed.netctl("host", "drain", near.label)
    with pytest.raises(CniFailed) as refused:
        bed.add_pod(near, "refused")
    assert f"netctl host drain {near.label} --undo" in refused.value.answer["details"]
    eventually_same(bed, before)
    eventually(lambda: stays.ping(peer.address), "the pod that was there works")
    assert "is not drained" in bed.netctl("host", "drain", near.label, "--undo")
    new_pod_works(bed, peer)
    bed.delete_pod(stays)
    bed.delete_pod(peer)


def test_a_running_host_is_not_removed(bed: Bed) -> None:
    refused = ask(bed, "DELETE", f"/hosts/{bed.hosts[0].label}")
    assert (refused.status, "has a running agent" in refused.text) == (500, True)
