"""ADD and DEL: what is asked twice, and that one that fails leaves nothing, wherever it fails."""

import asyncio
from dataclasses import replace

import pytest

from core.errors import (
    Conflict,
    ContivError,
    Exhausted,
    HostError,
    MasterUnavailable,
    NotFound,
    SwitchRefused,
    SwitchUnavailable,
)
from core.tasks import supervisor
from netplugin.pods.journal import EntryState
from ofnet.world import Bridge
from state.watch import Removed
from tests.unit.netplugin.agent import (
    NOTHING_LEFT,
    Agent,
    Outside,
    build_agent,
    eventually,
    in_group,
    left_nothing,
    request,
    row_of,
    running,
    start_bridges,
)
from tests.unit.netplugin.records import endpoint, key, network, nid_of

pytestmark = pytest.mark.usefixtures("hurried")
FLOWS = f"flows {Bridge.VXLAN}"
STEPS: dict[str, ContivError] = {
    "journal adding": HostError("disk full"),
    "create": Exhausted("address exhaustion"),
    "link": HostError("no such namespace"),
    "row": SwitchRefused("constraint"),
    FLOWS: SwitchUnavailable("no answer"),
    "inside": HostError("no such device"),
    "journal present": HostError("disk full"),
}
"""Every step of an ADD that may fail, with how it does."""


@pytest.mark.parametrize("step", STEPS)
async def test_an_add_that_fails_leaves_nothing(outside: Outside, step: str) -> None:
    async with running(outside) as agent:
        outside.faults.failing[step] = STEPS[step]
        with pytest.raises(type(STEPS[step]), match=str(STEPS[step])):
            await agent.pods.add(request())
        outside.faults.failing.clear()
        await left_nothing(agent)
        assert (await agent.pods.add(request())).host_ifname in outside.links.there


@pytest.mark.parametrize("step", STEPS)
async def test_a_failed_add_is_undone_before_it_is_answered(outside: Outside, step: str) -> None:
    async with running(outside) as agent:
        outside.faults.failing[step] = STEPS[step]
        with pytest.raises(type(STEPS[step])):
            await agent.pods.add(request())
        if step != FLOWS:  # the same step takes the flows away
            assert agent.traces() == NOTHING_LEFT


@pytest.mark.parametrize("step", STEPS)
async def test_an_add_that_is_cancelled_leaves_nothing(outside: Outside, step: str) -> None:
    outside.ovsdb.port_ready = 5.0  # it is cancelled before it gives up
    async with running(outside) as agent:
        gate = outside.faults.stop(step)
        async with asyncio.TaskGroup() as calls:
            call = calls.create_task(agent.pods.add(request()))
            await outside.faults.until(step)
            await outside.faults.quiet()  # the others go as far as they can
            call.cancel()
            await outside.faults.quiet()
            gate.set()
        assert call.cancelled()
        await left_nothing(agent)


async def test_a_call_cancelled_again_ends_when_all_is_undone(outside: Outside) -> None:
    async with running(outside) as agent:
        gate = outside.faults.stop("release")
        async with asyncio.TaskGroup() as calls:
            call = calls.create_task(agent.pods.add(request()))
            await outside.faults.until("inside")
            call.cancel()
            await outside.faults.until("release")
            call.cancel()
            await outside.faults.quiet()
            assert not call.done()
            gate.set()
        assert agent.traces() == NOTHING_LEFT


async def failure_of(agent: Agent) -> ContivError:
    with pytest.raises(ContivError) as failure:
        await agent.pods.add(request())
    return failure.value


async def test_a_link_that_comes_after_the_refusal_goes_again(outside: Outside) -> None:
    # netlink works in a thread: netmaster's refusal does not call it back
    async with running(outside) as agent:
        gate = outside.faults.stop("link")
        async with asyncio.TaskGroup() as calls:
            call = calls.create_task(failure_of(agent))
            outside.master.networks.clear()
            await outside.faults.until("link")
            await outside.faults.quiet()
            gate.set()
        assert isinstance(call.result(), NotFound)
        await left_nothing(agent)


async def test_a_row_that_comes_after_the_refusal_goes_again(outside: Outside) -> None:
    async with running(outside) as agent:
        gate = outside.faults.stop("row")
        async with asyncio.TaskGroup() as calls:
            call = calls.create_task(failure_of(agent))
            outside.master.networks.clear()
            await outside.faults.until("row")
            await outside.faults.quiet()
            gate.set()
        assert isinstance(call.result(), NotFound)
        await left_nothing(agent)


async def test_a_row_that_comes_when_nobody_waits_for_it_goes_again(outside: Outside) -> None:
    # a frozen database takes what it was sent long after it was given up
    async with running(outside) as agent:
        agent.sup.supervise("endpoint ports", agent.pod_ports.run())
        outside.faults.failing["row"] = SwitchUnavailable("no answer")
        with pytest.raises(SwitchUnavailable):
            await agent.pods.add(request())
        await left_nothing(agent)
        outside.faults.failing.clear()
        await outside.ovsdb.add_port(Bridge.VXLAN, row_of("vvport1"))
        await left_nothing(agent)


async def test_a_failed_release_is_tried_again(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        outside.faults.failing["release"] = MasterUnavailable("away")
        await agent.pods.delete(request())
        await eventually(lambda: not outside.links.there and not outside.ovsdb.ports())
        assert outside.journal.entries[key("c1")].state is EntryState.REMOVING
        await outside.faults.until("release", 3)
        outside.faults.failing.clear()
        await left_nothing(agent)


async def test_a_release_survives_a_restart(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        outside.faults.failing["release"] = MasterUnavailable("away")
        await agent.pods.delete(request())
    assert outside.journal.entries[key("c1")].state is EntryState.REMOVING
    outside.faults.failing.clear()
    async with running(outside) as agent:
        await left_nothing(agent)


async def test_an_add_cut_short_by_a_restart_is_undone(outside: Outside) -> None:
    async with running(outside) as agent:
        base = agent.base
        outside.faults.stop("inside")
        asked = asyncio.gather(agent.pods.add(request()), return_exceptions=True)
        await outside.faults.until("inside")
        await eventually(lambda: key("c1") in outside.journal.entries)
        dead = replace(outside.journal.entries[key("c1")], state=EntryState.ADDING)
        outside.faults.stopped["inside"].set()
        await asked
    outside.journal.entries[key("c1")] = dead
    async with running(outside) as agent:
        agent.base = base
        await left_nothing(agent)


async def test_an_add_that_meets_the_agents_end_is_undone_by_the_next(outside: Outside) -> None:
    async with running(outside) as agent:
        base = agent.base
    async with supervisor() as sup:
        agent = await build_agent(outside, sup, (network(),))
        start_bridges(agent)
        agent.world.set_complete()
        sup.supervise("flows", agent.reconciler.run())
        outside.faults.stop("inside")
        call = asyncio.gather(agent.pods.add(request()), return_exceptions=True)
        await outside.faults.until("inside")
        await eventually(lambda: outside.journal.entries[key("c1")].state is EntryState.PRESENT)
        sup.stop()
        outside.faults.failing["inside"] = HostError("no such device")
        outside.faults.stopped["inside"].set()
        await call
        assert outside.journal.entries[key("c1")].state is EntryState.REMOVING
        assert outside.faults.reached["release"] == 0
    outside.faults.failing.clear()
    async with running(outside) as agent:
        agent.base = base
        await left_nothing(agent)


async def test_a_present_pod_survives_a_restart_untouched(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        base, before = agent.base, agent.traces()
    outside.faults.reached.clear()
    async with running(outside) as agent:
        agent.base = base
        assert agent.pods.keys() == {key("c1")}
        assert agent.traces() == before
        assert not outside.faults.reached[FLOWS]


async def test_nothing_is_deleted_before_local_endpoints_are_placed(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        base, before = agent.base, agent.traces()
    async with supervisor() as sup:
        agent = await build_agent(outside, sup, (network(),))
        start_bridges(agent)
        agent.base = base
        sup.supervise("flows", agent.reconciler.run())
        await agent.reconciler.flush()
        assert agent.traces() == before
        assert set(agent.pod_ports.publish()) == {key("c1")}  # its record has not been read yet
        agent.world.put(outside.master.endpoints[key("c1")])
        assert agent.pod_ports.publish() == {}


async def test_numbers_go_on_after_a_restart(outside: Outside) -> None:
    async with running(outside) as agent:
        for number in range(3):
            await agent.pods.add(request(f"c{number}"))
        await agent.pods.delete(request("c0"))
        await eventually(lambda: len(outside.ovsdb.ports()) == 2)
    async with running(outside) as agent:
        assert (await agent.pods.add(request("new"))).host_ifname == "vvport4"


async def test_a_number_that_became_free_does_not_come_back_soon(outside: Outside) -> None:
    async with running(outside) as agent:
        names = []
        for _ in range(3):
            names.append((await agent.pods.add(request())).host_ifname)
            await agent.pods.delete(request())
        assert names == ["vvport1", "vvport2", "vvport3"]


async def test_a_number_somebody_else_has_is_passed_over(outside: Outside) -> None:
    async with running(outside) as agent:
        await outside.ovsdb.add_port(Bridge.VXLAN, row_of("vvport2"))
        rows = outside.ovsdb.ports()
        foreign = replace(rows["vvport2"], name="tap0", ofport=1, type="internal")
        outside.ovsdb.show(ports={"tap0": foreign, "vvport2": rows["vvport2"]})
        assert (await agent.pods.add(request())).host_ifname == "vvport3"


# -- calls for one container --------------------------------------------------------------------


async def test_asking_twice_gives_the_same_answer(outside: Outside) -> None:
    async with running(outside) as agent:
        first, second = await asyncio.gather(agent.pods.add(request()), agent.pods.add(request()))
        assert first == second
        assert outside.faults.reached["link"] == 1


async def test_an_add_after_a_failed_one_is_not_answered_from_memory(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.failing |= {
            "journal adding": HostError("disk full"),
            "journal removing": HostError("disk full"),
        }
        for _ in range(2):
            with pytest.raises(HostError, match="disk full"):
                await agent.pods.add(request())
            assert agent.traces() == NOTHING_LEFT
            assert agent.pods.keys() == frozenset()
        outside.faults.failing.clear()
        result = await agent.pods.add(request())
        assert result.host_ifname in outside.links.there


async def test_a_delete_waits_for_the_add_before_it(outside: Outside) -> None:
    async with running(outside) as agent:
        gate = outside.faults.stop("inside")
        added = asyncio.gather(agent.pods.add(request()))
        await outside.faults.until("inside")
        deleted = asyncio.gather(agent.pods.delete(request()))
        await outside.faults.quiet()
        assert not deleted.done()
        gate.set()
        await added
        await deleted
        await left_nothing(agent)


async def test_two_deletes_at_once_are_one(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        await asyncio.gather(*(agent.pods.delete(request()) for _ in range(3)))
        await left_nothing(agent)
        assert outside.faults.reached["release"] == 1


async def test_deleting_what_is_not_there_is_a_success(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.delete(request())
        await agent.pods.delete(request(network="nowhere"))
        assert outside.faults.reached["release"] == 0


async def test_a_record_without_an_entry_is_released(outside: Outside) -> None:
    outside.master.endpoints[key("c1")] = endpoint()
    async with running(outside) as agent:
        outside.faults.failing["release"] = MasterUnavailable("away")
        with pytest.raises(MasterUnavailable):
            await agent.pods.delete(request())
        outside.faults.failing.clear()
        await agent.pods.delete(request())
        assert outside.master.endpoints == {}


async def test_a_record_of_another_host_is_left_alone(outside: Outside) -> None:
    outside.master.endpoints[key("c1")] = replace(endpoint(), homing_host="h2")  # type: ignore[arg-type]
    async with running(outside) as agent:
        await agent.pods.delete(request())
        assert key("c1") in outside.master.endpoints


async def test_an_add_waits_for_the_pending_release(outside: Outside) -> None:
    outside.set_timing(old_gone=5.0)
    async with running(outside) as agent:
        await agent.pods.add(request())
        outside.faults.failing["release"] = MasterUnavailable("away")
        await agent.pods.delete(request())
        added = asyncio.gather(agent.pods.add(request()))
        await outside.faults.until("release", 2)
        assert outside.faults.reached["create"] == 1
        outside.faults.failing.clear()
        (result,) = await added
        assert outside.master.endpoints.keys() == {key("c1")}
        assert outside.links.there.keys() == {result.host_ifname}


async def test_an_add_does_not_wait_for_ever_for_a_release(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        outside.faults.failing["release"] = MasterUnavailable("away")
        await agent.pods.delete(request())
        with pytest.raises(MasterUnavailable, match="not released"):
            await agent.pods.add(request())
        assert agent.pods.keys() == frozenset()


async def test_a_delete_the_journal_cannot_keep_changes_nothing(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        before = agent.traces()
        outside.faults.failing["journal removing"] = HostError("disk full")
        with pytest.raises(HostError, match="disk full"):
            await agent.pods.delete(request())
        assert agent.traces() == before
        outside.faults.failing.clear()
        await agent.pods.delete(request())
        await left_nothing(agent)


async def test_another_namespace_takes_the_old_interface_away(outside: Outside) -> None:
    async with running(outside) as agent:
        old = await agent.pods.add(request())
        new = await agent.pods.add(request(netns="/run/netns/again"))
        assert outside.links.there.keys() == {new.host_ifname}
        assert new.host_ifname != old.host_ifname
        assert outside.links.inside.keys() == {("/run/netns/again", "eth0")}


@pytest.mark.parametrize("asked", [request(network="n2"), in_group(request(), "web")])
async def test_another_place_takes_the_old_interface_away(outside: Outside, asked: object) -> None:
    outside.master.networks.add(nid_of("n2"))
    async with running(outside, (network(), network("n2", tag=2))) as agent:
        await agent.pods.add(request())
        new = await agent.pods.add(asked)  # type: ignore[arg-type]
        assert outside.links.there.keys() == {new.host_ifname}
        assert len(outside.master.endpoints) == len(outside.journal.entries) == 1


async def test_the_old_interface_is_gone_before_the_new_one_comes(outside: Outside) -> None:
    outside.master.networks.add(nid_of("n2"))
    async with running(outside, (network(), network("n2", tag=2))) as agent:
        await agent.pods.add(request())
        gate = outside.faults.stop("unlink")
        added = asyncio.gather(agent.pods.add(request(network="n2")))
        await outside.faults.until("unlink")
        await outside.faults.quiet()
        assert outside.faults.reached["link"] == 1
        gate.set()
        (result,) = await added
        assert outside.links.there.keys() == {result.host_ifname}


async def test_a_second_interface_on_the_same_network_is_refused(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        before = agent.traces()
        with pytest.raises(Conflict, match="eth0"):
            await agent.pods.add(request(ifname="net1"))
        assert agent.traces() == before
        await agent.pods.delete(request(ifname="net1"))
        assert agent.traces() == before


async def test_an_endpoint_that_was_reclaimed_is_made_anew(outside: Outside) -> None:
    async with running(outside) as agent:
        old = await agent.pods.add(request())
        record = outside.master.endpoints.pop(key("c1"))
        agent.records.apply(Removed("k", record))
        new = await agent.pods.add(request())
        assert new.ipv4 != old.ipv4
        (inside,) = outside.links.inside.values()
        assert inside.addresses == [new.ipv4]


async def test_containers_go_side_by_side(outside: Outside) -> None:
    async with running(outside) as agent:
        gate = outside.faults.stop("create")
        calls = asyncio.gather(*(agent.pods.add(request(f"c{n}")) for n in range(20)))
        await outside.faults.until("create", 20)
        gate.set()
        results = await calls
        assert len({result.ipv4 for result in results}) == 20
        assert len({result.host_ifname for result in results}) == 20


async def test_reclaiming_takes_a_pod_away(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        await agent.pods.reclaim(key("c1"))
        await agent.pods.reclaim(key("c1"))
        await left_nothing(agent)


async def test_what_is_reclaimed_is_what_is_there_then(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        again = asyncio.gather(agent.pods.add(request(netns="/run/netns/again")))
        await outside.faults.until("journal removing")
        await asyncio.gather(again, agent.pods.reclaim(key("c1")))
        await left_nothing(agent)
