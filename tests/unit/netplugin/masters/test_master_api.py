"""The leader is learnt from the store and asked; whoever asks is answered in time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest

from contivmodel.client import REVISIONS_HEADER, EndpointConfig, MasterClient, PluginCall
from contivmodel.rpc import CreateEndpointRequest, DeleteEndpointRequest
from contivmodel.wire import WireModel, dumps
from core import keys
from core.errors import Exhausted, MasterUnavailable, NotFound, NotLeader
from core.ids import GroupName, HostLabel, NetworkName, TenantName
from core.tasks import background
from netplugin.masters.leader import LeaderClient, LeaderTiming
from netplugin.masters.master_api import Granted, MasterApi, WantedEndpoint, record_of
from objdb.api import Change, Delete, Put
from objdb.memory import MemoryBackend
from tests.unit.netplugin.agent import eventually, stays

WANTED = WantedEndpoint(
    host=HostLabel("h1"),
    tenant=TenantName("blue"),
    network=NetworkName("n1"),
    group=GroupName("web"),
    endpoint_id="c1",
    common_name="pod",
)
REPLY = EndpointConfig.model_validate(
    {
        "id": "n1.blue-c1",
        "netID": "n1.blue",
        "endpointID": "c1",
        "serviceName": "web",
        "endpointGroupId": 7,
        "endpointGroupKey": "web:blue",
        "ipAddress": "10.1.0.1",
        "ipv6Address": "2001:db8::1",
        "macAddress": "02:02:0a:01:00:01",
        "homingHost": "h1",
        "labels": {"a": "b"},
        "epCommonName": "pod",
    }
)
DELETE = (TenantName("blue"), NetworkName("n1"), "c1")


T = TypeVar("T")


class FakeClient(MasterClient):
    """Netmasters by their address: each answers, refuses or is silent."""

    def __init__(self) -> None:
        super().__init__()
        self.behaviour: dict[str, Exception | None] = {}
        self.asked: list[str] = []
        self.requests: list[WireModel] = []

    async def call(
        self, call: PluginCall[T], request: WireModel, *, base_url: str | None = None
    ) -> T:
        address = (base_url or "").removeprefix("http://")
        self.asked.append(address)
        self.requests.append(request)
        if address not in self.behaviour:
            await asyncio.Event().wait()  # silent
        failure = self.behaviour[address]
        if failure is not None:
            raise failure  # at once: who waits in vain must not be cut short in the middle
        return call.read(
            b'{"EndpointConfig":' + dumps(REPLY) + b"}", {REVISIONS_HEADER: '{"p/": 7}'}
        )

    async def check_ready(self, *, base_url: str | None = None) -> None:
        address = (base_url or "").removeprefix("http://")
        if failure := self.behaviour[address]:
            raise failure


@dataclass(slots=True)
class MasterCalls:
    backend: MemoryBackend = field(default_factory=MemoryBackend)
    client: FakeClient = field(default_factory=FakeClient)
    leader: LeaderClient = field(init=False)
    masters: MasterApi = field(init=False)

    def __post_init__(self) -> None:
        self.leader = LeaderClient(self.backend, self.client)
        self.masters = MasterApi(self.leader)

    async def lead(self, who: str | None) -> None:
        op = Delete(keys.LEADER_LOCK) if who is None else Put(keys.LEADER_LOCK, who.encode())
        await self.backend.commit([Change((), (op,))])
        await eventually(lambda: self.leader.leader == who)


@asynccontextmanager
async def following(timing: LeaderTiming | None = None) -> AsyncIterator[MasterCalls]:
    asking = MasterCalls()
    asking.leader.timing = timing or LeaderTiming()
    async with background("masters", asking.leader.follow()):
        yield asking
    await asking.backend.close()


SHORT = LeaderTiming(answer=0.5, election=0.5, outage_wait=0.05, retry=0.005)
SOON = LeaderTiming(retry=0.005)
"""Retry soon, within the usual limits."""


async def test_the_leader_is_asked() -> None:
    async with following() as asking:
        asking.client.behaviour["a:1"] = None
        await asking.lead("a:1")
        granted = await asking.masters.create_endpoint(WANTED)
        assert granted == Granted(record_of(REPLY), {"p/": 7})
        (request,) = asking.client.requests
        assert isinstance(request, CreateEndpointRequest)
        assert (request.tenant_name, request.network_name) == ("blue", "n1")
        assert (request.service_name, request.endpoint_id) == ("web", "c1")
        assert (request.config.container, request.config.host) == ("c1", "h1")
        assert request.config.service_name == "web"


async def test_the_answer_is_the_record_it_stands_for() -> None:
    record = record_of(REPLY)
    assert (record.key, record.network, record.group_key) == ("n1.blue-c1", "n1.blue", "web:blue")
    assert (record.ip_address, record.ipv6_address) == ("10.1.0.1", "2001:db8::1")
    assert (record.group_id, record.labels, record.homing_host) == (7, {"a": "b"}, "h1")


async def test_leaders_come_and_go() -> None:
    async with following() as asking:
        assert asking.leader.leader is None
        for who in ("a:1", "b:2", None, "c:3"):
            await asking.lead(who)
        asking.backend.store.lose_continuity()
        await asking.lead(None)
        await asking.backend.commit([Change((), (Put(keys.LOCKS + "other", b"x:1"),))])
        await asking.lead("d:4")


async def test_a_leader_that_is_to_come_is_waited_for() -> None:
    async with following() as asking:
        asking.client.behaviour["a:1"] = None
        asked = asyncio.gather(asking.masters.create_endpoint(WANTED))
        await stays(lambda: asking.client.asked == [], 0.01)
        await asking.lead("a:1")
        await asked


@pytest.mark.parametrize(
    "failure",
    [MasterUnavailable("refused"), MasterUnavailable("x", outcome_unknown=True), NotLeader("no")],
)
async def test_the_next_leader_is_asked_after_a_failure(failure: Exception) -> None:
    async with following(SOON) as asking:
        asking.client.behaviour = {"a:1": failure, "b:2": None}
        await asking.lead("a:1")
        asked = asyncio.gather(asking.masters.create_endpoint(WANTED))
        await eventually(lambda: len(asking.client.asked) >= 2)
        await asking.lead("b:2")
        await asked
        assert asking.client.asked[-1] == "b:2"


async def test_ready_once_somebody_leads() -> None:
    async with following() as asking:
        asked = asyncio.gather(asking.masters.ready())
        await asking.lead("a:1")
        await asked
        assert not asking.client.asked


async def test_a_leader_that_does_not_answer_is_named_without_waiting() -> None:
    async with following() as asking:
        with pytest.raises(MasterUnavailable, match="no netmaster leads: start one"):
            await asking.leader.ask()
        asking.client.behaviour = {"a:1": None, "b:2": MasterUnavailable("refused")}
        await asking.lead("a:1")
        await asking.leader.ask()
        await asking.lead("b:2")
        with pytest.raises(MasterUnavailable, match=r"netmaster b:2: refused: .* firewall"):
            await asking.leader.ask()


async def test_nobody_is_asked_while_nobody_leads() -> None:
    async with following(SHORT) as asking:
        asking.client.behaviour = {"a:1": MasterUnavailable("refused")}
        await asking.lead("a:1")
        asked = asyncio.gather(asking.masters.create_endpoint(WANTED), return_exceptions=True)
        await eventually(lambda: bool(asking.client.asked))
        await asking.lead(None)
        (failure,) = await asked
        assert isinstance(failure, MasterUnavailable)
        assert set(asking.client.asked) == {"a:1"}


@pytest.mark.parametrize(
    ("leader", "behaviour", "says"),
    [
        (None, {}, "no netmaster leads"),
        ("a:1", {}, "netmaster a:1 does not answer"),
        ("a:1", {"a:1": MasterUnavailable("refused")}, "netmaster a:1: refused"),
        ("a:1", {"a:1": NotLeader("Leader not found")}, "netmaster a:1: Leader not found"),
    ],
)
async def test_who_waits_in_vain_is_told_why_in_time(
    leader: str | None, behaviour: dict[str, Exception | None], says: str
) -> None:
    async with following(SHORT) as asking:
        asking.client.behaviour = behaviour
        await asking.lead(leader)
        calls: list[Callable[[], object]] = [
            lambda: asking.masters.create_endpoint(WANTED),
            lambda: asking.masters.delete_endpoint(*DELETE),
        ]
        if leader is None:
            calls.append(asking.masters.ready)
        for call in calls:
            async with asyncio.timeout(LeaderTiming().answer):
                with pytest.raises(MasterUnavailable, match=says):
                    await call()  # type: ignore[misc]


@pytest.mark.parametrize(
    "then", [NotLeader("Leader not found"), MasterUnavailable("refused"), None]
)
async def test_what_may_have_been_done_is_not_forgotten(then: Exception | None) -> None:
    async with following(SHORT) as asking:
        asking.client.behaviour["a:1"] = MasterUnavailable("reset", outcome_unknown=True)
        await asking.lead("a:1")
        asked = asyncio.gather(asking.masters.create_endpoint(WANTED), return_exceptions=True)
        await eventually(lambda: bool(asking.client.asked))
        if then is None:
            await asking.lead(None)
        else:
            asking.client.behaviour["a:1"] = then
        (failure,) = await asked
        assert isinstance(failure, MasterUnavailable)
        assert failure.outcome_unknown


@pytest.mark.parametrize("leader", [None, "a:1"])
async def test_an_election_is_waited_for_once(leader: str | None) -> None:
    timing = LeaderTiming(election=0.3, outage_wait=0.0)
    async with following(timing) as asking:
        asking.client.behaviour["a:1"] = NotLeader("Leader not found")
        await asking.lead(leader)
        with pytest.raises(MasterUnavailable):
            await asking.masters.create_endpoint(WANTED)
        asking.leader.timing = replace(timing, retry=60.0)  # no call may wait now
        for _ in range(3):
            async with asyncio.timeout(30):
                with pytest.raises(MasterUnavailable):
                    await asking.masters.create_endpoint(WANTED)


async def test_who_serves_again_is_waited_for_again() -> None:
    timing = LeaderTiming(election=0.1, outage_wait=0.0)
    async with following(timing) as asking:
        with pytest.raises(MasterUnavailable):
            await asking.masters.create_endpoint(WANTED)
        asking.leader.timing = replace(timing, election=30.0)
        asking.client.behaviour["a:1"] = Exhausted("address exhaustion")
        await asking.lead("a:1")
        with pytest.raises(Exhausted):
            await asking.masters.create_endpoint(WANTED)
        asking.client.behaviour["a:1"] = MasterUnavailable("refused")
        asked = asyncio.gather(asking.masters.create_endpoint(WANTED))
        await eventually(lambda: len(asking.client.asked) > 2)
        asking.client.behaviour["a:1"] = None
        await asked


async def test_a_refusal_is_the_callers_at_once() -> None:
    async with following() as asking:
        asking.client.behaviour["a:1"] = Exhausted("address exhaustion")
        await asking.lead("a:1")
        with pytest.raises(Exhausted):
            await asking.masters.create_endpoint(WANTED)
        assert asking.client.asked == ["a:1"]


async def test_what_is_gone_already_is_released() -> None:
    async with following() as asking:
        asking.client.behaviour["a:1"] = NotFound("key not found")
        await asking.lead("a:1")
        await asking.masters.delete_endpoint(*DELETE)
        (request,) = asking.client.requests
        assert isinstance(request, DeleteEndpointRequest)
        assert (request.tenant_name, request.network_name, request.endpoint_id) == DELETE


async def test_nobody_is_asked_when_the_agent_stops() -> None:
    async with following() as asking:
        await asking.lead("a:1")
    with pytest.raises(MasterUnavailable, match="the agent stops"):
        await asking.masters.create_endpoint(WANTED)
    assert asking.client.asked == []


async def test_who_waits_for_a_leader_is_told_when_the_agent_stops() -> None:
    async with following() as asking:
        asked = asyncio.gather(asking.masters.create_endpoint(WANTED), return_exceptions=True)
        await stays(lambda: not asked.done(), 0.01)
    (failure,) = await asked
    assert isinstance(failure, MasterUnavailable)
    assert "the agent stops" in str(failure)


async def test_a_lock_without_readable_holder_ends_nobody() -> None:
    async with following() as asking:
        await asking.backend.commit([Change((), (Put(keys.LEADER_LOCK, b"\xff:1"),))])
        await eventually(lambda: asking.leader.leader is not None)
        await asking.lead("a:1")
