"""Three etcd members: one dies or freezes; writes continue, the lock stays, nothing is lost."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.tasks import background
from objdb.api import Backend, Change, Committed, Fence, Put
from tests.bed.etcd import Etcd
from tests.bed.etcd_cluster import EtcdCluster
from tests.contract.following import following
from tests.integration.objdb.conftest import Connect, endpoint

pytestmark = [pytest.mark.store, pytest.mark.stores("etcd")]

ROOT = "/test/"


@pytest.fixture
def members(bed_dir: Path) -> Iterator[list[Etcd]]:
    cluster = EtcdCluster(bed_dir)
    cluster.start()
    yield cluster.members
    cluster.kill()


class Writer:
    """Writes numbers one after the other."""

    def __init__(self, backend: Backend, fence: Fence) -> None:
        self._backend = backend
        self._fence = fence
        self.count = 0

    async def write(self) -> None:
        while True:
            change = Change((), (Put(f"{ROOT}{self.count}", b""),))
            (outcome,) = await self._backend.commit([change], fence=self._fence, writer="w")
            assert isinstance(outcome, Committed)
            self.count += 1


@pytest.mark.parametrize("way", ["kill", "pause"])
@pytest.mark.parametrize("whom", ["leader", "follower"])
async def test_a_lost_member_costs_time_and_nothing_else(
    members: list[Etcd], connect: Connect, whom: str, way: str
) -> None:
    leader = next(member for member in members if member.leads_raft())
    order = sorted(members, key=lambda member: (member is leader) != (whom == "leader"))
    victim = order[0]  # the first endpoint is the one in use
    backend = connect(*map(endpoint, order))
    # longer than a third of it (until the next renewal), an attempt at a member that is silent, one
    # at a member that waits for its leader, and an election of two seconds
    lock = backend.lock("/lock", "me", 10)
    writer = Writer(backend, await lock.acquire())
    async with following(backend, ROOT) as follower, background("lost", lock.lost()) as lost:
        async with background("writer", writer.write()):
            await asyncio.sleep(0.5)
            before = writer.count
            getattr(victim, way)()
            await follower.until(lambda world: len(world) > before + 100)
        assert not lost.done()
        await follower.until(lambda world: len(world) >= writer.count)
    await lock.release()
