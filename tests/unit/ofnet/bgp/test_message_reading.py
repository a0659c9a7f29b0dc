"""Messages of a peer are decoded, or refused with the NOTIFICATION's codes."""

import struct
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from os_ken.lib.packet import bgp

from ofnet.bgp import message_reading, messages
from ofnet.bgp.messages import (
    Address,
    Family,
    Keepalive,
    MalformedBgp,
    Message,
    Notification,
    Open,
    Refresh,
    Restart,
    Update,
)

MARKER = b"\xff" * 16


def read(data: bytes, *, four_octets: bool = True) -> Message:
    header, body = data[: messages.HEADER], data[messages.HEADER :]
    assert message_reading.body_length(header) == len(body)
    return message_reading.read(header, body, four_octets=four_octets)


def packed(kind: int, body: bytes) -> bytes:
    return MARKER + struct.pack(">HB", messages.HEADER + len(body), kind) + body


def said(message: Any) -> Message:
    return read(bytes(message.serialize()))


def refused(data: bytes) -> tuple[int, int]:
    with pytest.raises(MalformedBgp) as found:
        read(data)
    return found.value.code, found.value.subcode


def test_what_we_say_is_read_as_it_was_meant() -> None:
    families, ipv6 = frozenset(Family), frozenset({Family.IPV6})
    restart = Restart(seconds=120, restarting=True, families=families, forwarding=ipv6)
    router = IPv4Address("1.2.3.4")
    who = Open(asn=70_000, hold_time=90, router_id=router, families=families, restart=restart)
    assert read(messages.open_message(who)) == who
    assert read(messages.keepalive()) == Keepalive()
    assert read(messages.notification(6, 3)) == Notification(6, 3)
    for family in Family:
        assert read(messages.end_of_rib(family)) == Update(end_of=family)
    pod, hop = IPv6Network("2001:db8::7"), IPv6Address("fe80::1")
    (told,) = messages.announcements([pod], Family.IPV6, (hop,), [65002], four_octets=True)
    assert read(told) == Update(announced=((pod, hop),), as_path=(65002,))
    (gone,) = messages.withdrawals([pod], Family.IPV6)
    assert read(gone) == Update(withdrawn=(pod,))
    assert read(packed(5, b"\0\1\0\1")) == Refresh()
    offering = replace(who, extended_hops=True)
    assert read(messages.open_message(offering)) == offering


def test_an_open_without_capabilities() -> None:
    opened = said(bgp.BGPOpen(my_as=500, hold_time=9, bgp_identifier="1.2.3.4"))
    assert opened == Open(asn=500, hold_time=9, router_id=IPv4Address("1.2.3.4"), four_octets=False)


def test_routes() -> None:
    attributes = [
        bgp.BGPPathAttributeOrigin(0),
        bgp.BGPPathAttributeAsPath([[70_000, 500], {7}], as_pack_str="!I"),
        bgp.BGPPathAttributeNextHop("50.1.1.2"),
        bgp.BGPPathAttributeMultiExitDisc(5),
        bgp.BGPPathAttributeCommunities([1]),
    ]
    update = bgp.BGPUpdate(
        withdrawn_routes=[bgp.BGPNLRI(24, "10.1.2.0")],
        path_attributes=attributes,
        nlri=[bgp.BGPNLRI(0, "0.0.0.0"), bgp.BGPNLRI(17, "10.2.128.0"), bgp.BGPNLRI(32, "9.9.9.9")],
    )
    assert said(update) == Update(
        withdrawn=(IPv4Network("10.1.2.0/24"),),
        announced=tuple(
            (IPv4Network(prefix), IPv4Address("50.1.1.2"))
            for prefix in ("0.0.0.0/0", "10.2.128.0/17", "9.9.9.9")
        ),
        as_path=(70_000, 500, 7),
    )


PATH = bytes((0x40, 1, 1, 0, 0x40, 2, 0))
"""ORIGIN and an empty AS path, which an announcement must have."""


def reach(
    hop: bytes,
    prefixes: bytes = b"\x20\x20\x01\x0d\xb8",
    family: bytes = b"\0\2\1",
    rest: bytes = PATH,
) -> bytes:
    """Return an UPDATE that announces 2001:db8::/32."""
    value = family + bytes((len(hop),)) + hop + b"\0" + prefixes
    attributes = struct.pack(">BBB", 0x80, 14, len(value)) + value + rest
    return packed(2, b"\0\0" + len(attributes).to_bytes(2, "big") + attributes)


MAPPED = IPv6Address("::ffff:50.1.1.2")
GLOBAL, LINK_LOCAL = IPv6Address("2001:db8:1::2"), IPv6Address("fe80::2")


@pytest.mark.parametrize(
    ("sent", "hop"),
    [
        ((GLOBAL,), GLOBAL),
        ((LINK_LOCAL,), LINK_LOCAL),
        ((GLOBAL, LINK_LOCAL), LINK_LOCAL),
        ((IPv6Address("::"), LINK_LOCAL), LINK_LOCAL),
        ((GLOBAL, IPv6Address("::")), GLOBAL),
        ((MAPPED,), IPv4Address("50.1.1.2")),
    ],
)
def test_next_hops_of_both_forms(sent: tuple[IPv6Address, ...], hop: Address) -> None:
    hops = b"".join(one.packed for one in sent)
    assert read(reach(hops)) == Update(announced=((IPv6Network("2001:db8::/32"), hop),))
    of_ipv4 = reach(hops, b"\x10\x3c\1", b"\0\1\1")
    assert read(of_ipv4) == Update(announced=((IPv4Network("60.1.0.0/16"), hop),)), "RFC 8950"


def test_ipv4_routes_in_an_attribute() -> None:
    hop = IPv4Address("50.1.1.2")
    update = read(reach(hop.packed, b"\x10\x3c\1", b"\0\1\1"))
    assert update == Update(announced=((IPv4Network("60.1.0.0/16"), hop),))
    gone = b"\x80\x0f\6\0\1\1\x10\x3c\1"
    unreach = packed(2, b"\0\0" + len(gone).to_bytes(2, "big") + gone)
    assert read(unreach) == Update(withdrawn=(IPv4Network("60.1.0.0/16"),))
    end = b"\x80\x0f\3\0\1\1"
    assert read(packed(2, b"\0\0\0\6" + end)) == Update(end_of=Family.IPV4)


def test_routes_of_both_kinds_in_one_update_keep_their_next_hops() -> None:
    hop = b"\x40\3\4\x32\1\1\2"
    both = reach(LINK_LOCAL.packed, rest=PATH + hop)[19:] + b"\x08\x3d"
    assert read(packed(2, both)) == Update(
        announced=(
            (IPv4Network("61.0.0.0/8"), IPv4Address("50.1.1.2")),
            (IPv6Network("2001:db8::/32"), LINK_LOCAL),
        )
    )


@pytest.mark.parametrize(
    ("values", "agreed"),
    [
        (["000100010002"], True),
        (["000200010002", "000100800002000100010002"], True),
        (["000100800002"], False),
        (["000100010001"], False),
        (["0001000100"], False),
        (["00" + "000100010002"], False),
        ([""], False),
        ([], False),
    ],
)
def test_ipv4_by_ipv6_is_read_of_the_capability(values: list[str], agreed: bool) -> None:
    capabilities = b"".join(bytes((5, len(value) // 2)) + bytes.fromhex(value) for value in values)
    parameter = bytes((2, len(capabilities))) + capabilities
    opened = read(packed(1, OPEN_HEAD + bytes((len(parameter),)) + parameter))
    assert isinstance(opened, Open)
    assert opened.extended_hops is agreed


def test_other_families_are_passed_over() -> None:
    vpn = reach(bytes(24), b"\x70" + bytes(14), b"\0\2\x80")
    assert read(vpn) == Update()
    assert read(packed(2, b"\0\0\0\6\x80\x0f\3\0\1\x80")) == Update()


def test_a_peer_of_ipv6_alone() -> None:
    family = bgp.BGPOptParamCapabilityMultiprotocol(afi=2, safi=1)
    opened = said(bgp.BGPOpen(my_as=5, hold_time=9, bgp_identifier="1.2.3.4", opt_param=[family]))
    assert isinstance(opened, Open)
    assert opened.families == {Family.IPV6}


def test_a_peer_that_keeps_the_routes_of_others_alone() -> None:
    helper = bgp.BGPOptParamCapabilityGracefulRestart(flags=0, time=120, tuples=[])
    opened = said(bgp.BGPOpen(my_as=5, hold_time=9, bgp_identifier="1.2.3.4", opt_param=[helper]))
    assert isinstance(opened, Open)
    assert opened.restart == Restart(seconds=120)


def test_as_numbers_are_of_the_size_that_was_agreed_on() -> None:
    path = bytes((0x40, 2, 6, 2, 2)) + struct.pack(">HH", 65002, 500)
    body = b"\0\0" + len(path).to_bytes(2, "big") + path
    found = read(packed(2, body), four_octets=False)
    assert isinstance(found, Update)
    assert found.as_path == (65002, 500)
    assert refused(packed(2, body)) == (3, 11)


OPEN_HEAD = struct.pack(">BHH4s", 4, 500, 90, b"\1\2\3\4")


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        pytest.param(1, OPEN_HEAD[:4], (1, 2), id="short open"),
        pytest.param(1, b"\3" + OPEN_HEAD[1:] + b"\0", (2, 1), id="version"),
        pytest.param(1, OPEN_HEAD[:3] + b"\0\2\1\2\3\4\0", (2, 6), id="hold time"),
        pytest.param(1, OPEN_HEAD + b"\2", (2, 0), id="parameters missing"),
        pytest.param(1, OPEN_HEAD + b"\2\1\0", (2, 4), id="unknown parameter"),
        pytest.param(1, OPEN_HEAD + b"\3\2\5\0", (2, 0), id="parameter cut off"),
        pytest.param(2, b"\0", (3, 1), id="no withdrawn routes"),
        pytest.param(2, b"\0\5\0\0", (3, 1), id="withdrawn routes cut off"),
        pytest.param(2, b"\0\0\0\4\x40\1\2\0", (3, 1), id="attribute cut off"),
        pytest.param(2, b"\0\0\0\x08\x40\1\1\0\x40\1\1\0", (3, 1), id="attribute twice"),
        pytest.param(2, b"\0\0\0\1\x40", (3, 1), id="stump of an attribute"),
        pytest.param(2, b"\0\0\0\6\x40\3\3\1\2\3", (3, 5), id="next hop"),
        pytest.param(2, b"\0\0\0\0\x18\1\2\3", (3, 3), id="no attributes"),
        pytest.param(2, b"\0\2\x21\1\0\0", (3, 10), id="33 bits"),
        pytest.param(2, b"\0\2\x18\1\0\0", (3, 10), id="prefix cut off"),
        pytest.param(2, b"\0\0\0\5\x40\2\2\2\1", (3, 11), id="path cut off"),
        pytest.param(2, reach(bytes(8))[19:], (3, 5), id="IPv6 next hop"),
        pytest.param(2, b"\0\0\0\7\x80\x0e\4\0\2\1\x10", (3, 5), id="IPv6 next hop cut off"),
        pytest.param(2, reach(bytes(16), b"\x81" + bytes(17))[19:], (3, 10), id="129 bits"),
        pytest.param(2, reach(bytes(16), rest=b"")[19:], (3, 3), id="IPv6 without attributes"),
        pytest.param(2, reach(bytes(4))[19:], (3, 5), id="IPv6 by IPv4"),
        pytest.param(2, reach(bytes(8), b"", b"\0\1\1")[19:], (3, 5), id="IPv4's next hop"),
        pytest.param(
            2, reach(bytes(16), b"\x21" + bytes(5), b"\0\1\1")[19:], (3, 10), id="33 bits by IPv6"
        ),
        pytest.param(3, b"\6", (1, 2), id="short notification"),
        pytest.param(9, b"", (1, 3), id="unknown message"),
    ],
)
def test_what_contradicts_itself_is_refused(kind: int, body: bytes, code: tuple[int, int]) -> None:
    assert refused(packed(kind, body)) == code


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"\0" * 16 + b"\0\x13\4", (1, 1)),
        (MARKER + b"\0\x12\4", (1, 2)),
        (MARKER + b"\x10\1\4", (1, 2)),
    ],
)
def test_headers_that_are_none(header: bytes, code: tuple[int, int]) -> None:
    with pytest.raises(MalformedBgp) as found:
        message_reading.body_length(header)
    assert (found.value.code, found.value.subcode) == code


@given(kind=st.integers(0, 255), body=st.binary(max_size=200), four_octets=st.booleans())
def test_whatever_comes_is_read_or_refused(kind: int, body: bytes, four_octets: bool) -> None:
    with suppress(MalformedBgp):
        message = read(packed(kind, body), four_octets=four_octets)
        assert isinstance(message, Message)
