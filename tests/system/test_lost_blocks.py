"""A host that is declared dead loses the addresses it held, and uses none of them any more."""

from collections.abc import Mapping, Sequence
from itertools import count

import pytest

from core import keys
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually
from tests.system.blocks import held_ahead

pytestmark = [pytest.mark.system]


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Make the time short after which a host is dead."""
    return {"netmaster": ["--dead-host-after", "2"], "netplugin": ["--address-blocks", "4"]}


def first_that_starts(bed: Bed, host: Host) -> Pod:
    """Add pods until one starts: an agent that stood still has lost its switch for a moment."""
    names = count()

    def added() -> Pod | None:
        try:
            return bed.add_pod(host, f"first{next(names)}")
        except CniFailed:
            return None

    pod = eventually(added, "a pod starts")
    assert pod is not None
    return pod


def test_a_host_that_is_back_does_not_use_what_it_lost(bed: Bed) -> None:
    near, far = bed.hosts
    bed.add_pod(near, "near")
    eventually(lambda: len(held_ahead(bed, near)) == 4, "the host holds addresses")
    lost = held_ahead(bed, near)
    bed.agents[0].pause()
    eventually(lambda: not held_ahead(bed, near), "they are released")
    assert not bed.store.entries(keys.ADDRESS_BLOCKS + near.label)
    takers = [bed.add_pod(far, f"taker{number}") for number in range(6)]
    taken = {pod.address for pod in takers} | held_ahead(bed, far)
    assert lost & taken
    bed.agents[0].resume()
    first = first_that_starts(bed, near)
    pods = [first, *(bed.add_pod(near, f"back{number}") for number in range(2))]
    addresses = [pod.address for pod in (*pods, *takers)]
    assert len(set(addresses)) == len(addresses)
    eventually(lambda: held_ahead(bed, near), "it holds others")

    def holds_no_others() -> bool:
        return not held_ahead(bed, near) & {*addresses, *held_ahead(bed, far)}

    # what a host gave to a pod is in its block until the endpoint is claimed
    eventually(holds_no_others, "no address it holds is another's")
    for pod in pods:
        eventually(lambda pod=pod: pod.ping(takers[0].address), "it is reached")  # type: ignore[misc]
