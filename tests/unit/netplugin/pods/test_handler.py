"""ADD and DEL: what is asked twice, and that one that fails leaves nothing, wherever it fails."""

import asyncio
import logging
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address

import pytest

from core.errors import (
    Conflict,
    HostError,
    MasterUnavailable,
    SwitchUnavailable,
)
from core.ids import TenantName
from core.log_lines.extra import extra_of
from core.tasks import supervisor
from netplugin.pods.registry.journal_entry import EntryState
from ofnet.world import Bridge
from state.watch import Removed
from tests.unit.netplugin.agent import (
    NOTHING_LEFT,
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
from tests.unit.netplugin.pods.handler import FLOWS, STEPS, failure_of
from tests.unit.netplugin.records import asking, endpoint, key, network, nid_of
from tests.unit.netplugin.worlds import four_of

pytestmark = pytest.mark.usefixtures("hurried")


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


@pytest.mark.parametrize("step", ["link", "row"])
async def test_what_comes_after_the_failure_goes_again(outside: Outside, step: str) -> None:
    # netlink and OVSDB work in threads: the failure of another step does not call them back
    async with running(outside) as agent:
        failure, gate = outside.faults.stop("journal present"), outside.faults.stop(step)
        outside.faults.failing["journal present"] = HostError("disk full")
        async with asyncio.TaskGroup() as calls:
            call = calls.create_task(failure_of(agent))
            await outside.faults.until(step)
            failure.set()
            await outside.faults.quiet()
            gate.set()
        assert isinstance(call.result(), HostError)
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


@pytest.mark.parametrize("step", ["inside", "journal commit"])
async def test_an_add_that_dies_with_the_agent_is_undone_and_done_again(
    outside: Outside, step: str
) -> None:
    async with running(outside) as agent:
        base = agent.base
        gate = outside.faults.stop(step)
        call = asyncio.gather(agent.pods.add(request()), return_exceptions=True)
        await outside.faults.until(step)
        await outside.faults.quiet()  # the others go as far as they can
        dead = outside.journal.entries[key("c1")]
        assert dead.state is EntryState.ADDING
        gate.set()
        await call
    # What a killed agent leaves: its journal as it was, and a namespace that lacks something.
    outside.journal.entries[key("c1")] = dead
    outside.links.inside.clear()
    async with running(outside) as agent:
        agent.base = base
        result = await agent.pods.add(request())
        assert outside.links.inside["/run/netns/c1", "eth0"].addresses == [result.ipv4]
        await agent.pods.delete(request())
        await left_nothing(agent)


async def test_a_pod_is_present_while_the_switch_is_still_programmed(outside: Outside) -> None:
    outside.ovsdb.port_ready = 5.0
    async with running(outside) as agent:
        gate = outside.faults.stop(FLOWS)
        call = asyncio.gather(agent.pods.add(request()))
        await eventually(lambda: outside.journal.entries.get(key("c1")) is not None)
        await eventually(lambda: outside.journal.entries[key("c1")].state is EntryState.PRESENT)
        gate.set()
        await call


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
        await outside.faults.until("journal present")
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
        assert agent.registry.keys() == {key("c1")}
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
        assert set(agent.pod_ports.publish()) == {key("c1")}  # its record has not been read yet
        assert agent.traces() == before
        agent.world.put(outside.master.endpoints[key("c1")])
        assert agent.pod_ports.publish() == {}
        agent.world.set_complete()
        await agent.reconciler.flush()
        assert agent.traces() == before


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
            assert agent.registry.keys() == frozenset()
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
    outside.set_timing(old_gone=0.1)
    async with running(outside) as agent:
        await agent.pods.add(request())
        outside.faults.failing["release"] = MasterUnavailable("away")
        await agent.pods.delete(request())
        with pytest.raises(MasterUnavailable, match="not released"):
            await agent.pods.add(request())
        assert agent.registry.keys() == frozenset()


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


async def test_each_interface_of_a_pod_is_an_endpoint(outside: Outside) -> None:
    """Also two on one network: container id and interface name are the key."""
    outside.master.networks.add(nid_of("n1", "blue"))
    blue = asking(request(ifname="net2"), tenant=TenantName("blue"))
    async with running(outside, (network(), network(tenant="blue", tag=2))) as agent:
        first = await agent.pods.add(request())
        before = agent.traces()
        second = await agent.pods.add(request(ifname="net1"))
        third = await agent.pods.add(blue)
        assert outside.master.endpoints.keys() == {
            "n1.default-c1",
            "n1.default-c1@net1",
            "n1.blue-c1@net2",
        }
        assert len({first.ipv4, second.ipv4, third.ipv4}) == 3
        inside = outside.links.inside
        assert {ifname for _, ifname in inside} == {"eth0", "net1", "net2"}
        # The pod's default route goes by the first interface alone.
        gateways = {ifname: len(found.gateways) for (_, ifname), found in inside.items()}
        assert gateways == {"eth0": 1, "net1": 0, "net2": 0}
        assert (first.default_route, second.default_route) == (True, False)

        assert await agent.pods.add(request(ifname="net1")) == second
        await agent.pods.delete(request(ifname="net1"))
        await agent.pods.delete(blue)
        await agent.pods.delete(request(ifname="net3"))
        await eventually(lambda: agent.traces() == before)
        await agent.pods.delete(request())
        await left_nothing(agent)


async def test_the_configuration_says_which_interface_has_the_default_route(
    outside: Outside,
) -> None:
    async with running(outside) as agent:
        await agent.pods.add(asking(request(), default_route=False))
        await agent.pods.add(asking(request(ifname="net1"), default_route=True))
        inside = outside.links.inside
        gateways = {ifname: len(found.gateways) for (_, ifname), found in inside.items()}
        assert gateways == {"eth0": 0, "net1": 1}


async def test_a_further_interface_survives_a_restart(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        result = await agent.pods.add(request(ifname="net1"))
    async with running(outside) as agent:
        assert await agent.pods.add(request(ifname="net1")) == result
        await agent.pods.delete(request(ifname="net1"))
        await eventually(lambda: outside.master.endpoints.keys() == {key("c1")})


async def test_netmaster_is_told_whom_addresses_are_kept_for(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(asking(request(), keep="shop/db-0"))
        await agent.pods.add(request("c2"))
        assert outside.master.keeps == {key("c1"): "shop/db-0", key("c2"): ""}


async def test_the_addresses_asked_for_are_granted_or_the_add_fails(outside: Outside) -> None:
    asked = replace(asking(request(), mac="02:aa:00:00:00:01"), ipv4=IPv4Address("10.1.1.77"))
    async with running(outside) as agent:
        result = await agent.pods.add(asked)
        assert (str(four_of(result)), result.mac) == ("10.1.1.77", "02:aa:00:00:00:01")
        assert await agent.pods.add(asked) == result
        with pytest.raises(Conflict, match=r"10\.1\.1\.77 is not available"):
            await agent.pods.add(replace(request("c2"), ipv4=asked.ipv4))
        # A network without IPv6 grants none, and says nothing of it.
        with pytest.raises(Conflict, match=r"2001:db8::7 was not granted to n1\.default-c3"):
            await agent.pods.add(replace(request("c3"), ipv6=IPv6Address("2001:db8::7")))
        await agent.pods.delete(asked)
        await left_nothing(agent)


async def test_another_address_is_another_interface(outside: Outside) -> None:
    async with running(outside) as agent:
        await agent.pods.add(request())
        again = await agent.pods.add(replace(request(), ipv4=IPv4Address("10.1.1.77")))
        assert str(four_of(again)) == "10.1.1.77"
        assert len(outside.master.endpoints) == len(outside.journal.entries) == 1


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


async def test_one_line_tells_all_of_an_add(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(outside) as agent:
        asked = replace(request(), namespace="shop", pod_name="web-1")
        result = await agent.pods.add(asked)
        outside.faults.failing["link"] = STEPS["link"]
        with pytest.raises(HostError):
            await agent.pods.add(asking(asked, container_id="c2"))
        await agent.pods.delete(asked)
    told = {one.message: extra_of(one) for one in caplog.records if one.message.startswith("pod ")}
    added, failed, removed = (told[f"pod {how}"] for how in ("added", "not added", "removed"))
    for line, container in ((added, "c1"), (failed, "c2"), (removed, "c1")):
        assert (line["namespace"], line["pod"], line["container"]) == ("shop", "web-1", container)
        assert line["endpoint"] == key(container)
    assert added["address"] == result.ipv4
    assert added["seconds"] > 0
    for stage in ("place", "lock", "grant", "link", "port", "flows", "namespace"):
        assert f"{stage} 0." in added["stages"]
    assert "lock 0." in failed["stages"]
    assert "link" not in failed["stages"]
