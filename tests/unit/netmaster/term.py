"""A term of leadership on the memory store, with a gate before its commits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from unittest.mock import Mock

from core import keys
from core.errors import ContivError, FenceLost
from core.tasks import background
from netmaster.api.leader.agents import Answers, RegisteredAgents
from netmaster.api.leader.conditions_api import ConditionsApi
from netmaster.api.leader.hosts import HostsApi
from netmaster.api.leader.ipam import IpamApi
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.api.leader.status import StatusApi
from netmaster.api.route_table import ROUTE_FINDER
from netmaster.commits.commit import Committer, CommitTiming, WriteAuthority
from netmaster.commits.standby import following
from netmaster.hosts.cleanups import Cleanups
from netmaster.plan.endpoints import endpoint
from netmaster.plan.model import Plan
from netmaster.plan.objects import globals as settings
from netmaster.plan.objects import group, network, rule, tenant
from netmaster.reservations import Reservations
from netmaster.view import View
from objdb.api import Change, Fence, Outcome
from objdb.memory import Faults, MemoryBackend, MemoryStore
from ofnet.rpc.control import Node, OfnetMaster
from state.records import EndpointRecord
from tests.unit.netmaster.scene import NOW, a_group, a_network, a_rule, unwanted, wanted


class GatedBackend(MemoryBackend):
    """A client whose commits wait at a gate and are counted."""

    def __init__(self, store: MemoryStore, faults: Faults) -> None:
        super().__init__(store, faults)
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self.commits: list[int] = []
        self.last_commit: int | None = None
        """How many commits are made before the lock is lost; None for any number."""

    async def commit(
        self, changes: Sequence[Change], *, fence: Fence | None = None, writer: str | None = None
    ) -> list[Outcome]:
        self.arrived.set()
        await self.gate.wait()
        if len(self.commits) == self.last_commit:
            raise FenceLost("another master leads")
        self.commits.append(len(changes))
        return await super().commit(changes, fence=fence, writer=writer)


@dataclass
class Term:
    """A running committer and what it works with."""

    backend: GatedBackend
    committer: Committer
    ended: asyncio.Future[ContivError]
    until: list[float]

    @property
    def view(self) -> View:
        return self.committer.view

    def stored(self) -> View:
        """Return the view of what the store holds."""
        return load(self.backend.store)

    async def endpoint(self, container: str, network_name: str = "n1", **config: str) -> str:
        """Create an endpoint; return its address."""
        asked = wanted(container, network_name, **config)
        reply = await self.committer.submit(lambda view: endpoint.create(view, asked, NOW))
        assert isinstance(reply, EndpointRecord)
        return reply.ip_address

    async def delete_endpoint(self, container: str, network_name: str = "n1") -> None:
        """Delete an endpoint."""
        asked = unwanted(container, network_name)
        await self.committer.submit(lambda view: endpoint.delete(view, asked))

    async def rule(self, rule_id: str, **more: str) -> None:
        """Add a rule to the policy `p1`."""
        asked = a_rule(rule_id, **more)
        await self.committer.submit(lambda view: rule.create(view, asked))

    async def network(self, name: str, subnet: str = "10.1.1.0/24", **more: str) -> None:
        asked = a_network(name, subnet, **more)
        await self.committer.submit(lambda view: network.create(view, asked))

    async def group(self, name: str, network_name: str = "n1") -> None:
        asked = a_group(name, network_name)
        await self.committer.submit(lambda view: group.create(view, asked))

    @asynccontextmanager
    async def held(self) -> AsyncIterator[asyncio.TaskGroup]:
        """Hold all commits for the length of the body; tasks of the group end behind it."""
        self.backend.arrived.clear()
        self.backend.gate.clear()
        async with asyncio.TaskGroup() as tasks:
            try:
                yield tasks
            finally:
                self.backend.gate.set()


async def idle() -> None:
    """Let all tasks run until each of them waits for something."""
    for _ in range(50):
        await asyncio.sleep(0)


async def outcome(asked: Awaitable[object]) -> object:
    """Return what a request is answered, or the error it is refused with."""
    try:
        return await asked
    except ContivError as exc:
        return exc


def context_of(
    lead: Term,
    change: Callable[[Callable[[View], Plan]], Awaitable[object]] | None = None,
) -> LeaderContext:
    """Return what a leader answers from, with agents that take every call and say nothing."""
    agents = Mock(spec=RegisteredAgents)
    agents.vteps.return_value = {}
    agents.ask_all.return_value = agents.ask_masters.return_value = Answers({}, {})
    agents.count.return_value = 0
    agents.trace.return_value = {"host": "h1", "faults": []}
    committer, backend = lead.committer, lead.backend
    cleanups = Cleanups(committer, agents.reclaim)
    lock = backend.lock(keys.LEADER_LOCK, "here:9999", 10.0)
    return LeaderContext(
        committer=committer,
        effects=Mock(change=change or committer.submit),
        mode="kubernetes",
        now=lambda: NOW,
        agents=agents,
        cleanups=cleanups,
        hosts=HostsApi(backend, committer, cleanups, {}, now=lambda: NOW),
        conditions=ConditionsApi(backend, committer, {}, now=lambda: NOW),
        ipam=IpamApi(backend, committer, Counter(), reservations=Reservations(), now=lambda: NOW),
        status=StatusApi("1", backend, lock, ofnet=OfnetMaster(), own=Node("10.0.0.1", 9001)),
    )


async def ask(context: LeaderContext, method: str, path: str, payload: bytes) -> None:
    """Have a leader answer a JSON request that has a route. Raises ContivError."""

    async def body() -> bytes:
        return payload

    found = ROUTE_FINDER.find(method, path)
    assert found is not None, path
    request = ApiRequest(body=body, content_type="application/json", parameters=found.parameters)
    answer = await found.route.handler(context, request)
    assert answer.status == HTTPStatus.OK


def load(store: MemoryStore) -> View:
    """Return the view of a store's content."""
    return View.load({key: e.value for key, e in store.snapshot(keys.ROOT).entries.items()})


@asynccontextmanager
async def term(
    store: MemoryStore | None = None,
    faults: Faults | None = None,
    timing: CommitTiming | None = None,
) -> AsyncIterator[Term]:
    """Lead: take the lock, load the view, make the defaults; give the lock up at the end."""
    backend = GatedBackend(store or MemoryStore(), faults or Faults())
    lock = backend.lock(keys.LEADER_LOCK, "here:9999", 10.0)
    fence = await lock.acquire()
    until = [float("inf")]
    authority = WriteAuthority(fence=fence, writer="writer", valid_until=lambda: until[0])
    ended: asyncio.Future[ContivError] = asyncio.get_running_loop().create_future()

    async def run() -> None:
        try:
            await committer.run()
        except ContivError as exc:
            ended.set_result(exc)

    async with following(backend) as standby:
        committer = await Committer.begin(backend, authority, standby, timing)
        async with background("committer", run()):
            await committer.submit(tenant.startup)
            flags = settings.StartupFlags(fwd_mode="routing", infra_type="default")
            await committer.submit(lambda view: settings.startup(view, flags))
            yield Term(backend, committer, ended, until)
    await lock.release()
    await backend.close()
