"""What a master asks of agents: found by the registry, bounded in time, failures named."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from core import keys
from core.errors import AgentUnavailable
from core.ids import EndpointKey, HostLabel, NetworkId
from netmaster.api.leader.agents import RegisteredAgents
from objdb.api import Change, Put
from objdb.memory import Faults, MemoryBackend, MemoryStore
from state import codec
from state.records import EndpointRecord, HostRecord, ServiceInstance

STATE = {
    "Peers": [{"State": {"SessionState": "established", "AdminState": "up"}}, {"State": {}}],
    "Dsts": ["10.1.1.0/24 via 50.1.1.2"],
}


class Agent:
    """An agent's REST routes, answering what a test wants; `asked` has the requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: Callable[[], web.Response] = lambda: web.Response(text="null")
        self.silent = asyncio.Event()

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(f"{request.method} {request.path_qs}")
        await self.silent.wait()
        return self.answer()


@asynccontextmanager
async def asking(
    agent: Agent, *, host: str = "h1", answer_timeout: float = 10.0
) -> AsyncIterator[RegisteredAgents]:
    """Serve an agent, registered under a host's label; yield what asks it."""
    backend = MemoryBackend(MemoryStore(), Faults())
    runner = web.ServerRunner(web.Server(agent), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    instance = ServiceInstance(
        service=keys.SERVICE_AGENT_REST,
        address="127.0.0.1",
        port=runner.addresses[0][1],
        hostname=host,
    )
    key = keys.service(instance.service, instance.address, instance.port)
    await backend.commit([Change((), (Put(key, codec.encode(instance)),))])
    agent.silent.set()
    asker = RegisteredAgents(backend, answer_timeout=answer_timeout)
    try:
        yield asker
    finally:
        await asker.close()
        await runner.cleanup()
        await backend.close()


def answers(body: object, status: int = 200) -> Callable[[], web.Response]:
    text = body if isinstance(body, str) else json.dumps(body)
    return lambda: web.Response(status=status, text=text)


@pytest.mark.parametrize(
    ("body", "oper"),
    [
        (
            STATE,
            {
                "adminStatus": "up",
                "neighborStatus": "established",
                "numRoutes": 1,
                "routes": ["10.1.1.0/24 via 50.1.1.2"],
            },
        ),
        ({"Peers": None, "Dsts": None}, {"numRoutes": 0, "routes": []}),
        (None, {}),
    ],
)
async def test_the_state_of_bgp(body: object, oper: dict[str, object]) -> None:
    agent = Agent()
    agent.answer = answers(body)
    async with asking(agent) as asker:
        assert await asker.bgp("h1") == oper
    assert agent.asked == ["GET /inspect/bgp"]


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (404, "x", "host h1: page not found"),
        (403, "x", "host h1: access denied"),
        (500, "no such bridge\n", "host h1: no such bridge"),
        (503, "x", "host h1: Service Unavailable"),
        (200, "no json", "host h1: not a BGP state: expected ident at line 1 column 2: b'no json'"),
        (200, "[1]", "host h1: not a BGP state: Input should be a valid dictionary: b'[1]'"),
    ],
)
async def test_refusals_are_named(status: int, body: str, text: str) -> None:
    agent = Agent()
    agent.answer = answers(body, status)
    async with asking(agent) as asker:
        with pytest.raises(AgentUnavailable) as caught:
            await asker.bgp("h1")
    assert str(caught.value) == text


async def test_a_host_without_an_agent_is_named() -> None:
    async with asking(Agent()) as asker:
        with pytest.raises(AgentUnavailable, match=r"^host h2: no netplugin is registered$"):
            await asker.bgp("h2")


async def test_an_agent_that_says_nothing_is_not_waited_for() -> None:
    agent = Agent()
    async with asking(agent, answer_timeout=0.05) as asker:
        agent.silent.clear()
        with pytest.raises(AgentUnavailable, match=r"^host h1: 127.0.0.1:[0-9]+ does not answer: "):
            await asker.bgp("h1")


async def test_an_endpoint_is_taken_away_by_its_key() -> None:
    endpoint = EndpointRecord(
        key=EndpointKey("n1.default-a/b c"),
        network=NetworkId("n1.default"),
        endpoint_id="a/b c",
        service_name="",
        group_id=0,
        group_key="",
        ip_address="10.1.1.1",
        ipv6_address="",
        mac_address="",
        homing_host=HostLabel("h1"),
        intf_name="",
        vtep_ip="",
        labels=None,
        container_id="",
        common_name="",
    )
    agent = Agent()
    async with asking(agent) as asker:
        await asker.reclaim(endpoint)
    assert agent.asked == ["DELETE /debug/reclaimEndpoint/n1.default-a%2Fb%20c"]


async def test_all_hosts_are_asked_and_the_silent_are_named() -> None:
    agent = Agent()
    agent.answer = answers({"rules": {}})
    async with asking(agent) as asker:
        lost = HostRecord(label=HostLabel("h2"), control_ip="", vtep_ip="", vxlan_port=0)
        key = keys.host(HostLabel("h2"))
        await asker._backend.commit([Change((), (Put(key, codec.encode(lost)),))])
        found = await asker.ask_all("/inspect/rules")
        assert found.replies == {"h1": b'{"rules": {}}'}
        assert found.unreachable == {"h2": "host h2: no netplugin is registered"}
        agent.silent.clear()
        found = await asker.ask_all("/inspect/rules", seconds=0.05)
        assert found.replies == {}
        assert "does not answer" in found.unreachable["h1"]
    assert agent.asked == ["GET /inspect/rules"] * 2


async def test_an_answer_without_end_is_not_read() -> None:
    agent = Agent()
    agent.answer = answers("x" * 101)
    async with asking(agent) as asker:
        found = await asker.ask_all("/inspect/rules", most=100)
        assert found.unreachable == {"h1": "host h1: the answer is longer than 100 bytes"}


async def test_a_stream_is_passed_on_as_it_comes_and_a_refusal_told() -> None:
    agent = Agent()
    agent.answer = answers("packets")
    async with asking(agent) as asker:
        async with asker.stream("h1", "/inspect/capture/x?count=1", seconds=5) as answer:
            assert await answer.content.read() == b"packets"
        agent.answer = answers("endpoint x has no port on this host", 500)
        with pytest.raises(AgentUnavailable, match=r"^host h1: endpoint x has no port"):
            async with asker.stream("h1", "/inspect/capture/x", seconds=5):
                pass
        with pytest.raises(AgentUnavailable, match="no netplugin is registered"):
            async with asker.stream("h9", "/", seconds=5):
                pass
    assert agent.asked[0] == "GET /inspect/capture/x?count=1"
