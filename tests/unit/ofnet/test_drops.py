"""What a reported packet says of the flow that dropped it."""

from dataclasses import replace

import pytest

from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectId, ObjectKind
from ofnet.channel.wire import PacketIn
from ofnet.drops import DroppedPacket
from ofnet.flows import Flow
from ofnet.logged_rules import LoggedPacket
from ofnet.openflow.fields import VRF
from ofnet.pipelines.features import flow_records
from ofnet.tables import Priority, TableId
from ofnet.world import Bridge, Rule, Service, ServicePort
from tests.unit.ofnet import frames
from tests.unit.ofnet.fake_switch import FakeSwitch
from tests.unit.ofnet.worlds import address, local, remote, world

DENY = Rule(id="deny", priority=1, allow=False, dst_group=8, protocol=6, dst_port=80)
LOGGED = replace(DENY, id="logged", priority=2, log=True)
EMPTY = Service(key="web:default", vrf=1, address=address(200), ports=(ServicePort(6, 80),))
WORLD = replace(
    world(here=(local(1),), there=(remote(2),)),
    rules={one.id: one for one in (DENY, LOGGED)},
    services={EMPTY.key: EMPTY},
    guard=True,
    flow_records=True,
)
FRAME = frames.segment(local(1), str(address(2)), 80)


class Heard:
    """An agent of a bridge, and what it tells."""

    def __init__(self) -> None:
        self.drops: list[DroppedPacket] = []
        self.logged: list[LoggedPacket] = []
        self.agent = BridgeAgent(
            FakeSwitch(),
            Bridge.VXLAN,
            WORLD,
            notice=self.logged.append,
            dropped=self.drops.append,
        )

    def flow(self, owner: ObjectId, table: TableId, priority: int) -> Flow:
        desired = self.agent.desired
        (found,) = (
            flow
            for flow in desired.made(desired.keys_of(owner))
            if (flow.table, flow.priority) == (table, priority)
            and flow_records.reports_drops(flow)
            and ("eth_type", 0x86DD) not in flow.match.fields
        )
        return found

    def tell(self, flow: Flow, *, vrf: int = 1, frame: bytes = FRAME) -> None:
        marks = VRF.put(vrf).value
        self.agent.on_packet_in(PacketIn(flow.table, 101, None, frame, flow.cookie, marks))


GUARDED = ObjectId(ObjectKind.LOCAL, local(1).key)


@pytest.mark.parametrize(
    ("owner", "table", "priority", "vrf", "refused"),
    [
        (ObjectId(ObjectKind.RULE, "deny"), TableId.POLICY, 11, 1, False),
        (ObjectId(ObjectKind.RULE, "logged"), TableId.POLICY, 12, 1, True),
        (GUARDED, TableId.INPUT, Priority.GUARD, 0, False),
        (ObjectId(ObjectKind.SERVICE, EMPTY.key), TableId.SRV_PROXY_DNAT, Priority.PORT, 1, True),
    ],
)
def test_a_drop_names_its_flow_and_its_ends(
    owner: ObjectId, table: TableId, priority: int, vrf: int, *, refused: bool
) -> None:
    heard = Heard()
    heard.tell(heard.flow(owner, table, priority), vrf=vrf)
    (found,) = heard.drops
    assert (found.owner, found.table, found.refused) == (owner, table, refused)
    assert found.source.endpoint == local(1).key
    assert (found.destination.endpoint, found.destination.port) == (remote(2).key, 80)
    assert [one.rule for one in heard.logged] == [LOGGED] * (owner.name == "logged")


def test_what_is_no_drop_or_no_ip_is_none() -> None:
    heard = Heard()
    flow = heard.flow(GUARDED, TableId.INPUT, Priority.GUARD)
    heard.tell(flow, frame=FRAME[:12] + b"\x88\xcc" + bytes(40))
    other = next(one for one in heard.agent.desired.flows.values() if one.instructions.goto)
    heard.agent.on_packet_in(PacketIn(other.table, 101, None, FRAME, other.cookie, 0))
    assert not heard.drops
    dropping = heard.agent.dropping.by_cookie(flow.cookie)
    assert dropping == (GUARDED, TableId.INPUT, True)
    assert heard.agent.dropping.by_cookie(other.cookie) is None
