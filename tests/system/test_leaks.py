"""What nobody deletes is found and released: pods that died, hosts that died; live ones never.

After each, the cluster holds what it held before: addresses and records, flows, ports, journals.
"""

import json
from collections.abc import Mapping, Sequence

import pytest

from core import keys
from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import Host
from tests.bed.netns import http_request
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually
from tests.system.footprint import Footprint, eventually_same, footprint, steady, stored
from tests.system.rest import ask, create_endpoint

pytestmark = [pytest.mark.system, pytest.mark.thorough]


@pytest.fixture(scope="module")
def hosts() -> int:
    """Let two hosts be away while the third one is there."""
    return 3


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Make grace periods short."""
    return {"netmaster": ["--dead-host-after", "2"], "netplugin": ["--leak-grace", "2"]}


def reached(peer: Pod, pod: Pod) -> None:
    eventually(lambda: peer.ping(pod.address), f"{pod.sandbox.name} is reached from another host")


def mentions(line: str, pod: Pod) -> bool:
    return pod.sandbox.container_id in line


def holds(bed: Bed, pod: Pod) -> bool:
    return any(mentions(line, pod) for line in stored(bed))


def cut_off(agent: Daemon, pod: Pod, peer: Pod) -> None:
    """See that an agent has said that a pod's endpoint was reclaimed, and has taken its flows."""

    def said() -> bool:
        lines = [line for line in agent.log_text().splitlines() if mentions(line, pod)]
        return any("endpoint is not connected" in ln and "reclaimed" in ln for ln in lines)

    eventually(said, "the agent has said so")
    eventually(lambda: pod.ping(peer.address) is None, "the pod is cut off")


def store_is_away(bed: Bed) -> None:
    """Take the store away until nobody leads; when it is back, all agents' registrations end."""
    terms, store = terms_ended(bed), bed.store
    store.kill()
    try:
        eventually(lambda: terms_ended(bed) > terms, "nobody leads")
    finally:
        store.start()
    store.end_leases(keys.SERVICES + keys.SERVICE_NETPLUGIN)


def terms_ended(bed: Bed) -> int:
    return bed.netmaster.log_text().count('msg="leadership changed" input=LOST')


def mended(host: Host) -> dict[str, int]:
    """Ask a host's agent how often it has mended what."""
    url = "http://127.0.0.1:9090/debug/leaks"
    status, body = http_request(url, namespace=host.namespace)
    assert status == 200
    found: dict[str, int] = json.loads(body)
    return found


def renumbered(found: Footprint) -> tuple[object, ...]:
    """Return a footprint for which the tunnel to a host that was given up is any tunnel."""
    rest = found.stored, found.inspected, found.links, found.ports, found.journal
    return *rest, len(found.flows)


def new_pod_works(bed: Bed, host: Host, peer: Pod) -> None:
    """See that a host takes part again."""
    pod = bed.add_pod(host, "new")
    reached(peer, pod)
    bed.delete_pod(pod)


def test_a_pod_that_dies_without_a_del_is_released(bed: Bed) -> None:
    alive = bed.add_pod(bed.hosts[0], "alive")
    before = steady(bed)
    pod = bed.add_pod(bed.hosts[0], "dies")
    pod.namespace.delete()
    bed.pods.remove(pod)
    eventually_same(bed, before)
    eventually(lambda: mended(bed.hosts[0]).get("pod gone") == 1, "it is counted")
    again = bed.add_pod(bed.hosts[0], "again")
    assert again.address == pod.address
    eventually(lambda: again.ping(alive.address), "the pods reach each other")
    bed.delete_pod(again)
    bed.delete_pod(alive)


def test_a_record_its_host_does_not_know_is_released(bed: Bed) -> None:
    alive = bed.add_pod(bed.hosts[0], "alive")
    before = steady(bed)
    assert create_endpoint(bed, "lost", host=bed.hosts[0].label).status == 200
    eventually_same(bed, before)
    assert holds(bed, alive)
    bed.delete_pod(alive)


def test_hosts_that_are_away_for_too_long_are_given_up_and_no_other(bed: Bed) -> None:
    """A store that was away meanwhile, and forgot who is registered, makes no difference."""
    killed, frozen = bed.agents[:2]
    near, far = bed.hosts[:2], bed.hosts[2]
    peer = bed.add_pod(far, "peer")
    before = steady(bed)
    lost = [bed.add_pod(host, f"lost-{host.label}") for host in near]
    for pod in lost:
        reached(peer, pod)
    held = stored(bed)
    killed.kill()
    frozen.pause()
    store_is_away(bed)
    eventually(lambda: not any(holds(bed, pod) for pod in lost), "both are given up")
    assert stored(bed) == {line for line in held if not any(mentions(line, pod) for pod in lost)}
    takers = [bed.add_pod(far, f"taker{number}") for number in (1, 2)]
    assert {pod.address for pod in takers} == {pod.address for pod in lost}
    killed.start()
    frozen.resume()
    for agent, pod in zip((killed, frozen), lost, strict=True):
        cut_off(agent, pod, peer)
    for pod in takers:
        reached(peer, pod)
    for pod in (*lost, *takers):
        bed.delete_pod(pod)
    eventually(lambda: renumbered(footprint(bed)) == renumbered(before), "all is as before")
    for host in near:
        new_pod_works(bed, host, peer)
    bed.delete_pod(peer)


def test_a_drained_host_takes_no_pod(bed: Bed) -> None:
    near, far = bed.hosts[:2]
    stays = bed.add_pod(near, "stays")
    peer = bed.add_pod(far, "peer")
    before = steady(bed)
    assert "is drained, it has 1 endpoints" in bed.netctl("host", "drain", near.label)
    shown = ask(bed, "GET", "/hosts").json()
    assert [(one["label"], one["drained"]) for one in shown] == [
        (host.label, host is near) for host in bed.hosts
    ]
    with pytest.raises(CniFailed) as refused:
        bed.add_pod(near, "refused")
    assert f"netctl host drain {near.label} --undo" in refused.value.answer["details"]
    eventually_same(bed, before)
    eventually(lambda: stays.ping(peer.address), "the pod that was there works")
    assert "is not drained" in bed.netctl("host", "drain", near.label, "--undo")
    new_pod_works(bed, near, peer)
    bed.delete_pod(stays)
    bed.delete_pod(peer)


def test_a_running_host_is_not_removed(bed: Bed) -> None:
    refused = ask(bed, "DELETE", f"/hosts/{bed.hosts[0].label}")
    assert (refused.status, "has a running agent" in refused.text) == (500, True)
