"""Dumps of the datapath's flows: which ways they count, and what passed between two of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netplugin.flow_records.megaflows import Count, MegaflowWay, Tally, reports, ways

TCP = (
    "recirc_id(0),in_port(vvport1),packet_type(ns=0,id=0),eth(dst=02:02:0a:09:00:02),"
    "eth_type(0x0800),ipv4(src=10.9.0.1,dst=10.9.0.2,proto=6,frag=no),tcp(src=40082,dst=5201), "
    "packets:14942, bytes:22617689, used:0.048s, flags:P., actions:vvport2"
)
TUNNELLED = (
    "tunnel(tun_id=0x2712,src=192.168.77.1,dst=192.168.77.2,flags(-df-csum+key)),recirc_id(0x1f),"
    "in_port(vxlan_sys_4789),eth(),eth_type(0x86dd),"
    "ipv6(src=fd00::1,dst=fd00::2,label=0,proto=17,frag=no),udp(src=53,dst=999), packets:0, "
    "bytes:0, used:never, actions:3"
)
OF_A_KERNEL = (
    "recirc_id(0),tunnel(tun_id=0x1,src=192.168.77.2,dst=192.168.77.1,flags(-df-csum+key)),"
    "in_port(vxlan_sys_4789),ct_state(-est-rel-rpl-inv-trk),ct_zone(0),"
    "eth(src=02:02:00:00:00:00/ff:ff:00:00:00:00,dst=02:02:0a:3c:00:02),eth_type(0x86dd),"
    "ipv6(src=fd00:60::3,dst=fd00:60::2,proto=6,frag=no),key32(00 00/00 00),"
    "tcp(src=8080,dst=48188), packets:92, bytes:7948, used:8.030s, flags:F., actions:vvport1"
)
"""Linux has an attribute since 5.18 that Open vSwitch 3.1 has no name for."""
TAGGED = (
    "recirc_id(0),in_port(eth1),eth(),eth_type(0x8100),vlan(vid=61,pcp=0),encap("
    "eth_type(0x0800),ipv4(src=10.61.0.2,dst=10.61.0.3,proto=1,frag=no),icmp(type=8,code=0)), "
    "packets:3, bytes:294, used:1.5s, actions:pop_vlan,4"
)
OF_MANY = (
    TCP.replace("src=40082", "src=32768/0x8000"),
    TCP.replace("src=10.9.0.1", "src=10.9.0.0/255.255.0.0"),
    TCP.replace(",tcp(src=40082,dst=5201)", ""),
    OF_A_KERNEL.replace("dst=48188", "dst=32768/0x8000"),
    TCP.replace("eth_type(0x0800),ipv4(src=10.9.0.1,dst=10.9.0.2,proto=6,frag=no),", ""),
    "flow-dump from the main thread:",
    "",
)
DROP = (
    "recirc_id(0),in_port(vvport2),eth(),eth_type(0x0800),ipv4(src=10.60.0.2,dst=10.60.0.3,proto=6,"
    "frag=no),tcp(dst=8081), packets:9638, bytes:520592, used:0.668s, flags:S, actions:"
    "sample(sample=100.0%,actions(meter(127),userspace(pid=0,controller(reason=1,dont_send=0,"
    "continuation=0,recirc_id=44,rule_cookie=0xc008caaa1c3b281a,controller_id=0,max_len=128))))"
)


@pytest.mark.parametrize(
    ("line", "way", "stage", "count"),
    [
        (
            TCP,
            MegaflowWay("vvport1", 0, 0, 6, "10.9.0.1", 40082, "10.9.0.2", 5201),
            "0",
            Count(14942, 22617689, 0.048),
        ),
        (
            TUNNELLED,
            MegaflowWay("vxlan_sys_4789", 0x2712, 0, 17, "fd00::1", 53, "fd00::2", 999),
            "0x1f",
            Count(0, 0, 0.0),
        ),
        (
            TAGGED,
            MegaflowWay("eth1", 0, 61, 1, "10.61.0.2", 0, "10.61.0.3", 0),
            "0",
            Count(3, 294, 1.5),
        ),
        (
            OF_A_KERNEL,
            MegaflowWay("vxlan_sys_4789", 1, 0, 6, "fd00:60::3", 8080, "fd00:60::2", 48188),
            "0",
            Count(92, 7948, 8.03),
        ),
    ],
)
def test_a_flow_of_one_way_is_read(line: str, way: MegaflowWay, stage: str, count: Count) -> None:
    assert ways(line) == {way: {stage: count}}


@pytest.mark.parametrize(
    ("kind", "read"), [("135", False), ("136,code=0", False), ("128/0xfc", True), ("1", True)]
)
def test_questions_for_macs_are_no_connection(kind: str, read: bool) -> None:
    line = TUNNELLED.replace("proto=17", "proto=58")
    asked = line.replace("udp(src=53,dst=999)", f"icmpv6(type={kind})")
    assert bool(ways(asked)) is read


@pytest.mark.parametrize("line", OF_MANY)
def test_a_flow_of_many_ways_is_passed_over(line: str) -> None:
    assert ways(line) == {}


def test_flows_of_one_stage_are_summed_up() -> None:
    older = TCP.replace("used:0.048s", "used:2.0s")
    (stages,) = ways(f"{TCP}\n{older}").values()
    assert stages == {"0": Count(2 * 14942, 2 * 22617689, 0.048)}


def test_reports_are_counted_by_the_flow_that_has_them_sent() -> None:
    (found,) = reports(f"{TCP}\n{DROP}\n{DROP.replace(',ipv4(', ',arp(')}").values()
    assert found == ("vvport2", 0xC008CAAA1C3B281A, 9638)


WAY = MegaflowWay("p", 0, 0, 6, "10.0.0.1", 1, "10.0.0.2", 2)
SYN = 74


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1), min_size=1))
def test_what_passed_adds_up_over_flows_made_anew(
    lives: list[list[tuple[int, int]]],
) -> None:
    tally, packets, size = Tally(), 0, 0
    whole = [0, 0]
    for life in lives:
        counted = [0, 0]
        # a flow that is made anew is only seen to be if its counters are less than before
        tally.take({})
        list(tally.take({}))
        for more_packets, more_bytes in life:
            counted[0] += more_packets
            counted[1] += more_bytes
            (passed,) = tally.take({WAY: {"0": Count(counted[0], counted[1], 0.0)}})
            packets, size = packets + passed.packets, size + passed.bytes
        whole = [whole[0] + counted[0] + 1, whole[1] + counted[1] + SYN]
    assert [packets, size] == whole


def test_a_flow_that_counts_less_has_been_made_anew() -> None:
    tally = Tally()
    list(tally.take({WAY: {"0": Count(10, 1000, 0.0)}}))
    (passed,) = tally.take({WAY: {"0": Count(3, 300, 0.0)}})
    assert (passed.packets, passed.bytes) == (3, 300)


def test_the_stage_that_counts_most_is_right() -> None:
    tally = Tally()
    list(tally.take({WAY: {"0": Count(10, 1000, 0.0), "0x5": Count(9, 900, 0.0)}}))
    (passed,) = tally.take({WAY: {"0": Count(11, 1100, 0.0), "0x5": Count(19, 1900, 0.0)}})
    assert (passed.packets, passed.bytes) == (10, 1000)
    assert passed.entered


def test_a_first_packet_of_udp_is_as_long_as_the_others() -> None:
    (passed,) = Tally().take({WAY._replace(protocol=17): {"0": Count(4, 400, 0.0)}})
    assert (passed.packets, passed.bytes) == (5, 500)
