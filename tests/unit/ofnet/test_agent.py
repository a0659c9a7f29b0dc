"""The agent of a bridge against a switch in memory: it converges after every disturbance."""

import asyncio
import threading
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv6Address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Invalid, SwitchRefused, SwitchUnavailable
from core.tasks import background
from ofnet import flow_sync
from ofnet.agent import BridgeAgent
from ofnet.changes import Changes, ObjectKind
from ofnet.channel.requests import FlowsRefused
from ofnet.channel.wire import PacketIn
from ofnet.desired import LARGE
from ofnet.diff import Difference, FlowStamp, difference
from ofnet.flow_sync import SyncLimits
from ofnet.flows import Flow
from ofnet.inspection import AgentIdentity
from ofnet.openflow.actions import DROP, Output
from ofnet.openflow.match import Match
from ofnet.openflow.packets import Neighbour
from ofnet.tables import TableId
from ofnet.world import Bridge, Router, Uplink, World
from tests.unit.ofnet import frames
from tests.unit.ofnet.agent import running
from tests.unit.ofnet.conditions import until
from tests.unit.ofnet.fake_switch import FakeSwitch
from tests.unit.ofnet.serving import having, service
from tests.unit.ofnet.worlds import address, local, remote, with_local, without_local, world


def pod_change(number: int) -> Changes:
    return Changes.of(ObjectKind.LOCAL, {local(number).key})


async def test_connect_then_changes_then_disconnect() -> None:
    switch = FakeSwitch(connected=False)
    async with running(switch, world()) as agent:
        with pytest.raises(SwitchUnavailable, match="no switch is connected"):
            await agent.update(with_local(agent.world, local(1)), pod_change(1))
        assert not agent.sync.synced
        switch.connect()
        await until(lambda: agent.sync.synced, "synced")
        assert switch.table == agent.desired.flows
        await agent.update(with_local(agent.world, local(2)), pod_change(2))
        assert switch.table == agent.desired.flows
        switch.disconnect()
        assert not agent.connected
        with pytest.raises(SwitchUnavailable):
            await agent.update(without_local(agent.world, local(1).key), pod_change(1))
        switch.connect()
        await until(lambda: agent.sync.synced, "synced")
        assert switch.table == agent.desired.flows


async def test_the_agent_goes_on_while_many_flows_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(flows: list[Flow], reported: list[FlowStamp]) -> Difference:
        begun.set()
        go_on.wait()
        return difference(flows, reported)

    monkeypatch.setattr(flow_sync, "difference", slow)
    switch = FakeSwitch(connected=False)
    async with running(switch, world(here=(local(1),)), SyncLimits(in_thread=1)) as agent:
        switch.connect()
        try:
            await until(begun.is_set, "the comparison has begun")
            changed = without_local(with_local(agent.world, local(2)), local(1).key)
            updating = asyncio.gather(agent.update(changed, pod_change(1) | pod_change(2)))
            await until(
                lambda: "in_port=102" in "".join(map(str, agent.desired.flows.values())), "known"
            )
            assert not updating.done()
        finally:
            go_on.set()
        await updating
        assert switch.table == agent.desired.flows


async def test_an_update_sends_only_its_own_flows() -> None:
    switch = FakeSwitch()
    async with running(switch, world(here=(local(1),))) as agent:
        sent = switch.counters["flow_mods"]
        await agent.update(with_local(agent.world, local(2)), pod_change(2))
        assert switch.counters["flow_mods"] - sent == 15
        assert switch.dumps == 2


async def test_a_change_of_many_objects_is_in_force_when_its_update_returns() -> None:
    switch = FakeSwitch()
    async with running(switch, world()) as agent:
        dumps = switch.dumps
        many = {one.key: one for one in map(remote, range(1, LARGE + 1))}
        grown = replace(agent.world, remote=many)
        await agent.update(grown, Changes.of(ObjectKind.REMOTE, map(str, many)))
        assert switch.table == agent.desired.flows
        assert len(switch.table) > 4 * LARGE
        assert switch.dumps > dumps, "it is found by comparison"
        await agent.update(world(), Changes.of(ObjectKind.REMOTE, map(str, many)))
        assert switch.table == agent.desired.flows
        assert not any("nw_dst=10.1.0.1" in str(flow) for flow in switch.table.values())


async def test_a_refused_flow_of_another_object_fails_no_change_of_many() -> None:
    switch = FakeSwitch()
    switch.refuses = lambda flow: "in_port=101" in str(flow)
    async with running(switch, world(here=(local(1),))) as agent:
        assert agent.sync.refused
        many = {one.key: one for one in map(remote, range(10, LARGE + 10))}
        names = Changes.of(ObjectKind.REMOTE, map(str, many))
        await agent.update(replace(agent.world, remote=many), names)
        with pytest.raises(FlowsRefused):
            await agent.update(agent.world, names | pod_change(1))


async def test_concurrent_updates_are_sent_together() -> None:
    switch = FakeSwitch()
    async with running(switch, world()) as agent:
        updates = []
        for number in range(1, 21):
            now = with_local(agent.world, local(number))
            updates.append(asyncio.gather(agent.update(now, pod_change(number))))
            await asyncio.sleep(0)
        await asyncio.gather(*updates)
        assert switch.table == agent.desired.flows
        assert len(agent.world.local) == 20


async def test_a_pod_that_goes_and_comes_while_the_switch_is_busy_is_there() -> None:
    switch = FakeSwitch()
    async with running(switch, world(here=(local(1),))) as agent:
        full = agent.world
        busy = agent.update(with_local(full, local(2)), pod_change(2))
        gone = agent.update(full, pod_change(2))
        back = agent.update(with_local(full, local(2)), pod_change(2))
        await asyncio.gather(busy, gone, back)
        assert switch.table == agent.desired.flows
        assert any("in_port=102" in str(flow) for flow in switch.table.values())


async def test_a_switch_is_left_alone_before_the_world_is_complete() -> None:
    """It has no flow of an object whose policies may not be known yet, and loses none."""
    switch = FakeSwitch()
    switch.foreign = [FlowStamp(7, 0x1F)]
    agent = BridgeAgent(switch, Bridge.VXLAN, world(here=(local(1),), complete=False))
    async with background("bridge", agent.run()):
        for _ in range(50):
            await asyncio.sleep(0)
        assert switch.foreign
        assert not switch.table
        await agent.update(replace(agent.world, complete=True), Changes())
        assert not switch.foreign
        assert switch.table == agent.desired.flows


async def test_what_kubernetes_asked_for_stays_while_some_may_be_unknown() -> None:
    """Those of a host that starts without Kubernetes; all else that is not wanted goes."""
    switch = FakeSwitch()
    kinds = (ObjectKind.SERVICE, ObjectKind.POLICY_ENTRY, ObjectKind.ROUTE)
    flows = [Flow(kind, TableId.IP, 101, Match(in_port=9), DROP) for kind in kinds]
    service, policy, route = (FlowStamp(flow.table, flow.cookie) for flow in flows)
    switch.foreign = [service, policy, route]
    partial = replace(world(), kubernetes_partial=True, learning=True)
    async with running(switch, partial) as agent:
        assert set(switch.foreign) == {service, policy, route}
        await agent.update(replace(agent.world, learning=False), Changes.of(ObjectKind.ROUTER))
        assert set(switch.foreign) == {service, policy}
        await agent.update(replace(agent.world, kubernetes_partial=False), Changes())
        assert not switch.foreign


@pytest.mark.parametrize("others", [0, LARGE])
async def test_what_is_known_to_be_gone_goes_while_some_may_be_unknown(others: int) -> None:
    """Whether its flows are deleted by name, or by a comparison."""
    switch, many = FakeSwitch(), {one.key: one for one in map(remote, range(10, others + 10))}
    kept = Flow(ObjectKind.SERVICE, TableId.IP, 101, Match(in_port=9), DROP)
    switch.foreign = [FlowStamp(kept.table, kept.cookie)]
    web = service(address(1))
    partial = replace(having(world(here=(local(1),)), web), kubernetes_partial=True)
    async with running(switch, partial) as agent:
        changes = Changes.of(ObjectKind.SERVICE, [web.key])
        changes |= Changes.of(ObjectKind.REMOTE, map(str, many))
        await agent.update(replace(partial, services={}, remote=many), changes)
        assert switch.table == agent.desired.flows
        assert switch.foreign, "what was never known stays"


async def test_what_went_while_no_switch_was_there_goes_when_it_is_back() -> None:
    switch, web = FakeSwitch(), service(address(1))
    partial = replace(having(world(here=(local(1),)), web), kubernetes_partial=True)
    async with running(switch, partial) as agent:
        switch.disconnect()
        with pytest.raises(SwitchUnavailable):
            await agent.update(
                replace(partial, services={}), Changes.of(ObjectKind.SERVICE, [web.key])
            )
        switch.connect()
        await until(lambda: agent.sync.synced, "synced")
        assert switch.table == agent.desired.flows


async def test_routes_stay_while_they_are_being_learned() -> None:
    """Those of a host that starts; all else that is not wanted goes."""
    switch = FakeSwitch()
    route = Flow(ObjectKind.ROUTE, TableId.IP, 101, Match(in_port=9), DROP)
    switch.foreign = [FlowStamp(route.table, route.cookie), FlowStamp(7, 0x1F)]
    async with running(switch, replace(world(), learning=True)) as agent:
        assert switch.foreign == [FlowStamp(route.table, route.cookie)]
        await agent.update(replace(agent.world, learning=False), Changes.of(ObjectKind.ROUTER))
        assert not switch.foreign


async def test_an_observer_is_notified_of_worlds_and_neighbours() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.worlds: list[World] = []
            self.neighbours: list[Neighbour] = []

        def on_world(self, world: World) -> None:
            self.worlds.append(world)

        def on_neighbour(self, neighbour: Neighbour) -> None:
            self.neighbours.append(neighbour)

    recorder, peer, own = Recorder(), address(200), address(201)
    router = Router(ofport=80, mac="06:02:32:01:01:01", ip=own, peer=peer)
    uplink = Uplink(ofport=30, mac="52:54:00:00:00:0a")
    of = replace(world(), router=router, uplinks=(uplink,))
    async with running(FakeSwitch(), of) as agent:
        agent.set_observer(recorder)
        await agent.update(with_local(agent.world, local(1)), pod_change(1))
        assert recorder.worlds == [agent.world]
        agent.on_packet_in(PacketIn(0, 30, None, frames.arp(200, own.packed, operation=2)))
        agent.on_packet_in(PacketIn(0, 101, None, frames.arp(1, own.packed, operation=2)))
        assert [one.address for one in recorder.neighbours] == [peer]


async def test_an_audit_repairs_what_was_tampered_with() -> None:
    switch = FakeSwitch()
    async with running(switch, world(here=(local(1),)), SyncLimits(audit_interval=0.01)) as agent:
        switch.table.clear()
        switch.foreign = [FlowStamp(0, 1)]
        await until(lambda: switch.table == agent.desired.flows and not switch.foreign, "repaired")


async def test_a_bridge_is_not_synced_while_it_is_corrected() -> None:
    """The datapath's megaflows are made anew when it is again."""
    switch = FakeSwitch()
    async with running(switch, world(here=(local(1),))) as agent:
        seen: list[bool] = []
        agent.on_sync_change(lambda: seen.append(agent.sync.fully_synced))
        switch.table.clear()
        agent.sync.compare_soon()
        await until(lambda: seen[-2:] == [False, True], "corrected")


async def test_an_unexpected_error_leads_to_a_comparison() -> None:
    switch = FakeSwitch()
    async with running(switch, world(here=(local(1),))) as agent:
        switch.table.clear()
        agent.on_error("group refused")
        await until(lambda: switch.table == agent.desired.flows, "repaired")


@pytest.mark.parametrize("others", [1, 100])
async def test_refused_flows_fail_the_updates_they_belong_to(others: int) -> None:
    switch = FakeSwitch()
    switch.refuses = lambda flow: "in_port=109" in str(flow)
    async with running(switch, world()) as agent:
        grown = with_local(agent.world, local(9))
        for number in range(200, 200 + others):
            grown = with_local(grown, local(number))
        keys = frozenset(grown.local)
        with pytest.raises(FlowsRefused):
            await agent.update(grown, Changes.of(ObjectKind.LOCAL, keys))
        # the others' flows are there, and others' changes are not disturbed
        assert switch.table == {
            k: f for k, f in agent.desired.flows.items() if k not in agent.sync.refused
        }
        await agent.update(with_local(grown, local(10)), pod_change(10))
        with pytest.raises(FlowsRefused):
            await agent.update(agent.world, pod_change(9))
        refused = await agent.unrealised(local(9).key)
        assert refused.startswith(f"the switch refuses flows of endpoint {local(9).key}: ")
        assert await agent.unrealised(local(10).key) == ""
        switch.refuses = lambda _: False
        await agent.update(without_local(agent.world, local(9).key), pod_change(9))
        assert not agent.sync.refused
        assert switch.table == agent.desired.flows


async def test_packets_of_a_refused_flow_are_dropped_and_the_bridge_is_in_sync() -> None:
    """A refused output must not leave packets to a route behind it."""
    switch = FakeSwitch()
    switch.refuses = lambda flow: flow.table == TableId.IP and "output:101" in str(flow)
    async with running(switch, world()) as agent:
        with pytest.raises(FlowsRefused):
            await agent.update(with_local(agent.world, local(1)), pod_change(1))
        await until(lambda: agent.sync.fully_synced, "in sync")
        ((key, (flow, _)),) = agent.sync.refused.items()
        stand_in = switch.table[key]
        assert isinstance(stand_in, Flow)
        assert stand_in.instructions == DROP
        assert {**switch.table, key: flow} == agent.desired.flows
        before = switch.counters["flow_mods"]
        await agent.update(with_local(agent.world, local(2)), pod_change(2))
        assert switch.counters["flow_mods"] > before, "others are not kept out"
        switch.refuses = lambda _: False
        switch.disconnect()
        switch.connect()
        await until(
            lambda: agent.sync.synced and switch.table == agent.desired.flows, "tried again"
        )
        assert not agent.sync.refused


async def test_what_stood_in_for_a_flow_goes_with_its_object() -> None:
    switch = FakeSwitch()
    switch.refuses = lambda flow: flow.table == TableId.IP and "output:101" in str(flow)
    async with running(switch, world()) as agent:
        with pytest.raises(FlowsRefused):
            await agent.update(with_local(agent.world, local(1)), pod_change(1))
        await agent.update(without_local(agent.world, local(1).key), pod_change(1))
        assert switch.table == agent.desired.flows


async def test_refused_flows_are_tried_again_at_the_next_audit() -> None:
    switch = FakeSwitch()
    switch.refuses = lambda flow: flow.table == 7
    agent = BridgeAgent(switch, Bridge.VXLAN, world(), limits=SyncLimits(audit_interval=0.01))
    async with background("bridge", agent.run()):
        await until(lambda: len(agent.sync.refused) == 2, "refused")
        switch.refuses = lambda _: False
        await until(
            lambda: not agent.sync.refused and switch.table == agent.desired.flows, "accepted"
        )


async def test_a_bridge_that_lacks_refused_flows_is_never_fully_synced() -> None:
    switch = FakeSwitch()
    switch.refuses = lambda flow: flow.table == 7
    agent = BridgeAgent(switch, Bridge.VXLAN, world(), limits=SyncLimits(audit_interval=0.001))
    async with background("bridge", agent.run()):
        while switch.dumps < 20:
            assert not agent.sync.fully_synced
            await asyncio.sleep(0)
        switch.refuses = lambda _: False
        await until(
            lambda: agent.sync.fully_synced and switch.table == agent.desired.flows, "fully synced"
        )


async def test_an_update_that_failed_is_made_up_before_the_bridge_is_synced() -> None:
    switch = FakeSwitch()
    async with running(switch, world()) as agent:
        seen: list[bool] = []
        agent.on_sync_change(lambda: seen.append(agent.sync.fully_synced))
        switch.failures = [SwitchUnavailable("no answer")]
        with pytest.raises(SwitchUnavailable, match="no answer"):
            await agent.update(with_local(agent.world, local(1)), pod_change(1))
        assert not agent.sync.fully_synced
        await until(lambda: agent.sync.fully_synced, "fully synced")
        assert switch.table == agent.desired.flows
        assert (seen[0], seen[-1]) == (False, True)


async def test_a_switch_that_does_not_converge_is_left_for_a_while() -> None:
    switch = FakeSwitch()
    async with running(switch, world()) as agent:

        class Forgetful(FakeSwitch):
            async def dump(self) -> list[FlowStamp]:
                await super().dump()
                return []

        forgetful = Forgetful()
        other = BridgeAgent(forgetful, Bridge.VXLAN, agent.world)
        async with background("bridge", other.run()):
            with pytest.raises(SwitchRefused, match="did not converge after 5 attempts"):
                await other.update(with_local(other.world, local(1)), pod_change(1))
            assert not other.sync.synced
            assert forgetful.dumps == 5


async def test_a_failing_switch_fails_the_update_and_is_brought_up_to_date() -> None:
    switch = FakeSwitch()
    async with running(switch, world()) as agent:
        switch.failures = [SwitchUnavailable("no answer")]
        with pytest.raises(SwitchUnavailable, match="no answer"):
            await agent.update(with_local(agent.world, local(1)), pod_change(1))
        await until(lambda: switch.table == agent.desired.flows, "up to date")


async def test_an_impossible_endpoint_is_refused_alone() -> None:
    switch = FakeSwitch()
    async with running(switch, world()) as agent:
        bad = replace(local(2), mac="none")
        both = with_local(with_local(agent.world, local(1)), bad)
        with pytest.raises(Invalid, match="pod2 cannot be forwarded to"):
            await agent.update(both, pod_change(1) | pod_change(2))
        assert switch.table == agent.desired.flows
        assert any("in_port=101" in str(flow) for flow in switch.table.values())
        assert [oid.name for oid in agent.desired.faults] == [bad.key]


async def test_an_agent_that_stops_fails_the_waiting_updates() -> None:
    switch = FakeSwitch()
    agent = BridgeAgent(switch, Bridge.VXLAN, world())
    async with background("bridge", agent.run()):
        await until(lambda: agent.sync.synced, "synced")
        FakeSwitch.turns = 10**6
        try:
            waiting = asyncio.gather(agent.update(with_local(agent.world, local(1)), pod_change(1)))
            for _ in range(3):
                await asyncio.sleep(0)
        finally:
            FakeSwitch.turns = 3
    with pytest.raises(SwitchUnavailable):
        await waiting


async def test_arp_is_answered_and_counted() -> None:
    switch = FakeSwitch()
    async with running(switch, world(here=(local(1),), there=(remote(2),))) as agent:
        agent.on_packet_in(PacketIn(0, 1, None, frames.arp(1, address(2).packed)))
        agent.on_packet_in(PacketIn(0, 101, None, frames.arp(1, address(3).packed)))
        agent.on_packet_in(PacketIn(0, 101, None, b"noise"))
        sent = [(actions, in_port) for _, actions, in_port in switch.packets]
        assert sent == [((Output(1),), 0xFFFFFFFD)]
        assert agent.stats == {
            "PktRcvd": 3,
            "ArpPktRcvd": 2,
            "ArpReqRcvd": 2,
            "ArpReqRespSent": 1,
            "ArpReqUnknownDest": 1,
        }
        assert agent.inspect(AgentIdentity())["Stats"]["PktRcvd"] == 3


async def test_requests_in_anothers_name_are_counted_by_who_asked() -> None:
    guarded = replace(world(here=(local(1), local(2)), there=(remote(3),)), guard=True)
    async with running(FakeSwitch(), guarded) as agent:
        for port, sender in ((101, 2), (101, 3), (102, 2), (1, 2)):
            asked = frames.arp(sender, address(9).packed)
            agent.on_packet_in(PacketIn(0, port, None, asked))
        assert agent.forged == {str(local(1).key): 2}


def needs(flow: Flow) -> bool:
    """Return whether a flow is one for a datapath with the ND extension."""
    return "nd_reserved" in flow.instructions.names


async def test_the_switch_is_asked_at_each_connection_what_its_datapath_can_do() -> None:
    switch = FakeSwitch()
    switch.refuses = needs
    dual = replace(local(1), ip6=IPv6Address("2001:db8::1"))
    async with running(switch, world(here=(dual,))) as agent:
        assert agent.sync.fully_synced, "no flow is refused"
        assert switch.table == agent.desired.flows
        assert not any(map(needs, agent.desired.flows.values()))
        await agent.update(with_local(world(here=(dual,)), local(2)), pod_change(2))
        assert not agent.world.nd_extension, "no World that comes later changes it"
        switch.refuses = lambda _: False
        switch.disconnect()
        switch.connect()
        await until(lambda: any(map(needs, agent.desired.flows.values())), "asked again")
        await until(
            lambda: agent.sync.fully_synced and switch.table == agent.desired.flows, "replaced"
        )


async def test_flows_are_made_for_the_release_of_the_switch() -> None:
    switch = FakeSwitch()
    switch.software = "3.1.0"
    async with running(switch, world(here=(local(1),))) as agent:
        assert not agent.world.unchanged_nat
        await agent.update(with_local(world(here=(local(1),)), local(2)), pod_change(2))
        assert not agent.world.unchanged_nat, "no World that comes later changes it"
        switch.disconnect()
        switch.software = "3.1.3"
        switch.connect()
        await until(lambda: agent.world.unchanged_nat, "asked again")


async def test_the_kernels_datapath_has_no_fault_of_the_other_one() -> None:
    switch = FakeSwitch()
    switch.software, switch.refuses = "3.1.0", needs
    dual = replace(local(1), ip6=IPv6Address("2001:db8::1"))
    async with running(switch, world(here=(dual,))) as agent:
        assert agent.world.unchanged_nat


changes = st.tuples(st.sampled_from(["put", "put again", "drop"]), st.sampled_from([1, 1, 1, 2]))
turns = st.tuples(st.just("turn"), st.integers(1, 6))
disturbances = st.tuples(st.sampled_from(["fail", "reconnect", "lose flows"]), st.just(0))
# mostly changes, since every disturbance is followed by a comparison that repairs everything
steps = st.lists(st.one_of(changes, changes, changes, changes, turns, disturbances), max_size=30)


@given(steps)
@settings(max_examples=60)
def test_whatever_happens_the_switch_ends_up_equal(history: list[tuple[str, int]]) -> None:
    async def play() -> None:
        switch = FakeSwitch()
        now = world()
        async with running(switch, now) as agent, asyncio.TaskGroup() as group:
            for what, number in history:
                if what in {"put", "put again", "drop"}:
                    now = after(now, what, number)
                    group.create_task(tolerant(agent, now, number))
                else:
                    await disturb(switch, agent, what, number)
            switch.failures.clear()
            await asyncio.sleep(0)
            await until(lambda: switch.table == agent.desired.flows and agent.sync.synced, "equal")
            assert agent.world == now

    asyncio.run(play())


def after(before: World, what: str, number: int) -> World:
    if what == "drop":
        return without_local(before, local(number).key)
    return with_local(before, replace(local(number), group_id=int(what == "put again")))


async def disturb(switch: FakeSwitch, agent: BridgeAgent, what: str, number: int) -> None:
    match what:
        case "fail":
            switch.failures.append(SwitchUnavailable("injected"))
        case "reconnect":
            switch.disconnect()
            switch.connect()
        case "lose flows":
            switch.table.clear()
            agent.on_error("injected")
        case _:
            for _ in range(number):
                await asyncio.sleep(0)


async def tolerant(agent: BridgeAgent, now: World, number: int) -> None:
    with suppress(SwitchUnavailable):
        await agent.update(now, pod_change(number))
