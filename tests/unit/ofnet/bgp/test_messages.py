"""Encoded messages are those that an independent library (os-ken) decodes."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from os_ken.lib.packet import bgp

from ofnet.bgp import messages
from ofnet.bgp.messages import Family, NextHop, Open, Prefix, Restart

HOP = IPv4Address("50.1.1.1")


def read(data: bytes) -> Any:
    message, _, rest = bgp.BGPMessage.parser(data)
    assert not rest
    return message


def test_open() -> None:
    ipv4 = frozenset({Family.IPV4})
    restart = Restart(seconds=120, restarting=True, families=ipv4, forwarding=ipv4)
    who = Open(asn=70_000, hold_time=90, router_id=HOP, restart=restart)
    said = read(messages.open_message(who))
    assert (said.version, said.my_as, said.hold_time) == (4, messages.AS_TRANS, 90)
    assert said.bgp_identifier == "50.1.1.1"
    found = said.opt_param_cap_map
    assert found.keys() == {1, 2, 64, 65}, "extended next hops are not offered unasked"
    assert (found[1].afi, found[1].safi) == (1, 1)
    assert found[65].as_number == 70_000
    assert (found[64].flags, found[64].time, found[64].tuples) == (8, 120, [(1, 1, 0x80)])
    plain = read(messages.open_message(Open(asn=65002, hold_time=9, router_id=HOP)))
    assert (plain.my_as, plain.opt_param_cap_map.keys()) == (65002, {1, 2, 65})


def test_an_open_of_both_families() -> None:
    families = frozenset(Family)
    restart = Restart(seconds=5, families=families, forwarding=frozenset({Family.IPV6}))
    who = Open(asn=65002, hold_time=9, router_id=HOP, families=families, restart=restart)
    said = read(messages.open_message(who))
    options = [option for option in said.opt_param if option.cap_code == 1]
    assert [(option.afi, option.safi) for option in options] == [(1, 1), (2, 1)]
    assert said.opt_param_cap_map[64].tuples == [(1, 1, 0), (2, 1, 0x80)]


def test_an_open_that_offers_extended_next_hops() -> None:
    who = Open(asn=65002, hold_time=9, router_id=HOP, extended_hops=True)
    said = read(messages.open_message(who)).opt_param_cap_map
    assert said.keys() == {1, 2, 5, 65}
    assert said[5].serialize() == bytes.fromhex("02 08 05 06 0001 0001 0002")


def test_the_bytes_that_a_session_by_ipv4_always_had() -> None:
    """As they were sent before there were sessions by IPv6."""
    families = frozenset(Family)
    restart = Restart(seconds=120, restarting=True, families=families, forwarding=families)
    who = Open(asn=65002, hold_time=90, router_id=HOP, families=families, restart=restart)
    assert messages.open_message(who)[19:] == bytes.fromhex(
        "04 fdea 005a 32010101 22 02 20 01040001 0001 01040002 0001 0200 4104 0000fdea "
        "400a 8078 000101 80 000201 80"
    )
    (routes,) = announced([IPv4Network("10.1.0.1")], Family.IPV4, HOP, [65002])
    assert routes[19:] == bytes.fromhex(
        "0000 0014 40010101 4002060201 0000fdea 400304 32010101 20 0a010001"
    )
    (routes6,) = announced([IPv6Network("2001:db8::11")], Family.IPV6, (HOP6,), [65002])
    assert routes6[19:] == bytes.fromhex(
        "0000 0037 900e0026 000201 10 fe80000000000000 040232fffe010101 00 "
        "80 20010db8000000000000000000000011 40010101 4002060201 0000fdea"
    )


def test_keepalive_and_notification() -> None:
    assert isinstance(read(messages.keepalive()), bgp.BGPKeepAlive)
    said = read(messages.notification(6, 3))
    assert (said.error_code, said.error_subcode) == (6, 3)


def hosts(count: int) -> list[IPv4Network]:
    first = IPv4Address("10.0.0.0")
    return [IPv4Network(first + number) for number in range(count)]


def test_external_routes_bear_our_as() -> None:
    (packed,) = messages.announcements(hosts(2), Family.IPV4, HOP, [65002], four_octets=False)
    said = read(packed)
    assert [(route.addr, route.length) for route in said.nlri] == [
        ("10.0.0.0", 32),
        ("10.0.0.1", 32),
    ]
    found = said.pathattr_map
    assert found[1].value == 1
    assert found[2].value == [[65002]]
    assert found[3].value == "50.1.1.1"
    assert found.keys() == {1, 2, 3}


def test_internal_routes_have_an_empty_path_and_a_preference() -> None:
    (packed,) = messages.announcements(hosts(1), Family.IPV4, HOP, [], four_octets=True)
    found = read(packed).pathattr_map
    assert (found[2].value, found[5].value) == ([], 100)


def test_many_routes_are_split_into_several_messages() -> None:
    everything = hosts(5000)
    for packed in (
        [*messages.announcements(everything, Family.IPV4, HOP, [65002], four_octets=True)],
        [*messages.withdrawals(everything, Family.IPV4)],
    ):
        assert len(packed) > 1
        assert all(len(message) <= messages.MAX_LENGTH for message in packed)
        said = [read(message) for message in packed]
        routes = [route for one in said for route in (one.nlri or one.withdrawn_routes)]
        assert [route.addr for route in routes] == [str(one.network_address) for one in everything]


def test_no_routes_make_no_messages() -> None:
    assert [*messages.announcements([], Family.IPV4, HOP, [1], four_octets=True)] == []
    assert [*messages.withdrawals([], Family.IPV4)] == []
    assert [*messages.withdrawals([], Family.IPV6)] == []
    end = read(messages.end_of_rib(Family.IPV4))
    assert (end.nlri, end.withdrawn_routes, end.path_attributes) == ([], [], [])
    end6 = read(messages.end_of_rib(Family.IPV6)).pathattr_map
    assert end6.keys() == {15}
    assert (end6[15].afi, end6[15].safi, end6[15].withdrawn_routes) == (2, 1, [])


HOP6 = IPv6Address("fe80::402:32ff:fe01:101")
HOP6S = IPv6Address("2001:db8:50::1"), HOP6


def announced(
    prefixes: Sequence[Prefix], family: Family, hop: NextHop, path: list[int]
) -> Iterator[bytes]:
    return messages.announcements(prefixes, family, hop, path, four_octets=True)


def hosts6(count: int) -> list[IPv6Network]:
    first = IPv6Address("2001:db8::")
    return [IPv6Network(first + number) for number in range(count)]


def test_ipv6_routes_are_in_an_attribute() -> None:
    (packed,) = announced(hosts6(2), Family.IPV6, (HOP6,), [65002])
    said = read(packed)
    assert (said.nlri, said.path_attributes[0].type) == ([], 14)
    found = said.pathattr_map
    assert found.keys() == {1, 2, 14}
    assert (found[14].afi, found[14].safi, found[14].next_hop) == (2, 1, str(HOP6))
    assert [(route.addr, route.length) for route in found[14].nlri] == [
        ("2001:db8::", 128),
        ("2001:db8::1", 128),
    ]
    (gone,) = messages.withdrawals(hosts6(1), Family.IPV6)
    assert [route.addr for route in read(gone).pathattr_map[15].withdrawn_routes] == ["2001:db8::"]


def test_many_ipv6_routes_are_split_into_several_messages() -> None:
    everything = hosts6(1000)
    for kind, packed in (
        *(
            (14, [*announced(everything, Family.IPV6, hops, path)])
            for hops in (HOP6S[1:], HOP6S)
            for path in ([65002, 7], [])
        ),
        (15, [*messages.withdrawals(everything, Family.IPV6)]),
    ):
        assert max(map(len, packed)) in range(messages.MAX_LENGTH - 17, messages.MAX_LENGTH + 1)
        found = [read(message).pathattr_map[kind] for message in packed]
        routes = [
            route for one in found for route in getattr(one, "nlri", None) or one.withdrawn_routes
        ]
        assert [route.addr for route in routes] == [str(one.network_address) for one in everything]


def test_a_global_next_hop_comes_before_the_link_local_one() -> None:
    (packed,) = announced(hosts6(1), Family.IPV6, HOP6S, [65002])
    reach = read(packed).pathattr_map[14]
    assert reach.next_hop_list == [str(one) for one in HOP6S]


def test_ipv4_routes_with_ipv6_next_hops() -> None:
    """(RFC 8950 §3.) The library reads no such routes: byte for byte."""
    (packed,) = announced(hosts(1), Family.IPV4, HOP6S, [65002])
    hops = "".join(one.packed.hex() for one in HOP6S)
    reach = bytes.fromhex(f"900e 002a 0001 01 20 {hops} 00 20 0a000000")
    path = bytes.fromhex("40010101 4002060201 0000fdea")
    attributes = reach + path
    assert packed[19:] == bytes(2) + len(attributes).to_bytes(2, "big") + attributes
    assert len([*announced(hosts(5000), Family.IPV4, HOP6S, [])]) > 1
