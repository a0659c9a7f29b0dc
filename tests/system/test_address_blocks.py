"""Pods start while netmaster and the store are away, with addresses that their host holds ahead."""

from collections.abc import Mapping, Sequence

import pytest

from tests.bed.cluster import Bed
from tests.bed.waiting import eventually
from tests.system.blocks import held_ahead, stored_address

pytestmark = [
    pytest.mark.system,
    pytest.mark.usefixtures("no_pods_left"),
]

SIZE = 4


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Let each host hold some addresses."""
    return {"netplugin": ["--address-blocks", str(SIZE)]}


def test_pods_start_without_netmaster_and_store(bed: Bed) -> None:
    near, far = bed.hosts
    first, other = bed.add_pod(near, "first"), bed.add_pod(far, "other")
    eventually(lambda: len(held_ahead(bed, near)) == SIZE, "the host holds addresses")
    held = held_ahead(bed, near)
    bed.netmaster.kill()
    bed.store.kill()
    pods = [bed.add_pod(near, f"alone{number}") for number in range(2)]
    assert len({pod.address for pod in pods}) == len(pods)
    assert {pod.address for pod in pods} <= held
    for pod in pods:
        eventually(lambda pod=pod: pod.ping(first.address), "it reaches pods of its host")  # type: ignore[misc]
    bed.delete_pod(pods.pop())
    bed.store.start()
    bed.netmaster.start()
    (pod,) = pods
    eventually(lambda: stored_address(bed, pod) == pod.address, "it is reported")
    eventually(lambda: other.ping(pod.address), "other hosts reach it")
    eventually(lambda: len(held_ahead(bed, near)) >= SIZE // 2, "more are held")
    assert pod.address not in held_ahead(bed, near)


def test_an_agent_that_restarts_keeps_its_pods_and_takes_other_addresses(bed: Bed) -> None:
    near = bed.hosts[0]
    bed.add_pod(near, "early")
    eventually(lambda: len(held_ahead(bed, near)) > SIZE // 2, "the host holds addresses")
    bed.netmaster.kill()
    pod = bed.add_pod(near, "unreported")
    bed.agents[0].kill()
    bed.agents[0].start()
    bed.netmaster.start()
    eventually(lambda: stored_address(bed, pod) == pod.address, "it is reported")
    after = bed.add_pod(near, "after")
    assert after.address != pod.address
    eventually(lambda: after.ping(pod.address), "both are there")


def test_an_agent_without_blocks_gives_back_what_its_host_held(bed: Bed) -> None:
    near = bed.hosts[0]
    bed.delete_pod(bed.add_pod(near, "early"))
    eventually(lambda: held_ahead(bed, near), "the host holds addresses")
    agent = bed.agents[0]
    with_blocks = list(agent.command)
    agent.kill()
    agent.command[:] = [word for word in with_blocks if word != "--address-blocks"]
    agent.command.remove(str(SIZE))
    agent.start()
    try:
        eventually(lambda: not held_ahead(bed, near), "it is given back")
        pod = bed.add_pod(near, "plain")
        assert stored_address(bed, pod) == pod.address
    finally:
        agent.kill()
        agent.command[:] = with_blocks
        agent.start()
