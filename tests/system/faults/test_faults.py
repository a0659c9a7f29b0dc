"""50 clients get and give back addresses while masters, store and network fail: nobody is wronged.

A failed run names its seed; CONTIV_TEST_SEED repeats its faults, as far as the machine does.
CONTIV_TEST_OPERATIONS lets faults go on until clients have asked so often (`make faults`), with
CONTIV_TEST_BLOCKS some hosts give addresses that they hold ahead (ADR 29).
"""

import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

import pytest

from core import ids, keys
from core.ids import NetworkId
from tests.bed.daemon import LOG_TAIL
from tests.bed.waiting import WITHIN, eventually
from tests.system.conftest import UNFORESEEN
from tests.system.faults.checker import violations
from tests.system.faults.clients import Crowd
from tests.system.faults.cluster import FaultyCluster
from tests.system.faults.evidence import RESERVATION
from tests.system.faults.history import Done, History, NotDone, Refused, Unknown, Verb
from tests.system.faults.nemesis import Kind, Nemesis, Round, plan
from tests.system.faults.stores import KINDS

OPERATIONS: Final = int(os.environ.get("CONTIV_TEST_OPERATIONS", "0"))
"""How many requests clients send at least; the faults of a plan begin anew until then."""

BLOCKS: Final = int(os.environ.get("CONTIV_TEST_BLOCKS", "0"))
"""How many addresses of each network some hosts hold ahead of their endpoints."""

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.system,
    pytest.mark.store,
    pytest.mark.stores("etcd", "consul"),
    pytest.mark.timeout(1800 + OPERATIONS // 10),
]

CLIENTS: Final = [f"c{number:02d}" for number in range(50)]
SMALL, LARGE = "small", "large"
NETWORKS: Final = (SMALL, LARGE)
PROGRESS: Final = max(50, OPERATIONS // 500)
"""Requests to be acknowledged between two rounds of faults."""


@pytest.fixture
def chance() -> Random:
    """Give all that is left to chance; the seed is shown when the test fails."""
    seed = int(os.environ.get("CONTIV_TEST_SEED") or secrets.randbits(32))
    print(f"CONTIV_TEST_SEED={seed}")  # noqa: T201 - shown when the test fails
    return Random(seed)


@pytest.fixture
def cluster(store_kind: str, bed_dir: Path) -> Iterator[FaultyCluster]:
    """Run three masters on a store, with two networks: the small one has room for few."""
    cluster = FaultyCluster(bed_dir, KINDS[store_kind]).start()
    try:
        cluster.make_network(SMALL, "10.1.0.0/26", "10.1.0.62", CLIENTS)
        cluster.make_network(LARGE, "10.2.0.0/16", "10.2.255.254", CLIENTS)
        yield cluster
    finally:
        cluster.stop()


def test_nobody_is_wronged(
    cluster: FaultyCluster, chance: Random, record_property: Callable[[str, object], None]
) -> None:
    before = {network: cluster.told(network) for network in NETWORKS}
    nemesis = Nemesis(cluster)
    with crowd_of(cluster, chance) as crowd:
        for faults in rounds(crowd, chance):
            print(", ".join(map(str, faults)))  # noqa: T201 - shown when the test fails
            nemesis.perform(faults)
            cluster.await_led(within=WITHIN)
            crowd.work(PROGRESS, within=WITHIN)
        history = crowd.finish(within=WITHIN)
    print(f"{crowd.given_ahead} addresses were given by hosts")  # noqa: T201 - likewise
    print(f"{crowd.asked} requests: {figures(history)}")  # noqa: T201 - likewise
    print(dict(Counter(nemesis.began)))  # noqa: T201 - likewise
    found = violations(history, cluster.evidence(NETWORKS))
    record_property("figures", f"{crowd.asked} requests, {len(found)} violations")
    assert found == [], tale(history, found)
    assert set(nemesis.began) == set(Kind)
    for verb in Verb:
        assert history.count(verb, Done) >= 10 or (verb is Verb.REPORT and not BLOCKS), verb
    disturbed = history.count(Verb.CREATE, Unknown) + history.count(Verb.REPORT, Unknown)
    assert disturbed > 0, "nobody was disturbed"
    assert history.count(Verb.CREATE, Refused) > 0, "the small network never was full"
    release_all(cluster)
    assert {network: cluster.told(network) for network in NETWORKS} == before
    said = unforeseen(cluster)
    assert said == [], "\n".join(said)


@pytest.mark.stores("etcd")
def test_whoever_is_wronged_is_found(cluster: FaultyCluster, chance: Random) -> None:
    """Rob one client behind netmaster's back, and give its address to another."""
    with crowd_of(cluster, chance) as crowd:
        crowd.work(10 * PROGRESS, within=WITHIN)
        history = crowd.finish(within=WITHIN)
    evidence = cluster.evidence(NETWORKS)
    assert violations(history, evidence) == []
    (robbed, address), (other, grant) = sorted(evidence.endpoints(SMALL).items())[:2]
    nid = NetworkId(f"{SMALL}.default")

    cluster.store.delete(keys.grant(nid, grant))
    cluster.store.delete(keys.grant(nid, address))
    cluster.store.delete(keys.endpoint(ids.endpoint_key(nid, robbed)))
    found = violations(history, cluster.evidence(NETWORKS))
    assert f"{robbed} on {SMALL} was acknowledged {address}, the store has None" in found
    assert f"{nid}-{other} uses {grant} on {SMALL} without holding it" in found

    thief = history.invoke(Verb.CREATE, CLIENTS[0], SMALL, "thief")
    eventually(lambda: cluster.create_endpoint(SMALL, "thief", address), "the theft", within=WITHIN)
    history.end(thief, Done(address))
    found = violations(history, cluster.evidence(NETWORKS))
    assert f"{address} on {SMALL} was held by {robbed} and thief at once" in found


def rounds(crowd: Crowd, chance: Random) -> Iterator[Round]:
    """Yield the rounds of one plan after another until clients have asked often enough."""
    yield from plan(chance)
    while crowd.asked < OPERATIONS:
        yield from plan(chance)


def crowd_of(cluster: FaultyCluster, chance: Random) -> Crowd:
    """Let all clients begin, beside the nodes."""
    urls = [master.url for master in cluster.masters]
    crowd = Crowd(cluster.fabric.namespace, urls, NETWORKS, chance, blocks=BLOCKS)
    crowd.start(CLIENTS)
    return crowd


def release_all(cluster: FaultyCluster) -> None:
    """Have all endpoints and reservations taken back; what comes late is taken back too."""

    def emptied() -> bool:
        evidence = cluster.evidence(NETWORKS)
        left = False
        for network in NETWORKS:
            for name in evidence.endpoints(network):
                left = True
                cluster.delete_endpoint(network, name)
            for address, grant in evidence.grants(network).items():
                if grant.kind == RESERVATION:
                    left = True
                    cluster.release_address(network, address)
        return not left

    eventually(emptied, "nothing is held", within=WITHIN)


def unforeseen(cluster: FaultyCluster) -> list[str]:
    """Tell what masters said that none may ever say, each with the lines that follow."""
    logs = [master.log_text() for master in cluster.masters]
    return [log[found.start() :][:LOG_TAIL] for log in logs for found in UNFORESEEN.finditer(log)]


def figures(history: History) -> str:
    """Tell how many requests had which outcome."""
    return "; ".join(
        f"{verb}: "
        + ", ".join(
            f"{history.count(verb, kind)} {kind.__name__}"
            for kind in (Done, Refused, NotDone, Unknown)
        )
        for verb in Verb
    )


def tale(history: History, found: Sequence[str]) -> str:
    """Tell all that was asked about whom the checker names."""
    names = {operation.name for operation in history.operations}
    named = {name for name in names if any(name in sentence for sentence in found)}
    return "\n".join(
        [*found, *(str(one) for one in history.operations if one.name in named)],
    )
