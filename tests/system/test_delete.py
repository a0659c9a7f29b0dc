"""A DEL succeeds whatever has become of the pod, and what it could not do is done later.

After each: no address or record, no link, no switch port, no flow, no journal file is left.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest

from tests.bed.cluster import Bed
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import Pod, new_sandbox
from tests.bed.waiting import eventually
from tests.system.footprint import Footprint, eventually_same, steady, stored
from tests.system.rest import release

pytestmark = [pytest.mark.system]


@pytest.fixture
def before(bed: Bed) -> Footprint:
    """Take the footprint of the time before the pod."""
    return steady(bed)


@pytest.fixture
def pod(bed: Bed, before: Footprint) -> Pod:
    """Run the pod that will be deleted, when the time before it is recorded."""
    assert before.links
    return bed.add_pod(bed.hosts[0], "p")


def delete(bed: Bed, pod: Pod, *, netns: str | None = None) -> None:
    """Run a DEL, which must succeed and say nothing."""
    netns = str(pod.namespace.path) if netns is None else netns
    done = bed.runtime.call("DEL", pod.host, pod.conf, pod.sandbox, netns=netns)
    assert (done.returncode, done.stdout) == (0, "")


def forget(bed: Bed, pod: Pod) -> None:
    """End the sandbox, as a runtime does in the end."""
    pod.namespace.delete()
    bed.pods.remove(pod)


def test_a_pod_that_runs(bed: Bed, pod: Pod, before: Footprint) -> None:
    delete(bed, pod)
    eventually_same(bed, before)
    assert "eth0" not in pod.namespace.run(["ip", "link"]).stdout
    forget(bed, pod)


def test_a_namespace_that_is_gone(bed: Bed, pod: Pod, before: Footprint) -> None:
    pod.namespace.delete()
    delete(bed, pod)
    eventually_same(bed, before)
    forget(bed, pod)


def test_a_namespace_that_is_not_named(bed: Bed, pod: Pod, before: Footprint) -> None:
    delete(bed, pod, netns="")
    eventually_same(bed, before)
    forget(bed, pod)


def test_a_pod_nobody_knows(bed: Bed, before: Footprint) -> None:
    sandbox = new_sandbox("stranger", Namespace(fresh_name("stranger")))
    stranger = Pod(sandbox=sandbox, host=bed.hosts[0], conf=bed.conf(bed.hosts[0]), result={})
    delete(bed, stranger)
    delete(bed, stranger, netns="")
    stranger.namespace.delete()
    eventually_same(bed, before)


def test_a_network_that_is_gone(bed: Bed, before: Footprint) -> None:
    bed.netctl("net", "create", "--subnet=10.30.0.0/24", "short")
    pod = bed.add_pod(bed.hosts[0], "p", network="short")
    delete(bed, pod)
    eventually(lambda: "short.default" not in str(stored(bed)), "the pod is released")
    bed.netctl("net", "rm", "short")
    delete(bed, pod)
    eventually_same(bed, before)
    forget(bed, pod)


@pytest.mark.parametrize("times", [2, 8])
def test_several_at_once(times: int, bed: Bed, pod: Pod, before: Footprint) -> None:
    with ThreadPoolExecutor(times) as pool:
        calls = [pool.submit(delete, bed, pod) for _ in range(times)]
        for call in calls:
            call.result()
    delete(bed, pod)
    eventually_same(bed, before)
    forget(bed, pod)


def test_one_during_the_add(bed: Bed, before: Footprint) -> None:
    # a runtime that lost patience deletes while its ADD still runs
    sandbox = new_sandbox("p", Namespace(fresh_name("p")))
    conf = bed.conf(bed.hosts[0])
    pod = Pod(sandbox=sandbox, host=bed.hosts[0], conf=conf, result={})
    netns = str(sandbox.namespace.path)
    for delay in (0.0, 0.01, 0.02, 0.04):
        with ThreadPoolExecutor(1) as pool:
            adding = pool.submit(bed.runtime.call, "ADD", bed.hosts[0], conf, sandbox, netns=netns)
            time.sleep(delay)  # a moment, not a condition: the calls shall meet
            delete(bed, pod)
            adding.result()
        delete(bed, pod)
        eventually_same(bed, before)
    sandbox.namespace.delete()


def test_an_add_right_behind(bed: Bed, pod: Pod, before: Footprint) -> None:
    peer = bed.add_pod(bed.hosts[1], "peer")
    for _ in range(5):
        delete(bed, pod)
        again = bed.runtime.add(pod.host, pod.conf, pod.sandbox)
        eventually(partial(again.ping, peer.address), "the pod works again")
    bed.delete_pod(peer)
    delete(bed, pod)
    eventually_same(bed, before)
    forget(bed, pod)


@pytest.mark.parametrize("where", [0, 1], ids=["beside it", "on another host"])
def test_a_pod_deleted_by_force_whose_successor_runs(
    where: int, bed: Bed, pod: Pod, before: Footprint
) -> None:
    """Its node is late: the DEL comes when the next pod of its name has a network."""
    with ExitStack() as late:
        if where:
            late.callback(bed.agents[0].resume)
            bed.agents[0].pause()
        sandbox = new_sandbox(pod.name, Namespace(fresh_name("next")))
        bed.pods.append(
            successor := bed.runtime.add(bed.hosts[where], bed.conf(bed.hosts[where]), sandbox)
        )
    assert successor.address != pod.address
    delete(bed, pod)
    peer = bed.add_pod(bed.hosts[1 - where], "peer")
    eventually(partial(peer.ping, successor.address), "the successor keeps its network")
    for one in (peer, successor):
        bed.delete_pod(one)
    eventually_same(bed, before)
    forget(bed, pod)


def test_an_endpoint_removed_behind_the_agent(bed: Bed, pod: Pod, before: Footprint) -> None:
    release(bed, pod)
    delete(bed, pod)
    eventually_same(bed, before)
    forget(bed, pod)


def test_links_and_ports_removed_behind_the_agent(bed: Bed, pod: Pod, before: Footprint) -> None:
    port = pod.result["interfaces"][0]["name"]
    pod.host.namespace.run(["ip", "link", "delete", port])
    pod.host.ovs.vsctl("del-port", port)
    delete(bed, pod)
    eventually_same(bed, before)
    forget(bed, pod)


@pytest.mark.parametrize("agent_dies", [False, True], ids=["agent lives", "agent dies"])
def test_without_netmaster(agent_dies: bool, bed: Bed, pod: Pod, before: Footprint) -> None:
    held = stored(bed)
    bed.netmaster.kill()
    try:
        delete(bed, pod)
        assert stored(bed) == held, "nobody could release it"
        forget(bed, pod)
        if agent_dies:
            bed.agents[0].kill()
            bed.agents[0].start()
    finally:
        bed.netmaster.start()
    eventually_same(bed, before)


def test_without_the_store(bed: Bed, pod: Pod, before: Footprint) -> None:
    bed.store.pause()
    try:
        delete(bed, pod)
    finally:
        bed.store.resume()
    bed.netmaster.await_ready()
    eventually_same(bed, before)
    forget(bed, pod)


@pytest.mark.usefixtures("line")
def test_without_the_switch(bed: Bed, pod: Pod, before: Footprint) -> None:
    pod.host.ovs.vswitchd.pause()
    try:
        delete(bed, pod)
    finally:
        pod.host.ovs.vswitchd.resume()
    eventually_same(bed, before)
    forget(bed, pod)


def test_without_the_switch_s_database(bed: Bed, pod: Pod, before: Footprint) -> None:
    pod.host.ovs.server.pause()
    try:
        delete(bed, pod)
    finally:
        pod.host.ovs.server.resume()
    eventually_same(bed, before)
    forget(bed, pod)
