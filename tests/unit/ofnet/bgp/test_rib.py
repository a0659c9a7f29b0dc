"""The routes kept of a peer's UPDATEs."""

from dataclasses import replace
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)

import pytest

from ofnet.bgp.messages import Address, Family, MalformedBgp, Prefix, Update
from ofnet.bgp.peering import Peering
from ofnet.bgp.rib import Rib

OWN6, HOP6 = IPv6Address("fe80::1"), IPv6Address("fe80::2")
NET6 = IPv6Network("2001:db8::/32")
PEERING = Peering(
    router=IPv4Interface("50.1.1.1/24"),
    asn=65002,
    peer=IPv4Address("50.1.1.2"),
    peer_asn=500,
    link_local=OWN6,
)
HOP, OTHER = IPv4Address("50.1.1.2"), IPv4Address("50.1.1.9")
BOTH = frozenset(Family)
NET, SECOND = IPv4Network("60.1.1.0/24"), IPv4Network("0.0.0.0/0")


def announced(
    *prefixes: IPv4Network, hop: IPv4Address = HOP, path: tuple[int, ...] = (500,)
) -> Update:
    return Update(announced=tuple((prefix, hop) for prefix in prefixes), as_path=path)


@pytest.fixture
def rib() -> Rib:
    return Rib(PEERING, limit=3)


def test_routes_come_change_and_go(rib: Rib) -> None:
    rib.apply(announced(NET, SECOND))
    assert rib.routes == {NET: HOP, SECOND: HOP}
    rib.apply(announced(NET, hop=OTHER))
    assert rib.routes == {NET: OTHER, SECOND: HOP}
    rib.apply(Update(withdrawn=(SECOND, IPv4Network("7.7.7.7"))))
    assert rib.routes == {NET: OTHER}


def test_a_prefix_withdrawn_and_announced_in_one_update_is_kept(rib: Rib) -> None:
    rib.apply(Update(withdrawn=(NET,), announced=((NET, HOP),), as_path=(500,)))
    assert rib.routes == {NET: HOP}


@pytest.mark.parametrize(
    "update",
    [
        pytest.param(announced(NET, path=(500, 65002)), id="loop"),
        pytest.param(announced(NET, hop=IPv4Address("50.1.1.1")), id="this host"),
        pytest.param(announced(NET, hop=IPv4Address("0.0.0.0")), id="unspecified"),
        pytest.param(announced(NET, hop=IPv4Address("224.0.0.1")), id="multicast"),
    ],
)
def test_an_unusable_route_withdraws_the_earlier_one(rib: Rib, update: Update) -> None:
    rib.apply(announced(NET))
    rib.apply(update)
    assert rib.routes == {}


@pytest.mark.parametrize("prefix", ["127.0.0.0/8", "169.254.1.0/24", "224.0.0.0/4", "240.0.0.1/32"])
def test_routes_to_reserved_prefixes_are_ignored(rib: Rib, prefix: str) -> None:
    rib.apply(announced(IPv4Network(prefix)))
    assert rib.routes == {}


def test_there_are_only_so_many(rib: Rib) -> None:
    prefixes = [IPv4Network((number << 24, 8)) for number in range(1, 5)]
    rib.apply(announced(*prefixes[:3]))
    rib.apply(announced(*prefixes[:3]))
    with pytest.raises(MalformedBgp) as refused:
        rib.apply(announced(prefixes[3]))
    assert (refused.value.code, refused.value.subcode) == (6, 1)


def test_stale_routes_not_announced_again_are_removed(rib: Rib) -> None:
    rib.apply(announced(NET, SECOND))
    rib.mark_stale(BOTH)
    assert rib.routes == {NET: HOP, SECOND: HOP}
    rib.apply(announced(NET))
    assert rib.drop_stale()
    assert rib.routes == {NET: HOP}
    assert not rib.drop_stale()


def test_everything_can_be_forgotten(rib: Rib) -> None:
    rib.apply(announced(NET))
    assert rib.clear()
    assert rib.routes == {}
    assert not rib.clear()


def test_routes_not_announced_between_two_restarts_are_removed(rib: Rib) -> None:
    rib.apply(announced(NET, SECOND))
    rib.mark_stale(BOTH)
    rib.apply(announced(NET))
    rib.mark_stale(BOTH)
    assert rib.routes == {NET: HOP}
    rib.mark_stale(BOTH)
    assert rib.routes == {}


def announced6(*prefixes: Prefix, hop: Address = HOP6) -> Update:
    return Update(announced=tuple((prefix, hop) for prefix in prefixes), as_path=(500,))


def test_ipv6_routes_come_and_go(rib: Rib) -> None:
    rib.apply(announced(NET))
    rib.apply(announced6(NET6))
    assert rib.routes == {NET: HOP, NET6: HOP6}
    rib.apply(Update(withdrawn=(NET6,)))
    assert rib.routes == {NET: HOP}


@pytest.mark.parametrize("hop", [OWN6, *map(IPv6Address, ("::", "::1", "ff02::1"))])
def test_an_unusable_ipv6_next_hop_withdraws_the_route(rib: Rib, hop: IPv6Address) -> None:
    rib.apply(announced6(NET6))
    rib.apply(announced6(NET6, hop=hop))
    assert rib.routes == {}


@pytest.mark.parametrize("prefix", ["::1", "::", "fe80::/64", "ff02::/16"])
def test_routes_to_reserved_ipv6_prefixes_are_ignored(rib: Rib, prefix: str) -> None:
    rib.apply(announced6(IPv6Network(prefix)))
    assert rib.routes == {}


def test_each_family_outlasts_a_restart_for_itself(rib: Rib) -> None:
    rib.apply(announced(NET, SECOND))
    rib.apply(announced6(NET6))
    rib.mark_stale({Family.IPV6})
    assert rib.routes == {NET6: HOP6}
    rib.apply(announced(NET))
    rib.mark_stale(BOTH)
    assert rib.routes == {NET: HOP}, "what was stale before is gone"
    assert not rib.drop_stale({Family.IPV6})
    assert rib.drop_stale({Family.IPV4})
    assert rib.routes == {}


def test_next_hops_of_the_other_family_are_kept(rib: Rib) -> None:
    rib.apply(announced6(NET6, hop=HOP))
    rib.apply(announced6(NET, hop=HOP6))
    assert rib.routes == {NET6: HOP, NET: HOP6}
    rib.apply(announced6(NET6, hop=PEERING.own))
    rib.apply(announced6(NET, hop=OWN6))
    assert rib.routes == {}


def test_this_hosts_global_address_is_no_next_hop() -> None:
    own = IPv6Interface("2001:db8:50::1/64")
    rib = Rib(replace(PEERING, router6=own))
    rib.apply(announced6(NET6, hop=own.ip))
    assert rib.routes == {}
