"""A released address rests as netmaster has it by itself; small pools wait for none."""

from collections.abc import Mapping, Sequence
from functools import partial

import pytest

from core import keys
from netmaster import settings
from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.system, pytest.mark.ovs]

DEFAULT = next(flag.default for flag in settings.FLAGS if "address-cooldown" in flag.names)


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Say what netmaster has by itself: beds let addresses go at once."""
    return {"netmaster": ["--address-cooldown", DEFAULT]}


def released(bed: Bed, pod: Pod) -> bool:
    """Say whether the store has no endpoint of a pod any more."""
    return not any(pod.sandbox.container_id in key for key in bed.store.entries(keys.ENDPOINTS))


def test_a_released_address_rests_while_there_are_others(bed: Bed) -> None:
    bed.netctl("net", "create", "--subnet=10.33.0.0/29", "--gateway=10.33.0.6", "small")
    pods = [bed.add_pod(bed.hosts[0], f"s{number}", network="small") for number in range(4)]
    assert [pod.address for pod in pods] == [f"10.33.0.{number}" for number in range(1, 5)]
    for pod in (pods[1], pods[0]):
        bed.delete_pod(pod)
        eventually(partial(released, bed, pod), "it is released")
    later = [bed.add_pod(bed.hosts[1], f"n{number}", network="small") for number in range(3)]
    assert [pod.address for pod in later] == ["10.33.0.5", pods[1].address, pods[0].address]
    for pod in (*pods[2:], *later):
        bed.delete_pod(pod)
