"""Pods with addresses that their host holds ahead: added without netmaster, and reported."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from core import keys
from core.errors import Conflict, MasterUnavailable
from core.tasks import background
from netplugin.pods.registry.block_renewal import BlockRenewal
from netplugin.pods.registry.journal_entry import EntryState
from state.watch import StoreRolledBack, SyncedTo
from tests.unit.netplugin.agent import Agent, Outside, eventually, left_nothing, request, running
from tests.unit.netplugin.records import key
from tests.unit.netplugin.worlds import four_of

pytestmark = pytest.mark.usefixtures("hurried")

SIZE = 4


@pytest.fixture
def holding(outside: Outside, tmp_path: Path) -> Outside:
    """Let agents hold some addresses."""
    outside.settings = replace(
        outside.settings, address_blocks=SIZE, journal=tmp_path / "endpoints"
    )
    return outside


def blocks(agent: Agent) -> BlockRenewal:
    return agent.pod_services.host.blocks


@asynccontextmanager
async def supplied(outside: Outside) -> AsyncIterator[Agent]:
    """Run an agent that has addresses of the network, and a pod on it."""
    async with (
        running(outside) as agent,
        background("blocks", blocks(agent).run()),
        background("claims", agent.pod_services.claims.run()),
    ):
        await agent.pods.add(request("c0"))
        agent.learn("k", outside.master.endpoints[key("c0")])
        await eventually(lambda: len(outside.master.held) >= SIZE)
        yield agent


async def test_a_pod_starts_without_netmaster_and_is_reported(holding: Outside) -> None:
    outside = holding
    async with supplied(outside) as agent:
        outside.faults.failing |= dict.fromkeys(
            ("create", "blocks"), MasterUnavailable("no netmaster leads")
        )
        result = await agent.pods.add(request("c1"))
        assert str(four_of(result)) in outside.master.held
        entry = outside.journal.entries[key("c1")]
        assert (entry.state, entry.claiming) == (EntryState.PRESENT, True)
        assert entry.ip_address == str(four_of(result))
        assert agent.world.endpoints.port(key("c1")) is not None
        assert await agent.pods.add(request("c1")) == result
        outside.faults.failing.clear()
        await eventually(lambda: key("c1") in outside.master.endpoints)
        record = outside.master.endpoints[key("c1")]
        assert (record.ip_address, record.mac_address) == (str(four_of(result)), result.mac)
        agent.learn("k", record)
        await eventually(lambda: not outside.journal.entries[key("c1")].claiming)


async def test_no_address_is_given_twice(holding: Outside) -> None:
    async with supplied(holding) as agent:
        results = [await agent.pods.add(request(f"c{number}")) for number in range(1, 9)]
        assert len({one.ipv4 for one in results}) == len(results)


async def test_an_address_is_held_until_the_pod_is_released(holding: Outside) -> None:
    outside = holding
    async with supplied(outside) as agent:
        outside.faults.failing["create"] = MasterUnavailable("no netmaster leads")
        renewals = outside.master.lease[1]
        results = [await agent.pods.add(request(f"c{number}")) for number in (1, 2)]
        await eventually(lambda: outside.master.lease[1] > renewals)
        assert {str(four_of(one)) for one in results} <= outside.master.held


async def test_a_pod_that_asks_for_an_address_asks_netmaster(holding: Outside) -> None:
    async with supplied(holding) as agent:
        await agent.pods.add(replace(request("c1"), ipv4=IPv4Address("10.1.0.99")))
        assert holding.journal.entries[key("c1")].block == ""
        assert key("c1") in holding.master.endpoints


async def test_a_pod_whose_address_is_another_s_by_now_is_cut_off(holding: Outside) -> None:
    async with supplied(holding) as agent:
        holding.faults.failing["create"] = Conflict("ip address 10.1.0.2 is not available")
        await agent.pods.add(request("c1"))
        await eventually(lambda: agent.world.endpoints.port(key("c1")) is None)
        await eventually(lambda: bool(agent.progress.standing.errors))


async def test_a_store_that_went_back_ends_what_is_held(holding: Outside) -> None:
    async with supplied(holding) as agent:
        holding.faults.failing["blocks"] = MasterUnavailable("no netmaster leads")
        agent.records.apply(StoreRolledBack(keys.ENDPOINTS))
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 3))
        await agent.pods.add(request("c1"))
        assert holding.journal.entries[key("c1")].block == ""


async def test_a_pod_that_is_deleted_before_its_report_leaves_nothing(holding: Outside) -> None:
    async with supplied(holding) as agent:
        holding.faults.failing["create"] = MasterUnavailable("no netmaster leads")
        await agent.pods.add(request("c1"))
        await agent.pods.delete(request("c1"))
        await agent.pods.delete(request("c0"))
        holding.faults.failing.clear()
        await left_nothing(agent)


async def test_an_agent_without_blocks_gives_back_what_was_held(holding: Outside) -> None:
    async with supplied(holding):
        assert holding.settings.blocks_marker.exists()
    holding.settings = replace(holding.settings, address_blocks=0)
    async with (
        running(holding) as agent,
        background("blocks", blocks(agent).run()),
    ):
        await eventually(lambda: not holding.settings.blocks_marker.exists())
        assert len(holding.master.held) == 1  # the pod's own


async def test_a_disk_that_takes_nothing_is_an_error_and_ends_nothing(holding: Outside) -> None:
    holding.settings.blocks_marker.parent.rmdir()
    async with (
        running(holding) as agent,
        background("blocks", blocks(agent).run()),
    ):
        await eventually(lambda: bool(agent.progress.standing.errors))
        (error,) = agent.progress.standing.errors
        assert error.startswith("address blocks not noted on disk: ")
        assert str(holding.settings.blocks_marker) in error
        holding.settings.blocks_marker.parent.mkdir()
        await eventually(lambda: not agent.progress.standing.errors)
