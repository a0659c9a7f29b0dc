"""Records of connections and drops, from dumps and reports, with the names that a World gives."""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from ofnet.changes import ObjectId, ObjectKind
from ofnet.drops import DroppedPacket, Dropping
from ofnet.logged_rules import LoggedEnd, LoggedPacket
from ofnet.tables import TableId
from ofnet.world import Bridge, Rule
from tests.unit.netplugin.flow_records.recorded import POD1, POD2, VIP, DumpRecorder, flow
from tests.unit.ofnet.worlds import NET, address, local, remote

GROUP = IPv4Address("224.0.0.5")
THERE, BACK = (POD1, 40000, POD2, 80), (POD2, 80, POD1, 40000)


def test_a_connection_has_one_record_that_grows_and_ends() -> None:
    dumps = DumpRecorder()
    sent = flow("vvport1", THERE, (9, 900))
    (one,) = dumps.look(sent, flow("vxlan_sys_4789", BACK, (4, 400)))
    assert (one.source.address, one.source.port, one.destination.port) == (POD1, 40000, 80)
    assert (one.source.names.pod, one.source.names.namespace) == ("pod1", "shop")
    assert (one.destination.names.group, one.destination.names.tenant) == ("front", "default")
    assert (one.packets, one.answer_packets) == (10, 5)
    assert one.first == dumps.now - 0.5
    (same,) = dumps.look(flow("vvport1", THERE, (20, 2000)), flow("vxlan_sys_4789", BACK, (4, 400)))
    assert same is one
    assert (one.packets, one.bytes, one.answer_packets, one.ended) == (21, 2074, 5, False)
    dumps.look()
    assert one.ended
    (_, again) = dumps.look(sent)
    assert again is not one
    assert not again.ended


def test_another_hosts_connection_is_its_own() -> None:
    dumps = DumpRecorder()
    theirs = (POD2, 40000, POD1, 80)
    answered = (POD1, 80, POD2, 40000)
    assert not dumps.look(
        flow("vxlan_sys_4789", theirs, (9, 900)), flow("vvport1", answered, (9, 900))
    )
    outside = (("192.0.2.1", 40000, POD1, 80), (POD1, 80, "192.0.2.1", 40000))
    (one,) = dumps.look(flow("vvport1", outside[1], (1, 1)))
    assert one.source.address == "192.0.2.1"
    assert one.answer_packets == 2


def test_a_service_is_named_and_its_client_is_the_source() -> None:
    dumps = DumpRecorder()
    # the provider has the greater port
    asked, served = (POD1, 700, VIP, 80), (POD1, 700, POD2, 8080)
    lines = (
        flow("vvport1", asked, (9, 900)),
        flow("vvport1", served, (9, 900), stage="0x4"),
        flow("vxlan_sys_4789", (POD2, 8080, POD1, 700), (5, 500)),
    )
    (one,) = dumps.look(*lines)
    assert (one.source.port, one.destination.address, one.destination.port) == (700, POD2, 8080)
    assert (one.service, one.service_address, one.service_port) == ("web:default", VIP, 80)
    assert (one.packets, one.answer_packets) == (10, 6)
    assert dumps.look(*lines) == [one]
    dumps.look()
    assert one.ended


def test_what_reaches_no_provider_is_a_connection_to_the_service() -> None:
    dumps = DumpRecorder()
    line = flow("vvport1", (POD1, 40000, VIP, 80), (2, 200))
    (one,) = dumps.look(line)
    assert (one.destination.address, one.packets) == (VIP, 3)
    assert dumps.look(line) == [one]


def test_what_is_of_no_pod_and_what_stays_on_a_link_is_no_record() -> None:
    dumps = DumpRecorder()
    lines = [
        flow("eth9", THERE, (1, 1)),
        flow("vvport1", ("192.0.2.1", 1, "192.0.2.2", 2), (1, 1)),
        flow("vvport1", (POD1, 1, "224.0.0.1", 2), (1, 1)),
        flow("vvport1", (POD1, 1, "169.254.1.1", 2), (1, 1)),
    ]
    assert not dumps.look(*lines)


def dropped(port: int, owner: ObjectId, table: TableId, *, refused: bool = False) -> DroppedPacket:
    return DroppedPacket(
        bridge=Bridge.VXLAN,
        table=table,
        owner=owner,
        refused=refused,
        protocol=6,
        source=LoggedEnd(address=address(1), port=port, endpoint=local(1).key, network=NET),
        destination=LoggedEnd(address=address(2), port=80, endpoint=remote(2).key, network=NET),
    )


RULE = ObjectId(ObjectKind.RULE, "default:web:default:doors:default:doors:7:inTx:x")


@pytest.mark.parametrize(
    ("owner", "table", "refused", "reason", "policy"),
    [
        (RULE, TableId.POLICY, False, "policy", ("doors", "7")),
        (ObjectId(ObjectKind.LOCAL, "x"), TableId.INPUT, False, "spoofed", ("", "")),
        (ObjectId(ObjectKind.MANAGEMENT, "10.0.0.1"), TableId.DST_GRP, False, "guard", ("", "")),
        (ObjectId(ObjectKind.SERVICE, "web:default"), TableId(3), True, "no-provider", ("", "")),
        (ObjectId(ObjectKind.SERVICE, "web:default"), TableId(3), False, "no-such-port", ("", "")),
        (ObjectId(ObjectKind.PIPELINE), TableId.MAC_DEST, False, "no-route", ("", "")),
    ],
)
def test_a_drop_has_a_reason(
    owner: ObjectId, table: TableId, reason: str, policy: tuple[str, str], *, refused: bool
) -> None:
    dumps = DumpRecorder()
    dumps.recorder.note(dropped(1, owner, table, refused=refused))
    (one,) = dumps.recorder.ring.records()
    assert (one.verdict, one.reason, one.protocol) == ("dropped", reason, "tcp")
    assert (one.policy, one.rule) == policy
    assert one.destination.names.pod == "pod2"


def test_drops_of_the_same_ends_are_one_record_until_they_cease() -> None:
    dumps = DumpRecorder()
    for port in (1, 1, 2):
        dumps.recorder.note(dropped(port, RULE, TableId.POLICY))
    first, second = dumps.look()
    assert (first.packets, second.packets, first.ended) == (2, 1, False)
    dumps.now += 60
    dumps.look()
    assert first.ended
    dumps.recorder.note(dropped(1, RULE, TableId.POLICY))
    assert len(dumps.recorder.ring) == 3


def test_drops_that_were_not_reported_are_counted() -> None:
    dumps = DumpRecorder()
    line = reporting(dumps, Dropping(RULE, TableId.POLICY, only=True))
    dumps.look(line.format(5))
    assert dumps.recorder.lost == {"room": 0, "dump": 0, "drop": 0}, "that was before its time"
    dumps.recorder.note(dropped(1, RULE, TableId.POLICY))
    dumps.look(line.format(9))
    assert dumps.recorder.lost["drop"] == 3
    dumps.look(line.format(2))
    assert dumps.recorder.lost["drop"] == 5


def reporting(dumps: DumpRecorder, dropping: Dropping) -> str:
    """Return a datapath flow, of so many packets, of a flow that drops."""
    agent = dumps.recorder._agents[Bridge.VXLAN]
    assert agent.dropping.by_cookie(1) is None
    agent.dropping.by_cookie = {1: dropping}.get  # type: ignore[assignment, method-assign]
    return (
        "recirc_id(0),in_port(vvport1),eth(),ipv4(src=1.1.1.1), packets:{}, bytes:1, used:1s,"
        "actions:userspace(pid=0,controller(reason=1,rule_cookie=0x1,max_len=128))\n"
    )


class Counted:
    """What a counter of drops hears."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self.counts: list[tuple[str, ObjectId, str, int]] = []

    def report(self, _packet: DroppedPacket, reason: str) -> None:
        self.reports.append(reason)

    def count(self, link: str, owner: ObjectId, reason: str, packets: int) -> None:
        self.counts.append((link, owner, reason, packets))


def test_drops_are_counted_by_reports_and_by_the_datapath() -> None:
    counted = Counted()
    dumps = DumpRecorder(drop_counter=counted)
    dumps.recorder.note(dropped(1, RULE, TableId.POLICY))
    multicast = replace(dropped(1, RULE, TableId.POLICY), destination=LoggedEnd(address=GROUP))
    dumps.recorder.note(multicast)
    assert counted.reports == ["policy"]
    line = reporting(dumps, Dropping(RULE, TableId.POLICY, only=False))
    for packets in (7, 9, 9, 2):
        dumps.look(line.format(packets))
    dumps.look()
    dumps.look(line.format(0))
    assert dumps.recorder.lost["drop"] == 0, "what has a log comes here within the rule's meter"
    # one more for each time that the datapath's flow was made
    assert counted.counts == [("vvport1", RULE, "policy", count) for count in (2, 0, 3, 1)]


def test_what_would_be_denied_has_a_record_of_its_own() -> None:
    dumps = DumpRecorder()
    rule = Rule(id=RULE.name, priority=1, allow=False, log=True, audit=True)
    drop = dropped(1, RULE, TableId.POLICY)
    packet = LoggedPacket(rule=rule, protocol=6, source=drop.source, destination=drop.destination)
    for _ in range(2):
        dumps.recorder.note_audited(packet, Bridge.VXLAN)
    dumps.recorder.note(drop)
    audited, denied = dumps.recorder.ring.open()
    assert (audited.verdict, audited.packets, denied.verdict) == ("audited", 2, "dropped")
    assert (audited.reason, audited.policy, audited.rule) == ("policy", "doors", "7")
    assert audited.destination.names.pod == "pod2"
    assert dumps.recorder.lost["drop"] == 0
