"""What tests of leadership share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from core import keys
from core.tasks import background
from netmaster.api.dispatch import Leader
from netmaster.api.http.server import RestServer
from netmaster.api.leader.agents import RegisteredAgents
from netmaster.api.leader.status import StatusApi
from netmaster.leadership import (
    ExternalParties,
    LeaderSettings,
    Leadership,
    LeadershipTiming,
    MasterContext,
)
from netmaster.plan.objects.globals import StartupFlags
from objdb.memory import Faults, MemoryStore
from objdb.memory.locks import MemoryLock
from ofnet.rpc.control import Node, OfnetMaster
from tests.bed.waiting import eventually_async
from tests.unit.netmaster.fake_docker import FakeDocker
from tests.unit.netmaster.fake_gateway import FakeGateway
from tests.unit.netmaster.term import GatedBackend


async def elsewhere(_: web.BaseRequest) -> web.StreamResponse:
    """Stand for the follower's proxy."""
    return web.Response()


@dataclass
class Master:
    """A candidate and what it works with."""

    backend: GatedBackend
    lock: MemoryLock
    server: RestServer
    announced: list[str]

    def leads(self) -> bool:
        return isinstance(getattr(self.server.role, "__self__", None), Leader)

    def follows(self) -> bool:
        return self.server.role is elsewhere

    async def until_leading(self) -> None:
        async def check() -> bool:
            return self.leads()

        await eventually_async(check, "it leads")

    async def until_following(self) -> None:
        async def check() -> bool:
            return self.follows()

        await eventually_async(check, "it follows")


@asynccontextmanager
async def candidate(
    store: MemoryStore,
    *,
    fwd_mode: str = "routing",
    faults: Faults | None = None,
    timing: LeadershipTiming | None = None,
) -> AsyncIterator[Master]:
    """Run a master's candidacy."""
    backend = GatedBackend(store, faults or Faults())
    lock = MemoryLock(store, keys.LEADER_LOCK, "10.0.0.1:9999", 5)
    server = RestServer()
    announced: list[str] = []
    agents = RegisteredAgents(backend)
    leadership = Leadership(
        MasterContext(
            backend=backend, lock=lock, writer="netmaster-10.0.0.1:9999", now=lambda: 1000.0
        ),
        server,
        elsewhere,
        parties=ExternalParties(
            agents=agents,
            reports={},
            gateway=FakeGateway(),
            docker=FakeDocker(),
            announce=announced.append,
        ),
        status=StatusApi("1", backend, lock, ofnet=OfnetMaster(), own=Node("10.0.0.1", 9001)),
        settings=LeaderSettings(
            mode="kubernetes",
            flags=StartupFlags(fwd_mode=fwd_mode, infra_type="default"),
            dead_host_after=0,
            timing=timing or LeadershipTiming(),
        ),
    )
    try:
        async with background("leadership", leadership.run()):
            yield Master(backend, lock, server, announced)
    finally:
        await agents.close()
