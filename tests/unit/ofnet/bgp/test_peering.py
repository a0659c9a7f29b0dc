"""Which sessions can be."""

from ipaddress import IPv4Address, IPv4Interface

import pytest

from ofnet.bgp.peering import Peering

ROUTER = IPv4Interface("50.1.1.1/24")


def test_the_as_numbers_say_which_kind_it_is() -> None:
    peer = IPv4Address("50.1.1.2")
    assert Peering(router=ROUTER, asn=1, peer=peer, peer_asn=2).external
    assert not Peering(router=ROUTER, asn=2, peer=peer, peer_asn=2).external


@pytest.mark.parametrize(
    ("asn", "peer", "peer_asn"),
    [
        (0, "50.1.1.2", 2),
        (1, "50.1.1.2", 1 << 32),
        (1, "50.1.2.2", 2),
        (1, "50.1.1.1", 2),
    ],
)
def test_what_no_session_can_have(asn: int, peer: str, peer_asn: int) -> None:
    with pytest.raises(ValueError, match="is"):
        Peering(router=ROUTER, asn=asn, peer=IPv4Address(peer), peer_asn=peer_asn)
