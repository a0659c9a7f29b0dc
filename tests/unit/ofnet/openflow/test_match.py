"""Matches: bytes as os-ken packs them, text as Open vSwitch prints it."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Any

import pytest
from hypothesis import given
from os_ken.ofproto import ofproto_v1_3_parser as reference

from ofnet.openflow import oxm
from ofnet.openflow.fields import (
    CT_ESTABLISHED,
    CT_INVALID,
    CT_NEW,
    CT_TRACKED,
    FRAGMENT_ANY,
    FRAGMENT_FIRST,
    FRAGMENT_LATER,
    FRAGMENT_NONE,
    Bits,
    CtState,
    Fragment,
)
from ofnet.openflow.match import Match, matches_by
from tests.unit.ofnet.strategies import matches


def reference_bytes(match: Match) -> bytes:
    """Pack the same match with os-ken."""
    buffer = bytearray()
    fields = {name: reference_value(name, value) for name, value in match.fields}
    reference.OFPMatch(**fields).serialize(buffer, 0)
    return bytes(buffer)


def reference_value(name: str, value: Any) -> Any:
    if name == "vlan_vid":
        return value | 0x1000
    if isinstance(value, Bits | CtState | Fragment):
        return tuple(value)
    if isinstance(value, IPv4Network):
        return str(value.network_address), str(value.netmask)
    if isinstance(value, str) and "/" in value:
        return tuple(value.split("/"))
    return str(value) if isinstance(value, IPv4Address | IPv6Address) else value


@given(matches(frozenset(oxm.FIELDS)))
def test_bytes_are_those_of_os_ken(match: Match) -> None:
    assert match.wire == reference_bytes(match)


@pytest.mark.parametrize(
    "match",
    [
        Match(ct_state=CtState(CT_TRACKED | CT_NEW, CT_TRACKED | CT_NEW)),
        Match(ct_state=CtState(0, CT_TRACKED)),
        Match(ct_zone=65001),
        Match(ip_frag=FRAGMENT_LATER),
    ],
    ids=str,
)
def test_open_vswitchs_own_fields_have_the_bytes_of_os_ken(match: Match) -> None:
    assert match.wire == reference_bytes(match)


@pytest.mark.parametrize(
    ("match", "own"),
    [
        (Match(ct_nw_proto=17), "0001 ee 01 11"),
        (Match(ct_tp_src=4789), "0001 f8 02 12b5"),
        (Match(ct_tp_dst=53), "0001 fa 02 0035"),
    ],
    ids=str,
)
def test_fields_that_os_ken_lacks_have_the_numbers_of_open_vswitch(match: Match, own: str) -> None:
    """The numbers are those of its `meta-flow.h`: NXM_NX_CT_NW_PROTO 119, CT_TP_SRC 124, DST 125.

    That the switch reads them as meant is shown by `tests/integration/ofnet/test_shapes.py`.
    """
    assert match.wire[4:].startswith(bytes.fromhex(own))


@pytest.mark.parametrize(
    ("match", "text"),
    [
        (Match(), ""),
        (Match(in_port=5, tunnel_id=10001), "tun_id=0x2711,in_port=5"),
        (Match(eth_type=0x0806, arp_op=1), "arp,arp_op=1"),
        (
            Match(eth_type=0x0800, ip_proto=17, in_port=3, udp_dst=53),
            "udp,in_port=3,tp_dst=53",
        ),
        (Match(eth_type=0x0800, ip_proto=47), "ip,nw_proto=47"),
        (Match(eth_type=0x0800, ip_dscp=46, in_port=1), "ip,in_port=1,nw_tos=184"),
        (Match(eth_type=0x88CC), "dl_type=0x88cc"),
        (
            Match(metadata=Bits(0, 1), vlan_vid=1, eth_dst="02:02:0a:01:01:01"),
            "metadata=0/0x1,dl_vlan=1,dl_dst=02:02:0a:01:01:01",
        ),
        (
            Match(eth_type=0x0800, ipv4_dst=IPv4Network("172.19.0.0/16")),
            "ip,nw_dst=172.19.0.0/16",
        ),
        (
            Match(eth_type=0x86DD, ipv6_dst=IPv6Address("2016::1:1")),
            "ipv6,ipv6_dst=2016::1:1",
        ),
        (
            Match(
                eth_type=0x0800,
                metadata=Bits(2, 2),
                ct_state=CtState(CT_TRACKED | CT_ESTABLISHED, CT_TRACKED | CT_ESTABLISHED | CT_NEW),
            ),
            "ct_state=-new+est+trk,ip,metadata=0x2/0x2",
        ),
        (
            Match(
                eth_type=0x0800,
                ip_frag=FRAGMENT_LATER,
                ct_state=CtState(CT_TRACKED, CT_TRACKED | CT_INVALID),
                ct_nw_proto=17,
                ct_tp_src=1024,
                ct_tp_dst=53,
            ),
            "ct_state=-inv+trk,ct_nw_proto=17,ct_tp_src=1024,ct_tp_dst=53,ip,nw_frag=later",
        ),
        (Match(eth_type=0x0800, ip_frag=FRAGMENT_ANY), "ip,nw_frag=yes"),
        (Match(eth_type=0x0800, ip_frag=FRAGMENT_NONE), "ip,nw_frag=no"),
        (
            Match(eth_type=0x0800, ip_proto=17, ip_frag=FRAGMENT_FIRST, udp_dst=53),
            "udp,nw_frag=first,tp_dst=53",
        ),
    ],
)
def test_text_is_that_of_open_vswitch(match: Match, text: str) -> None:
    assert str(match) == text


@pytest.mark.parametrize("mac", ["02:02", "no mac at all", "02:02:0a:01:01:01:01"])
def test_a_bad_mac_is_refused(mac: str) -> None:
    with pytest.raises(ValueError, match=r"MAC|hex"):
        Match(eth_dst=mac)


def test_matches_are_equal_by_their_fields() -> None:
    assert Match(in_port=1, tunnel_id=2) == Match(tunnel_id=2, in_port=1)
    assert Match(in_port=1) != Match(in_port=2)


@pytest.mark.parametrize("name", ["in_port", "eth_type", "ipv4_dst"])
def test_matches_by_one_field_equal_those_made_field_by_field(name: str) -> None:
    fields = {"ipv4_dst": IPv4Address("10.1.0.7"), "in_port": 3, "eth_type": 0x0800}
    value = fields.pop(name)
    match = matches_by(name, **fields)(value)  # type: ignore[arg-type] # of any field
    assert match == Match(**fields, **{name: value})  # type: ignore[arg-type] # likewise


def test_the_field_that_differs_may_have_a_mask() -> None:
    to = matches_by("ipv4_dst", eth_type=0x0800)
    for one in (IPv4Address("10.1.0.7"), IPv4Network("10.1.0.0/16")):
        assert to(one) == Match(eth_type=0x0800, ipv4_dst=one)
