"""Between any two changes of a flow a packet may come: what is denied passes at no moment."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from core.ids import EndpointKey
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.diff import FlowStamp, additions_in_order, deletions_in_order
from ofnet.flows import Flow, FlowKey
from ofnet.openflow.actions import PORT_CONTROLLER, Output
from ofnet.trace.evaluator import PacketFields, Tables, Value, tables_of
from ofnet.world import Bridge, FwdMode, LocalEndpoint, RemoteEndpoint, World
from tests.model.random_worlds import packets, worlds
from tests.model.switch import evaluate

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
    def holds(world: World, sent: list[PacketFields], data: st.DataObject) -> None:
        whole = flows_of(kind, world)
        less = flows_of(kind, data.draw(st.sampled_from(list(smaller(world)))))
        for before, after in (({}, whole), (less, whole), (whole, less)):
            assert not passed_on_the_way(before, after, sent)

    holds()


@pytest.mark.parametrize(("kind", "fwd_mode"), MODES)
def test_packets_of_a_pod_to_itself_while_it_moves(kind: Bridge, fwd_mode: FwdMode) -> None:
    @given(worlds(fwd_mode), st.lists(packets(), min_size=10, max_size=10))
    @settings(
        max_examples=15,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def holds(world: World, sent: list[PacketFields]) -> None:
        own = [to_itself(packet, pod) for pod in world.local.values() for packet in sent]
        everywhere = replace(world, remote={**world.remote, **known_elsewhere(world)})
        both = flows_of(kind, everywhere)
        moved = flows_of(kind, replace(everywhere, local={}))
        assert not passed_on_the_way(both, moved, own)
        assert not passed_on_the_way(moved, both, own)

    holds()


def passed_on_the_way(before: Flows, after: Flows, sent: list[PacketFields]) -> list[PacketFields]:
    """Return the packets that pass at some moment of a change, but neither before nor after it."""
    ends = [tables_of(flows.values()) for flows in (before, after)]
    denied = [packet for packet in sent if not any(allows(tables, packet) for tables in ends)]
    return [
        packet for moment in steps(before, after) for packet in denied if leaves(moment, packet)
    ]


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


def known_elsewhere(world: World) -> dict[EndpointKey, RemoteEndpoint]:
    """Return the pods of this host as they are on another one, to which they move."""
    return {
        key: RemoteEndpoint(
            key=key,
            network=pod.network,
            host=next(iter(world.vteps)),
            mac=pod.mac,
            ip=pod.ip,
            ip6=pod.ip6,
            group_id=pod.group_id,
        )
        for key, pod in world.local.items()
    }


def to_itself(packet: PacketFields, pod: LocalEndpoint) -> PacketFields:
    """Return a packet as this pod sends it to its own address."""
    own: dict[str, Value] = {"in_port": pod.ofport, "eth_src": pod.mac}
    for version, ip in ((4, pod.ip), (6, pod.ip6)):
        if ip is not None and packet.get(f"ipv{version}_src") is not None:
            own |= {f"ipv{version}_src": ip, f"ipv{version}_dst": ip}
    return PacketFields({**packet.fields, **own})


def allows(tables: Tables, packet: PacketFields) -> bool:
    """Tell whether flows send a packet anywhere, be it back to the port that it came from.

    The switch drops the latter, but no flow denies it. Such are packets of a pod to its own address
    (forged: its kernel keeps them); while the pod moves, they go to its other host, as any to it.
    """
    back = Output(packet.number("in_port"))
    path = evaluate(tables, packet).path
    return leaves(tables, packet) or any(back in flow.instructions.actions for flow in path)


def leaves(tables: Tables, packet: PacketFields) -> bool:
    """Tell whether a packet leaves for anybody but the agent, which judges what it sends on."""
    return any(sent.port != PORT_CONTROLLER for sent in evaluate(tables, packet).sent)


def flows_of(kind: Bridge, world: World) -> Flows:
    desired = Desired(kind)
    desired.update(world, EVERYTHING)
    return dict(desired.flows)
