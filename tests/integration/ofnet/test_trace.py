"""Random Worlds on a real Open vSwitch: it forwards packets as the model does, in every mode."""

from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    DROP,
    PORT_NORMAL,
    Action,
    Conntrack,
    Instructions,
    Output,
    SetField,
)
from ofnet.openflow.fields import VRF
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.tables import TableId
from ofnet.trace.evaluator import PacketFields, Tables, tables_of
from ofnet.world import Bridge, FwdMode, World
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.switch_flows import flows_of
from tests.integration.ofnet.trace import TracedBridge
from tests.model.random_worlds import PORTS, packets, worlds
from tests.model.switch import Verdict, evaluate
from tests.unit.ofnet.worlds import address, local, mac, world

pytestmark = pytest.mark.ovs


@pytest.fixture(scope="module")
def bridge(ovs_module: OvsHost) -> TracedBridge:
    return TracedBridge(ovs_module, "traced", PORTS)


def disagreements(
    bridge: TracedBridge, tables: Tables, sent: Iterable[PacketFields]
) -> Iterator[str]:
    """Yield each packet about which the model and the switch do not agree.

    Where OpenFlow leaves the choice to the switch there is nothing to agree about.
    """
    for packet in sent:
        modelled = evaluate(tables, packet)
        if any(Conntrack.name in flow.instructions.names for flow in modelled.path):
            continue  # what is tracked has tests with real packets (`test_services`)
        if modelled.ambiguous:
            continue
        real, ours = outcome(bridge.trace(packet)), outcome(modelled)
        if real != ours:
            path = "\n".join(map(str, modelled.path))
            yield f"{packet}\nOpen vSwitch: {real}\nmodel: {ours}\n{path}"


def outcome(verdict: Verdict) -> tuple[object, ...]:
    """Return what can be compared: what NORMAL gets is not in the answer to a trace."""
    sent = [
        (leaving.port, None if leaving.port == PORT_NORMAL else carried(leaving.packet))
        for leaving in verdict.sent
    ]
    return sent, verdict.final.get("metadata"), verdict.final.get("tunnel_id")


def carried(packet: PacketFields) -> tuple[object, ...]:
    """Return what is in the frame."""
    fields = {name: packet.fields[name] for name in packet.fields.keys() - _BESIDE_THE_FRAME}
    return fields, packet.tags


_BESIDE_THE_FRAME = {"metadata", "tunnel_id", "reg2", "reg3"}

MODES = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]


@pytest.mark.parametrize(("kind", "fwd_mode"), MODES)
def test_the_switch_does_what_the_model_says(
    bridge: TracedBridge, kind: Bridge, fwd_mode: FwdMode
) -> None:
    @given(worlds(fwd_mode), st.lists(packets(), min_size=30, max_size=30))
    @settings(
        max_examples=15,
        # the same ones each time: a failure must be about the change under test
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def agree(world: World, sent: list[PacketFields]) -> None:
        flows = flows_of(kind, world)
        bridge.install(flows)
        assert not list(disagreements(bridge, tables_of(flows), sent))

    agree()


Alteration = Callable[[Flow], Flow | None]


def dropped(flow: Flow) -> Flow:
    return flow_with(flow, instructions=DROP)


def misaddressed(flow: Flow) -> Flow:
    """Send to another MAC."""
    actions = tuple(
        SetField("eth_dst", mac(77)) if getattr(action, "name", "") == "eth_dst" else action
        for action in flow.instructions.actions
    )
    return flow_with(flow, instructions=replace_actions(flow.instructions, actions))


def misdirected(flow: Flow) -> Flow:
    """Send out of another port."""
    actions = tuple(
        Output(106) if isinstance(action, Output) else action
        for action in flow.instructions.actions
    )
    return flow_with(flow, instructions=replace_actions(flow.instructions, actions))


def mismarked(flow: Flow) -> Flow:
    """Mark as another tenant's."""
    altered = Instructions((), VRF.put(9), flow.instructions.goto)
    return flow_with(flow, instructions=altered)


def unimportant(flow: Flow) -> Flow:
    """Have anything else win."""
    return Flow(flow.owner, flow.table, 0, flow.match, flow.instructions)


def missing(_flow: Flow) -> None:
    return None


def flow_with(flow: Flow, *, instructions: Instructions) -> Flow:
    return Flow(flow.owner, flow.table, flow.priority, flow.match, instructions)


def replace_actions(before: Instructions, actions: tuple[Action, ...]) -> Instructions:
    return Instructions(actions, before.metadata, before.goto)


@pytest.mark.parametrize(
    ("table", "alteration"),
    [
        (TableId.INPUT, missing),
        (TableId.VLAN, mismarked),
        (TableId.VLAN, unimportant),
        (TableId.POLICY, dropped),
        (TableId.IP, dropped),
        (TableId.IP, misaddressed),
        (TableId.IP, misdirected),
        (TableId.IP, unimportant),
        (TableId.IP, missing),
    ],
)
def test_a_wrong_flow_of_the_model_is_noticed(
    bridge: TracedBridge, table: TableId, alteration: Alteration
) -> None:
    """Alter in the model's table the flow that one packet between two pods meets."""
    flows = flows_of(Bridge.VXLAN, TWO_PODS)
    bridge.install(flows)
    assert not list(disagreements(bridge, tables_of(flows), [BETWEEN_THEM]))
    (met,) = [flow for flow in evaluate(tables_of(flows), BETWEEN_THEM).path if flow.table == table]
    wrong = alteration(met)
    altered = [flow for flow in flows if flow != met] + ([wrong] if wrong is not None else [])
    assert list(disagreements(bridge, tables_of(altered), [BETWEEN_THEM]))


TWO_PODS = world(here=(local(1), local(2)))
BETWEEN_THEM = PacketFields(
    {
        "in_port": 101,
        "eth_src": mac(1),
        "eth_dst": ROUTER_MAC,
        "eth_type": oxm.ETH_IPV4,
        "ipv4_src": address(1),
        "ipv4_dst": address(2),
        "ip_proto": oxm.PROTO_ICMP,
    }
)
