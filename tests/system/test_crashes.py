"""SIGKILL at random moments of a burst: what was acknowledged holds, and nothing is left over.

A failed run names its seed; CONTIV_TEST_SEED repeats its moments, as far as the machine does.
"""

import itertools
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPException
from random import Random
from subprocess import CompletedProcess

import pytest

from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.netns import Namespace, answers, fresh_name
from tests.bed.pods import Pod, Sandbox, new_sandbox
from tests.bed.waiting import eventually
from tests.system.footprint import eventually_same, inspect, steady
from tests.system.rest import Answer, create_endpoint, delete_endpoint

pytestmark = [pytest.mark.system, pytest.mark.thorough]

AT_ONCE = 10
ROUNDS = 10
"""Each with a kill during the ADDs and one during the DELs."""
BURST = 0.35
"""Seconds the calls of a round take; the kill comes within them."""
MASTER_KILLS = 5
CLIENTS = 8
TRY_AGAIN_LATER = 11


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> Random:
    """Give the moments of the kills; the seed is shown when the test fails."""
    seed = int(os.environ.get("CONTIV_TEST_SEED") or secrets.randbits(32))
    request.node.add_report_section("setup", "seed", f"CONTIV_TEST_SEED={seed}")
    return Random(seed)


def test_agents_killed_in_bursts_of_adds_and_deletes_leak_nothing(bed: Bed, chance: Random) -> None:
    peer = bed.add_pod(bed.hosts[1], "peer")
    before = steady(bed)
    kills = added = 0
    for number in range(ROUNDS):
        sandboxes = [
            new_sandbox(f"p{number}-{n}", Namespace(fresh_name(f"p{number}-{n}")))
            for n in range(AT_ONCE)
        ]
        pods = [Pod(sandbox=s, host=bed.hosts[0], conf={}, result={}) for s in sandboxes]
        done = killed_meanwhile(bed.agents[0], chance, lambda s: call(bed, "ADD", s), sandboxes)
        for pod, answer in zip(pods, done, strict=True):
            assert answer.returncode == 0 or json.loads(answer.stdout)["code"] == TRY_AGAIN_LATER
            if answer.returncode == 0:
                # the runtime was told of this one: it stays, whoever dies
                added += 1
                eventually(partial(pod.ping, peer.address), f"{pod.name} works")
        for sandbox in chance.sample(sandboxes, AT_ONCE // 4):
            sandbox.namespace.delete()
        killed_meanwhile(bed.agents[0], chance, lambda s: call(bed, "DEL", s), sandboxes)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            again = list(pool.map(lambda s: call(bed, "DEL", s), sandboxes))
        assert [answer.stdout for answer in again if answer.returncode] == []
        for sandbox in sandboxes:
            sandbox.namespace.delete()
        kills += 2
    eventually_same(bed, before)
    print(f"{kills} kills, {added} of {ROUNDS * AT_ONCE} ADDs had succeeded")  # noqa: T201 - figures
    bed.delete_pod(peer)


def killed_meanwhile(
    daemon: Daemon,
    chance: Random,
    work: Callable[[Sandbox], "CompletedProcess[str]"],
    sandboxes: Sequence[Sandbox],
) -> list["CompletedProcess[str]"]:
    """Do all of the work at once, kill and restart the daemon at some moment of it."""
    moment = chance.uniform(0, BURST)
    with ThreadPoolExecutor(len(sandboxes)) as pool:
        calls = [pool.submit(work, sandbox) for sandbox in sandboxes]
        time.sleep(moment)
        daemon.kill()
        daemon.start()
        return [call.result() for call in calls]


def call(bed: Bed, verb: str, sandbox: Sandbox) -> "CompletedProcess[str]":
    netns = str(sandbox.namespace.path) if sandbox.namespace.path.exists() else ""
    host = bed.hosts[0]
    return bed.runtime.call(verb, host, bed.conf(host), sandbox, netns=netns)


class Client:
    """Creates and deletes endpoints; keeps what it was told: addresses held, ids gone.

    What has become of the ids in `unknown` nobody told it.
    """

    def __init__(self, bed: Bed, prefix: str, chance: Random) -> None:
        self.held: dict[str, str] = {}
        self.gone: set[str] = set()
        self.unknown: set[str] = set()
        self._bed = bed
        self._names = (f"{prefix}-{number}" for number in itertools.count())
        self._chance = chance

    def run(self, over: threading.Event) -> None:
        """Go on until told to end."""
        while not over.is_set():
            if self.held and self._chance.random() < 0.4:
                name = self._chance.choice(list(self.held))
                del self.held[name]
                if self._ask(name, delete_endpoint) is not None:
                    self.gone.add(name)
            else:
                name = next(self._names)
                answer = self._ask(name, create_endpoint)
                if answer is not None:
                    self.held[name] = answer.json()["EndpointConfig"]["ipAddress"]

    def _ask(self, name: str, request: Callable[[Bed, str], Answer]) -> Answer | None:
        try:
            answer = request(self._bed, name)
        except (OSError, HTTPException):
            answer = None
        if answer is not None and answer.status == 200:
            return answer
        self.unknown.add(name)
        eventually(self._led, "netmaster leads again")
        return None

    def _led(self) -> bool:
        return answers(f"{self._bed.url}/version", namespace=self._bed.fabric.namespace)


def test_masters_killed_in_bursts_keep_what_they_acknowledged(bed: Bed, chance: Random) -> None:
    before = steady(bed)
    clients = [Client(bed, f"c{n}", Random(chance.random())) for n in range(CLIENTS)]
    over = threading.Event()
    with ThreadPoolExecutor(CLIENTS) as pool:
        running = [pool.submit(client.run, over) for client in clients]
        try:
            for _ in range(MASTER_KILLS):
                time.sleep(chance.uniform(0.05, 0.5))
                bed.netmaster.kill()
                bed.netmaster.start()
        finally:
            over.set()
        for end in running:
            end.result()
    held = {name: address for client in clients for name, address in client.held.items()}
    gone = {name for client in clients for name in client.gone}
    unknown = {name for client in clients for name in client.unknown}
    figures = f"{len(held)} held, {len(gone)} gone, {len(unknown)} unknown"
    print(f"{MASTER_KILLS} kills: {figures}")  # noqa: T201 - the figures of a failed test
    assert min(len(held), len(gone), len(unknown)) > 0
    stored = addresses_stored(bed)
    assert {name: stored.get(name) for name in held} == held
    assert gone.isdisjoint(stored)
    assert stored.keys() <= held.keys() | unknown
    assert len(set(stored.values())) == len(stored), "an address is held twice"
    assert grants_stored(bed) == {address: name for name, address in stored.items()}
    assert inspect(bed, "default", "default-net")["numEndpoints"] == len(stored)
    # whoever asks again is told the same
    for name, address in chance.sample(sorted(held.items()), min(20, len(held))):
        assert create_endpoint(bed, name).json()["EndpointConfig"]["ipAddress"] == address
    for name in stored:
        assert delete_endpoint(bed, name).status == 200
    eventually_same(bed, before)


def addresses_stored(bed: Bed) -> dict[str, str]:
    """Read the address of each endpoint record, by its container."""
    records = bed.store.entries("/contiv.io/state/eps/").values()
    return {r["endpointID"]: r["ipAddress"] for r in map(json.loads, records)}


def grants_stored(bed: Bed) -> dict[str, str]:
    """Read whose each address is, of those that are endpoints'."""
    prefix = "/contiv.io/ipam/default-net.default/"
    grants = {key: json.loads(value) for key, value in bed.store.entries(prefix).items()}
    return {
        key.removeprefix(prefix): grant["ownerID"].removeprefix("default-net.default-")
        for key, grant in grants.items()
        if grant["owner"] == "endpoint"
    }
