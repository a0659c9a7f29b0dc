"""The store's events reach the World, and those who wait for records are notified."""

import asyncio
from dataclasses import replace

import pytest

from core.errors import Exhausted, NotFound
from state.records import GlobalRecord, Record, TagRangesRecord
from state.watch import Changed, Removed, SyncedTo
from tests.unit.netplugin.agent import Outside, eventually, running
from tests.unit.netplugin.bridges.reconciler import flows_of, tell, tunnels
from tests.unit.netplugin.records import (
    NET,
    PEER,
    endpoint,
    group,
    host,
    network,
    nid_of,
)


async def test_a_network_is_waited_for(outside: Outside) -> None:
    async with running(outside, ()) as agent:
        waiting = asyncio.gather(agent.records.network(NET, 5.0))
        await asyncio.sleep(0)
        tell(agent, network("other"), network())
        (found,) = await waiting
        assert found == network()
        with pytest.raises(NotFound, match=r"nowhere\.default"):
            await agent.records.network(nid_of("nowhere"), 0.01)


async def test_a_network_without_a_vrf_id_is_an_exhausted_pool(outside: Outside) -> None:
    others = tuple(network("n", f"t{number}") for number in range(255))
    async with running(outside, (*others, network())) as agent:
        with pytest.raises(Exhausted, match="VRF"):
            await agent.records.network(NET, 0.01)


async def test_every_kind_of_record_comes_and_goes(outside: Outside) -> None:
    records: tuple[Record, ...] = (network("a", "blue"), endpoint(2, host=PEER), group(), host())
    async with running(outside) as agent:
        agent.sup.supervise("ports", agent.ports.run())
        before = flows_of(outside)
        tell(agent, *records)
        await eventually(lambda: "nw_dst=10.1.0.2 " in flows_of(outside))
        for record in records:
            agent.records.apply(Removed("key", record))
        await eventually(lambda: flows_of(outside) == before and not tunnels(outside))


async def test_what_this_agent_has_no_use_for_is_passed_over(outside: Outside) -> None:
    async with running(outside) as agent:
        settings = GlobalRecord(
            infra_type="default", fwd_mode="routing", arp_mode="proxy", pvt_subnet="172.19.0.0/16"
        )
        before = flows_of(outside)
        agent.records.apply(Changed("key", TagRangesRecord(vlans="1-2", vxlans="3-4"), None))
        agent.records.apply(SyncedTo("/prefix/", 1))
        agent.records.apply(Changed("key", settings, None))
        agent.records.apply(Removed("key", settings))
        agent.records.apply(Removed("key", endpoint(77)))
        agent.records.apply(Removed("key", network("never")))
        await agent.reconciler.flush()
        assert flows_of(outside) == before


@pytest.mark.parametrize(
    "bad",
    [
        network(gateway="10.1.1"),
        replace(network(), ipv6_gateway="2001::x"),
        replace(endpoint(2, host=PEER), ip_address="10.1.0.2/16"),
        replace(endpoint(2, host=PEER), ipv6_address="::x"),
        replace(endpoint(2, host=PEER), mac_address="02:02"),
        host(vtep_ip="nowhere"),
    ],
)
async def test_the_last_good_record_stays_in_force(
    outside: Outside, bad: Record, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(outside) as agent:
        tell(agent, endpoint(2, host=PEER), host())
        await agent.ports.converge()
        await agent.reconciler.flush()
        before = flows_of(outside)
        tell(agent, bad)
        await agent.ports.converge()
        await agent.reconciler.flush()
        assert flows_of(outside) == before
        assert "invalid record" in caplog.text
