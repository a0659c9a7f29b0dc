"""STATUS: each thing that an ADD needs is missed."""

import asyncio

import pytest

from core import keys
from core.errors import MasterUnavailable, StoreUnavailable
from netplugin.cni.errors import LIMITED, NOT_AVAILABLE, NotReady
from netplugin.pods.readiness import Readiness
from objdb.memory import MemoryBackend
from ofnet.world import Bridge
from tests.unit.netplugin.agent import Agent, Outside, running

pytestmark = pytest.mark.usefixtures("hurried")


async def refusal(agent: Agent) -> NotReady:
    with pytest.raises(NotReady) as caught:
        await agent.calls.readiness.status()
    return caught.value


async def test_an_agent_that_can_add_says_so(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.calls.readiness.status()


@pytest.mark.parametrize("bridge", list(Bridge))
async def test_without_a_switch(outside: Outside, bridge: Bridge) -> None:
    async with running(outside) as agent:
        outside.switches[bridge].go(online=False)
        refused = await refusal(agent)
        assert refused.code == LIMITED
        assert str(refused) == f"bridge {bridge} has no OpenFlow session"


async def test_without_a_leader(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.failing["ready"] = MasterUnavailable("no netmaster leads")
        refused = await refusal(agent)
        assert (refused.code, str(refused)) == (NOT_AVAILABLE, "no netmaster leads")


class Deaf(MemoryBackend):
    """A store that fails."""

    async def get(self, key: str) -> None:
        assert key == keys.LEADER_LOCK
        raise StoreUnavailable("no store at http://127.0.0.1:2379")


async def test_without_a_store(outside: Outside) -> None:
    async with running(outside) as agent:
        readiness = Readiness(Deaf(), outside.master, agent.clients.ovsdb, agent.dataplane.agents)
        with pytest.raises(NotReady, match="no store at") as caught:
            await readiness.status()
        assert caught.value.code == NOT_AVAILABLE


async def test_a_store_that_does_not_answer_is_told_with_what_to_look_at(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryBackend()

    async def silent(_key: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(store, "get", silent)
    async with running(outside) as agent:
        bridges = agent.dataplane.agents
        readiness = Readiness(store, outside.master, agent.clients.ovsdb, bridges, 0.01)
        with pytest.raises(NotReady, match=r"does not answer within 0.01 s: .* does a firewall"):
            await readiness.status()


async def test_what_else_an_add_needs(outside: Outside) -> None:
    async with running(outside) as agent:

        async def full() -> None:
            raise NotReady("no space", code=LIMITED)

        readiness = Readiness(
            MemoryBackend(),
            outside.master,
            agent.clients.ovsdb,
            agent.dataplane.agents,
            further={"data directory": full},
        )
        with pytest.raises(NotReady, match="no space") as caught:
            await readiness.status()
        assert caught.value.code == LIMITED
        assert "data directory" in readiness.checks()
        assert readiness.known == {"data directory"}
