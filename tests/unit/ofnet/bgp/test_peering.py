"""Which sessions can be."""

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address

import pytest

from ofnet.bgp.peering import Peering, router_id

ROUTER, ROUTER6 = IPv4Interface("50.1.1.1/24"), IPv6Interface("2001:db8:50::1/64")
LINK_LOCAL = IPv6Address("fe80::1")


def test_the_as_numbers_say_which_kind_it_is() -> None:
    peer = IPv4Address("50.1.1.2")
    assert Peering(router=ROUTER, asn=1, peer=peer, peer_asn=2).external
    assert not Peering(router=ROUTER, asn=2, peer=peer, peer_asn=2).external


def test_a_session_is_by_the_family_of_the_peer() -> None:
    by_ipv4 = Peering(
        router=ROUTER, router6=ROUTER6, asn=1, peer=ROUTER.ip + 1, peer_asn=2, link_local=LINK_LOCAL
    )
    assert (by_ipv4.own, by_ipv4.router_id) == (ROUTER.ip, ROUTER.ip)
    assert by_ipv4.hops6 == (ROUTER6.ip, LINK_LOCAL)
    assert by_ipv4.addresses == {ROUTER.ip, ROUTER6.ip, LINK_LOCAL}
    by_ipv6 = Peering(router6=ROUTER6, asn=1, peer=ROUTER6.ip + 1, peer_asn=2)
    assert by_ipv6.own == ROUTER6.ip
    assert by_ipv6.hops6 == (ROUTER6.ip,)
    assert by_ipv6.addresses == {ROUTER6.ip}


def test_identifiers_of_hosts_with_ipv6_alone() -> None:
    made = {
        router_id(None, IPv6Interface((ROUTER6.network[number], 64))) for number in range(1, 1000)
    }
    assert len(made) == 999
    assert all(0 < int(one) >> 24 < 127 for one in made), "no router refuses one"
    assert router_id(None, ROUTER6) == router_id(None, IPv6Interface(ROUTER6))


@pytest.mark.parametrize(
    ("asn", "peer", "peer_asn"),
    [
        (0, "50.1.1.2", 2),
        (1, "50.1.1.2", 1 << 32),
        (1, "50.1.2.2", 2),
        (1, "50.1.1.1", 2),
        (1, "2001:db8:51::2", 2),
        (1, "2001:db8:50::1", 2),
    ],
)
def test_what_no_session_can_have(asn: int, peer: str, peer_asn: int) -> None:
    with pytest.raises(ValueError, match="is"):
        Peering(router=ROUTER, router6=ROUTER6, asn=asn, peer=ip_address(peer), peer_asn=peer_asn)


@pytest.mark.parametrize(
    ("router", "router6", "peer"),
    [
        (None, ROUTER6, "50.1.1.2"),
        (ROUTER, None, "2001:db8:50::2"),
        (None, IPv6Interface("fe80::1/64"), "fe80::2"),
        (None, IPv6Interface("ff02::1/64"), "ff02::2"),
        (ROUTER, IPv6Interface("::1/64"), "50.1.1.2"),
        (None, IPv6Interface("::ffff:50.1.1.1/120"), "::ffff:50.1.1.2"),
    ],
)
def test_addresses_by_which_no_peer_is_reached(
    router: IPv4Interface | None, router6: IPv6Interface | None, peer: str
) -> None:
    with pytest.raises(ValueError, match="address"):
        Peering(router=router, router6=router6, asn=1, peer=ip_address(peer), peer_asn=2)
