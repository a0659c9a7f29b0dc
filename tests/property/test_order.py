"""Between any two changes of a flow a packet may come: what is denied passes at no moment."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.diff import FlowStamp, additions_in_order, deletions_in_order
from ofnet.flows import Flow, FlowKey
from ofnet.openflow.actions import PORT_CONTROLLER
from ofnet.trace.evaluator import Packet, Tables, evaluate, tables_of
from ofnet.world import Bridge, FwdMode, World
from tests.model.random_worlds import packets, worlds

MODES = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]
Flows = dict[FlowKey, Flow]


@pytest.mark.parametrize(("kind", "fwd_mode"), MODES)
def test_every_step_of_a_change(kind: Bridge, fwd_mode: FwdMode) -> None:
    @given(worlds(fwd_mode), st.lists(packets(), min_size=10, max_size=10), st.data())
    @settings(
        max_examples=15,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def holds(world: World, sent: list[Packet], data: st.DataObject) -> None:
        whole = flows_of(kind, world)
        less = flows_of(kind, data.draw(st.sampled_from(list(smaller(world)))))
        for before, after in (({}, whole), (less, whole), (whole, less)):
            others = [packet for packet in sent if not is_to_itself(packet)]
            denied = [packet for packet in others if not passes(packet, before, after)]
            for moment in steps(before, after):
                assert not [packet for packet in denied if leaves(moment, packet)]

    holds()


def smaller(world: World) -> Iterator[World]:
    """Yield the World without one of its pods."""
    yield world
    for key in world.local:
        yield replace(world, local={k: pod for k, pod in world.local.items() if k != key})
    for key in world.remote:
        yield replace(world, remote={k: pod for k, pod in world.remote.items() if k != key})


def steps(before: Flows, after: Flows) -> Iterator[Tables]:
    """Yield the switch after every flow that is added, then after every one that is deleted."""
    now = dict(before)
    fresh = [flow for key, flow in after.items() if before.get(key) != flow]
    for flow in additions_in_order(fresh):
        now[flow.key] = flow
        yield tables_of(now.values())
    gone = {
        FlowStamp(flow.table, flow.cookie): key for key, flow in before.items() if key not in after
    }
    for stamp in deletions_in_order(gone):
        del now[gone[stamp]]
        yield tables_of(now.values())


def passes(packet: Packet, *states: Flows) -> bool:
    return any(leaves(tables_of(flows.values()), packet) for flows in states)


def is_to_itself(packet: Packet) -> bool:
    """Tell whether a pod sends to its own address: while it moves, that goes to its other host."""
    ends = ("ipv4_src", "ipv4_dst"), ("ipv6_src", "ipv6_dst")
    return any(packet.get(one) and packet.get(one) == packet.get(other) for one, other in ends)


def leaves(tables: Tables, packet: Packet) -> bool:
    """Tell whether a packet leaves for anybody but the agent, which judges what it sends on."""
    return any(sent.port != PORT_CONTROLLER for sent in evaluate(tables, packet).sent)


def flows_of(kind: Bridge, world: World) -> Flows:
    desired = Desired(kind)
    desired.update(world, EVERYTHING)
    return dict(desired.flows)
