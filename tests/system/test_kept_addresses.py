"""Pods that ask for addresses by annotations, and that have theirs again wherever they restart.

`make sticky-check RESTARTS=1000` restarts more of them.
"""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.kubernetes import ApiServer
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import WITHIN, eventually
from tests.system.kube_site import api_beside, api_flags

pytestmark = [
    pytest.mark.system,
    pytest.mark.ovs,
    pytest.mark.usefixtures("api", "no_pods_left"),
]

T = TypeVar("T")

RESTARTS = int(os.environ.get("CONTIV_TEST_RESTARTS", "20"))
SET = 6
"""Pods of the StatefulSet."""
FAULTS_EACH = 4
"""A fault happens while every fourth pod restarts."""
STICKY = {"io.contiv.sticky": "true"}
RETRY = 0.5
"""Seconds between two attempts, as kubelet makes them after some time, too."""


@pytest.fixture(scope="module")
def hosts() -> int:
    """Pods come back on any of three hosts."""
    return 3


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """Have agents read pods from an API server."""
    return {"netplugin": api_flags(tmp_path_factory)}


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server."""
    with api_beside(bed) as api:
        yield api


def insist(attempt: Callable[[], T]) -> T:
    """Repeat a call of the plugin until it succeeds, as kubelet does."""
    end = time.monotonic() + WITHIN
    while True:
        try:
            return attempt()
        except CniFailed:
            if time.monotonic() > end:
                raise
            time.sleep(RETRY)


def identity(pod: Pod) -> tuple[str, str]:
    return pod.address, pod.mac


def refusal(bed: Bed, host: Host, name: str, annotations: Mapping[str, str]) -> str:
    """Return why a pod is not made."""
    with pytest.raises(CniFailed) as caught:
        bed.add_pod(host, name, annotations=annotations)
    return str(caught.value.answer["details"])


def test_a_pod_has_the_addresses_that_its_annotations_ask_for(bed: Bed) -> None:
    near, far, _ = bed.hosts
    asked = {"io.contiv.ip": "10.20.3.7", "io.contiv.mac": "52:54:00:12:34:56"}
    pod, other = bed.add_pod(near, "asks", annotations=asked), bed.add_pod(far, "other")
    assert identity(pod) == ("10.20.3.7", "52:54:00:12:34:56")
    eventually(lambda: other.ping(pod.address), "it is reached there")
    why = refusal(bed, far, "late", {"io.contiv.ip": "10.20.3.7"})
    assert f"pod default/asks on host {near.label} has it" in why
    assert "MAC address 52:54:00:12:34:56 is in use" in refusal(
        bed, far, "late", {"io.contiv.mac": asked["io.contiv.mac"]}
    )
    assert "'10.20.3' is not an IPv4 address" in refusal(
        bed, far, "late", {"io.contiv.ip": "10.20.3"}
    )
    bed.netctl("net", "set", "--exclude=10.20.9.0/24", "default-net")
    why = refusal(bed, far, "late", {"io.contiv.ip": "10.20.9.9"})
    assert "network default-net.default excludes it" in why


def test_a_second_pod_of_a_name_waits_for_the_first_one(bed: Bed) -> None:
    near, far, _ = bed.hosts
    first = bed.add_pod(near, "db-0", annotations=STICKY)
    was = identity(first)
    why = refusal(bed, far, "db-0", STICKY)
    assert f"is kept for default/db-0, and pod default/db-0 on host {near.label} has it" in why
    bed.delete_pod(first)
    taken = {bed.add_pod(near, f"other-{number}").address for number in range(3)}
    again = insist(lambda: bed.add_pod(far, "db-0", annotations=STICKY))
    assert identity(again) == was
    assert was[0] not in taken


def test_no_restart_changes_an_address_and_none_is_given_twice(bed: Bed) -> None:
    chance = random.Random(RESTARTS)
    names = [f"web-{number}" for number in range(SET)]
    running = {
        name: bed.add_pod(chance.choice(bed.hosts), name, annotations=STICKY) for name in names
    }
    first = {name: identity(pod) for name, pod in running.items()}
    assert len({address for address, _ in first.values()}) == SET
    passing: list[Pod] = []
    with ThreadPoolExecutor(1) as striking:
        for number in range(RESTARTS):
            fault: Future[None] | None = None
            if number % FAULTS_EACH == 0:
                fault = striking.submit(
                    _strike, bed, chance.randrange(4), chance.choice(bed.agents)
                )
            name = chance.choice(names)
            _restart(bed, running, name, chance.choice(bed.hosts))
            if passing and chance.random() < 0.5:
                gone = passing.pop(chance.randrange(len(passing)))
                insist(lambda gone=gone: bed.delete_pod(gone))  # type: ignore[misc]
            else:
                host = chance.choice(bed.hosts)
                called = f"passing-{number}"
                passing.append(insist(lambda host=host, called=called: bed.add_pod(host, called)))  # type: ignore[misc]
            if fault is not None:
                fault.result(WITHIN)
            assert identity(running[name]) == first[name], (number, name)
            held = [pod.address for pod in (*running.values(), *passing)]
            assert len(held) == len(set(held)), (number, held)
    assert {name: identity(pod) for name, pod in running.items()} == first
    one, *others = running.values()
    for other in others:
        eventually(lambda other=other: other.ping(one.address), "all reach each other")  # type: ignore[misc]
    eventually(
        lambda: bed.netctl("ipam", "check", check=False) == "", "all addresses have their holders"
    )


def _restart(bed: Bed, running: dict[str, Pod], name: str, host: Host) -> None:
    """Have a pod end where it is and start on a host."""
    before = running[name]
    insist(lambda: bed.delete_pod(before))
    running[name] = insist(lambda: bed.add_pod(host, name, annotations=STICKY))


def _strike(bed: Bed, kind: int, agent: object) -> None:
    """Have a daemon end, or stand still for a while, and come back."""
    match kind:
        case 0:
            bed.netmaster.kill()
            bed.netmaster.start()
        case 1:
            bed.netmaster.pause()
            time.sleep(2)
            bed.netmaster.resume()
        case 2:
            bed.store.kill()
            bed.store.start()
        case _:
            chosen = next(one for one in bed.agents if one is agent)
            chosen.kill()
            chosen.start()


def test_what_is_kept_is_listed_and_released(bed: Bed) -> None:
    near, far, _ = bed.hosts
    pod = bed.add_pod(near, "gone-0", annotations=STICKY)
    was = pod.address
    bed.delete_pod(pod)
    eventually(lambda: was in bed.netctl("ipam", "kept"), "it is listed")
    bed.netctl("ipam", "release", "default-net", "default/gone-0")
    assert was not in bed.netctl("ipam", "kept")
    other = bed.add_pod(far, "takes", annotations={"io.contiv.ip": was})
    assert other.address == was
