"""What Open vSwitch is asked for a packet, and what it answered (recorded from 3.1.0)."""

from dataclasses import replace

from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.openflow.fields import CT_NEW, CT_TRACKED
from ofnet.tables import TableId
from ofnet.trace import packets, switch
from ofnet.trace.evaluator import PacketFields
from ofnet.trace.journey import follow
from ofnet.trace.packets import Talk
from ofnet.trace.switch import Hit
from ofnet.trace.tracking import LookedUp
from ofnet.world import Bridge
from tests.unit.ofnet.worlds import address, local, world

WORLD = world(here=(local(1), local(2)))


def path() -> tuple[LookedUp, ...]:
    desired = Desired(Bridge.VXLAN)
    desired.update(WORLD, EVERYTHING)
    packet = packets.from_endpoint(WORLD, local(1), Talk(to=address(2)))
    assert packet is not None
    return follow(desired.flows.values(), WORLD, [packet]).path


RECORDED = """\
Flow: icmp,in_port=101,vlan_tci=0x0000,dl_src=02:02:0a:01:00:01

bridge("br0")
-------------
 0. priority 1, cookie 0xc000000000000001
    goto_table:1
 1. in_port=101, priority 10, cookie 0xc005000000000002
    write_metadata:0x100000000/0xff7fff0000
    goto_table:3
 3. ip,metadata=0x100000000/0xff00000000,nw_dst=10.1.0.9, priority 98
    ct(table=4,zone=49153)
     4. No match.
            drop
    -> A clone of the packet is forked to recirculate.

Final flow: unchanged
Megaflow: recirc_id=0,eth,ip,in_port=101
Datapath actions: ct(zone=49153),recirc(0x5)

===============================================================================
recirc(0x5) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)
===============================================================================

bridge("br0")
-------------
    thaw
        Resuming from table 4
 4. priority 1, cookie 0xc000000000000003
    drop
"""


def test_the_flows_of_an_answer_up_to_connection_tracking() -> None:
    assert switch.hits(RECORDED) == [
        Hit(0, 0xC000000000000001, 1, "table=0, priority=1"),
        Hit(1, 0xC005000000000002, 10, "table=1, priority=10,in_port=101"),
        Hit(3, 0, 98, "table=3, priority=98,ip,metadata=0x100000000/0xff00000000,nw_dst=10.1.0.9"),
        Hit(4, None),
    ]


def test_a_switch_that_sends_nothing_says_why() -> None:
    assert switch.refusal(RECORDED) == ""
    gone = "    output:7\n     >> Nonexistent output port\n\nDatapath actions: drop\n"
    assert switch.refusal(gone) == "Nonexistent output port"
    assert switch.refusal("Datapath actions: drop\n") == "no reason given"


def test_differences() -> None:
    wanted = path()
    same = [Hit(one.table, one.flow.cookie) for one in wanted if one.flow is not None]
    assert switch.difference(wanted, same) is None
    for at, one in enumerate(same):
        for other in (replace_hit(one, cookie=None), replace_hit(one, cookie=1)):
            found = switch.difference(wanted, [*same[:at], other, *same[at + 1 :]])
            assert found == (wanted[at], other)
    assert switch.difference(wanted, same[:-1]) == (wanted[-1], None)


def test_either_of_equal_flows_may_count() -> None:
    *_, before, last = path()
    assert last.flow is not None
    assert before.flow is not None
    free = replace(last, others=(before.flow,))
    chosen = Hit(last.table, before.flow.cookie)
    assert switch.difference([free], [chosen]) is None
    assert switch.difference([free], [chosen._replace(cookie=1)]) is not None
    # what follows is the switch's own way
    assert switch.difference([free, before], [chosen]) is None


def replace_hit(hit: Hit, *, cookie: int | None) -> Hit:
    return hit._replace(cookie=cookie)


def test_the_questions() -> None:
    first, *_, last = path()
    asked = switch.command("br0", [first], resumed=False)
    assert asked[:2] == ("ofproto/trace", "br0")
    assert asked[2].startswith("dl_type=2048,nw_proto=1,icmp_type=8,")
    tracked = last.packet.put("ct_state", CT_TRACKED | CT_NEW)
    again = switch.command("br0", [replace(last, packet=tracked)], resumed=True)
    assert again[0] == "ofproto/trace-packet-out"
    assert "ct_state=new|trk" in again[2]
    assert again[3] == f"resubmit(,{TableId.IP:d})"


def test_a_tag_is_told() -> None:
    assert switch.text(PacketFields({"in_port": 1}, (61,))) == "in_port=1,dl_vlan=61"
