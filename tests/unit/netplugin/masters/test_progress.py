"""What is reported as realised is on both switches; what is wrong is named."""

from collections.abc import Sequence
from contextlib import suppress

import pytest

from core import keys
from core.errors import SwitchRefused, SwitchUnavailable
from netplugin.masters.progress import MAX_ERRORS, MAX_LENGTH, Progress
from ofnet.channel.requests import FlowsRefused
from ofnet.diff import FlowStamp
from ofnet.flows import Flow
from ofnet.world import Bridge
from state.watch import Changed, Removed, StoreRolledBack, SyncedTo
from tests.unit.netplugin.agent import Agent, Outside, eventually, running
from tests.unit.netplugin.records import PEER, endpoint, host, network

FLOWS = f"flows {Bridge.VXLAN}"


def tell(agent: Agent, revision: int, container: int = 2) -> None:
    """Have the store tell of an endpoint on another host, and up to where it has told."""
    agent.learn(f"/eps/{container}", endpoint(container, host=PEER))
    agent.records.apply(SyncedTo("/eps/", revision))


def realised(agent: Agent) -> int:
    return agent.progress.standing.revisions.get("/eps/", 0)


async def test_a_revision_is_realised_when_the_switch_has_its_flows(outside: Outside) -> None:
    async with running(outside) as agent:
        tell(agent, 5)
        await eventually(lambda: realised(agent) == 5)
        outside.faults.reached.clear()
        gate = outside.faults.stop(FLOWS)
        tell(agent, 6, 3)
        await outside.faults.until(FLOWS)
        agent.records.apply(SyncedTo("/eps/", 7))
        assert realised(agent) == 5
        changed = agent.progress.changed()
        gate.set()
        await changed.wait()
        await eventually(lambda: realised(agent) == 7)


async def test_what_was_realised_of_another_history_is_forgotten(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.records.apply(SyncedTo("/nets/", 3))
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 8))
        tell(agent, 50)
        await eventually(lambda: realised(agent) == 50)
        changed = agent.progress.changed()
        for prefix in ("/eps/", keys.ENDPOINTS):
            agent.records.apply(StoreRolledBack(prefix))
        assert changed.is_set()
        assert agent.progress.standing.revisions == {"/nets/": 3}
        assert agent.progress.late({"/eps/": 1})
        assert agent.progress.late({keys.ENDPOINTS: 1})
        await agent.reconciler.flush()
        assert agent.progress.standing.revisions == {"/nets/": 3}
        tell(agent, 20, 3)
        await eventually(lambda: realised(agent) == 20)
        assert not agent.progress.late({"/eps/": 20, "/nets/": 3})


async def test_a_round_of_another_history_realises_nothing(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.reached.clear()
        gate = outside.faults.stop(FLOWS)
        tell(agent, 50)
        await outside.faults.until(FLOWS)
        agent.records.apply(StoreRolledBack("/eps/"))
        agent.records.apply(SyncedTo("/eps/", 20))
        gate.set()
        await eventually(lambda: realised(agent) > 0)
        assert realised(agent) == 20


async def test_a_revision_without_flows_is_realised_too(outside: Outside) -> None:
    async with running(outside) as agent:
        agent.records.apply(SyncedTo("/eps/", 5))
        agent.records.apply(SyncedTo("/nets/", 3))
        wanted = {"/eps/": 5, "/nets/": 3}
        await eventually(lambda: agent.progress.standing.revisions == wanted)


@pytest.mark.parametrize("bridge", Bridge)
async def test_what_a_switch_that_is_away_lacks_is_not_realised(
    outside: Outside, bridge: Bridge
) -> None:
    async with running(outside) as agent:
        tell(agent, 5)
        await eventually(lambda: realised(agent) == 5)
        outside.switches[bridge].go(online=False)
        tell(agent, 6, 3)
        for revision in (7, 8):  # the first round may fail, the second has nothing to carry
            with suppress(SwitchUnavailable):
                await agent.reconciler.flush()
            agent.records.apply(SyncedTo("/eps/", revision))
        await agent.reconciler.flush()
        assert realised(agent) == 5
        outside.switches[bridge].go(online=True)
        await eventually(lambda: realised(agent) == 8)


async def test_a_later_round_does_not_cover_up_a_failed_one(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.reached.clear()
        outside.faults.failing[FLOWS] = SwitchRefused("no answer")
        tell(agent, 5)
        await outside.faults.until(FLOWS)
        agent.records.apply(SyncedTo("/eps/", 6))
        await agent.reconciler.flush()
        assert realised(agent) == 0
        outside.faults.failing.clear()
        await eventually(lambda: realised(agent) == 6)


async def test_a_pod_need_not_wait_for_the_flows_of_others(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.failing[FLOWS] = SwitchRefused("no answer")
        agent.learn("/nets/n2", network("n2", tag=9))
        agent.records.apply(SyncedTo(keys.NETWORKS, 5))
        agent.records.apply(SyncedTo(keys.ENDPOINTS, 6))
        await agent.records.caught_up({keys.ENDPOINTS: 6}, "", 5)
        assert agent.progress.late({keys.NETWORKS: 5})
        assert agent.progress.late({keys.ENDPOINTS: 7}) == f"{keys.ENDPOINTS} at 6 of 7"


async def test_a_refused_flow_holds_the_revision_and_is_named(
    outside: Outside, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(outside) as agent:
        agent.learn("/host/h2", host())
        await agent.ports.converge()
        switch = outside.switches[Bridge.VXLAN]
        take = switch.apply

        async def refuse(add: Sequence[Flow], delete: Sequence[FlowStamp]) -> None:
            refused = [flow for flow in add if "nw_dst=10.1.0.2 " in f"{flow} "]
            await take([flow for flow in add if flow not in refused], delete)
            if refused:
                raise FlowsRefused([(flow, "table full") for flow in refused])

        monkeypatch.setattr(switch, "apply", refuse)
        tell(agent, 5)
        await eventually(lambda: bool(agent.progress.standing.errors))
        start = f"bridge {Bridge.VXLAN}: flow of remote "
        assert agent.progress.standing.errors[-1].startswith(start)
        tell(agent, 6, 3)
        await agent.reconciler.flush()
        assert realised(agent) == 0
        agent.records.apply(Removed("/eps/2", endpoint(2, host=PEER)))
        agent.records.apply(SyncedTo("/eps/", 7))
        await eventually(lambda: realised(agent) == 7)
        assert agent.progress.standing.errors == ()


async def test_faults_are_named_and_forgotten(outside: Outside) -> None:
    unreadable = {"/nets/bad": "not JSON"}
    async with running(outside) as agent:
        agent.progress._unreadable = unreadable
        agent.records.apply(Changed("/nets/n2", network("n2", gateway="10.1"), None))
        await eventually(lambda: len(agent.progress.standing.errors) == 2)
        first, second = agent.progress.standing.errors
        assert first == "/nets/bad: not JSON"
        assert second.startswith("/nets/n2: record of n2.default: ")
        assert agent.progress.summary() == ["records: 2, see `netctl host inspect`"]
        unreadable.clear()
        agent.records.apply(Removed("/nets/n2", network("n2")))
        assert agent.progress.standing.errors == ()
        assert agent.progress.summary() == []


async def test_a_tunnel_that_cannot_be_made_is_named(outside: Outside) -> None:
    async with running(outside) as agent:
        outside.faults.failing["row"] = SwitchRefused("constraint")
        agent.learn("/host/h2", host())
        changed = agent.progress.changed()
        with pytest.raises(SwitchRefused):
            await agent.ports.converge()
        assert changed.is_set()
        assert list(agent.progress.standing.errors) == [f"no tunnel to {PEER}: constraint"]
        outside.faults.failing.clear()
        await agent.ports.converge()
        await agent.ports.converge()
        assert not agent.progress.standing.errors


def test_a_report_stays_small() -> None:
    progress = Progress({}, {f"/nets/{number}": "x" * 1000 for number in range(100)})
    errors = progress.standing.errors
    assert (len(errors), {len(error) for error in errors}) == (MAX_ERRORS, {MAX_LENGTH})
