"""Encoded messages are those that an independent library (os-ken) decodes."""

from ipaddress import IPv4Address, IPv4Network
from typing import Any

from os_ken.lib.packet import bgp

from ofnet.bgp import messages
from ofnet.bgp.messages import Open, Restart

HOP = IPv4Address("50.1.1.1")


def read(data: bytes) -> Any:
    message, _, rest = bgp.BGPMessage.parser(data)
    assert not rest
    return message


def test_open() -> None:
    restart = Restart(seconds=120, restarting=True, forwarding=True)
    who = Open(asn=70_000, hold_time=90, router_id=HOP, restart=restart)
    said = read(messages.open_message(who))
    assert (said.version, said.my_as, said.hold_time) == (4, messages.AS_TRANS, 90)
    assert said.bgp_identifier == "50.1.1.1"
    found = said.opt_param_cap_map
    assert found.keys() == {1, 2, 64, 65}
    assert (found[1].afi, found[1].safi) == (1, 1)
    assert found[65].as_number == 70_000
    assert (found[64].flags, found[64].time, found[64].tuples) == (8, 120, [(1, 1, 0x80)])
    plain = read(messages.open_message(Open(asn=65002, hold_time=9, router_id=HOP)))
    assert (plain.my_as, plain.opt_param_cap_map.keys()) == (65002, {1, 2, 65})


def test_keepalive_and_notification() -> None:
    assert isinstance(read(messages.keepalive()), bgp.BGPKeepAlive)
    said = read(messages.notification(6, 3))
    assert (said.error_code, said.error_subcode) == (6, 3)


def hosts(count: int) -> list[IPv4Network]:
    first = IPv4Address("10.0.0.0")
    return [IPv4Network(first + number) for number in range(count)]


def test_external_routes_bear_our_as() -> None:
    (packed,) = messages.announcements(hosts(2), HOP, [65002], four_octets=False)
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
    (packed,) = messages.announcements(hosts(1), HOP, [], four_octets=True)
    found = read(packed).pathattr_map
    assert (found[2].value, found[5].value) == ([], 100)


def test_many_routes_are_split_into_several_messages() -> None:
    everything = hosts(5000)
    for packed in (
        [*messages.announcements(everything, HOP, [65002], four_octets=True)],
        [*messages.withdrawals(everything)],
    ):
        assert len(packed) > 1
        assert all(len(message) <= messages.MAX_LENGTH for message in packed)
        said = [read(message) for message in packed]
        routes = [route for one in said for route in (one.nlri or one.withdrawn_routes)]
        assert [route.addr for route in routes] == [str(one.network_address) for one in everything]


def test_no_routes_make_no_messages() -> None:
    assert [*messages.announcements([], HOP, [1], four_octets=True)] == []
    assert [*messages.withdrawals([])] == []
    end = read(messages.end_of_rib())
    assert (end.nlri, end.withdrawn_routes, end.path_attributes) == ([], [], [])
