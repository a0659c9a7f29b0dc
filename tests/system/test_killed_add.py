"""An agent that is killed while it configures a pod's namespace: the next one undoes the ADD.

That it had reached this point is certain: the agent stops itself there (`tests.system.halting`).
`tests.system.test_crashes` kills agents at random moments.
"""

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import IFNAME, Pod, Sandbox, new_sandbox
from tests.bed.waiting import eventually
from tests.system import halting
from tests.system.footprint import eventually_same, steady

pytestmark = [pytest.mark.system]

TRY_AGAIN_LATER = 11


@pytest.fixture(scope="module")
def peer(bed: Bed) -> Pod:
    """Run a pod on the host whose agent lives."""
    return bed.add_pod(bed.hosts[1], "peer")


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    """Make a pod's sandbox that is without network."""
    sandbox = new_sandbox("p", Namespace(fresh_name("p")))
    yield sandbox
    sandbox.namespace.delete()


def test_an_add_that_is_repeated_starts_anew(bed: Bed, sandbox: Sandbox, peer: Pod) -> None:
    before = steady(bed)
    kill_halfway(bed, sandbox)
    host = bed.hosts[0]
    pod = bed.runtime.add(host, bed.conf(host), sandbox)
    eventually(lambda: pod.ping(peer.address), "the pod reaches another")
    assert entries(bed) == [(sandbox.container_id, "present", pod.address)]
    bed.runtime.delete(pod)
    eventually_same(bed, before)


def test_an_add_that_nobody_repeats_is_undone(bed: Bed, sandbox: Sandbox) -> None:
    before = steady(bed)
    kill_halfway(bed, sandbox)
    eventually_same(bed, before)
    assert IFNAME not in links(sandbox)


def kill_halfway(bed: Bed, sandbox: Sandbox) -> None:
    """Start an ADD, kill the agent in the midst of it, and start the next agent."""
    with halting_agent(bed.agents[0]) as agent, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(add, bed, sandbox)
        eventually(lambda: agent.frozen, "the agent configures the namespace")
        link = links(sandbox)[IFNAME]
        assert "UP" in link["flags"]
        assert [a for a in link["addr_info"] if a["family"] == "inet"] == []
        # The address is granted, and the journal does not say more than that it was asked for.
        assert sandbox.container_id in {
            json.loads(record)["endpointID"]
            for record in bed.store.entries("/contiv.io/state/eps/").values()
        }
        assert entries(bed) == [(sandbox.container_id, "adding", "")]
        agent.kill()
        said = answer.result()
        assert (said.returncode, json.loads(said.stdout)["code"]) == (1, TRY_AGAIN_LATER)


@contextmanager
def halting_agent(agent: Daemon) -> Iterator[Daemon]:
    """Run, in an agent's place, one that stops itself; then the agent again."""
    agent.stop()
    usual = agent.command
    agent.command = halting.command(usual, sys.executable)
    try:
        agent.start()
        yield agent
    finally:
        agent.kill()
        agent.command = usual
        agent.start()


def add(bed: Bed, sandbox: Sandbox) -> "CompletedProcess[str]":
    host, netns = bed.hosts[0], str(sandbox.namespace.path)
    return bed.runtime.call("ADD", host, bed.conf(host), sandbox, netns=netns)


def entries(bed: Bed) -> list[tuple[str, str, str]]:
    """Return whom the journal of the host names, in which state and with which address."""
    files = (bed.hosts[0].dir / "data" / "endpoints").glob("*.json")
    found = [json.loads(file.read_text()) for file in files]
    return [(one["container_id"], one["state"], one["ip_address"]) for one in found]


def links(sandbox: Sandbox) -> dict[str, dict[str, Any]]:
    """Return the links in a sandbox by their names."""
    found = json.loads(sandbox.namespace.run(["ip", "-json", "address"]).stdout)
    return {link["ifname"]: link for link in found}
