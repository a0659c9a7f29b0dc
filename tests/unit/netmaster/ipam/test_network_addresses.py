"""All addresses of one network, with and without its pools."""

from core.addresses import ipv4, ipv6
from core.ids import NetworkName, TenantName
from netmaster.ipam.network_addresses import NetworkAddresses
from state.records import Encap, GrantOwner, GrantRecord, NetworkRecord, NetworkType


def _network(first: str = "10.1.1.0", last: str = "10.1.1.255", *, v6: str = "") -> NetworkRecord:
    return NetworkRecord(
        tenant=TenantName("default"),
        name=NetworkName("n"),
        type=NetworkType.DATA,
        encap=Encap.VLAN,
        pkt_tag=1,
        ext_pkt_tag=0,
        subnet="10.1.1.0",
        subnet_len=24,
        gateway="",
        first=first,
        last=last,
        ipv6_subnet=v6,
        ipv6_subnet_len=64 if v6 else 0,
        ipv6_gateway="",
        network_tag="n.default",
    )


def _grant(seq: int, owner: GrantOwner = GrantOwner.ENDPOINT) -> GrantRecord:
    return GrantRecord(owner=owner, owner_id="x", seq=seq)


def test_grants_are_kept_without_pools_and_respected_once_there_are_some() -> None:
    addresses = NetworkAddresses()
    addresses.grant("10.1.1.1", _grant(1))
    addresses.grant("2001:db8::1", _grant(2))
    addresses.open(_network(v6="2001:db8::"))
    assert addresses.v4 is not None
    assert addresses.v6 is not None
    assert addresses.v4.lowest() == ipv4("10.1.1.2")
    assert addresses.v6.following() == ipv6("2001:db8::2")
    addresses.close()
    addresses.release("10.1.1.1")
    addresses.release("2001:db8::1")
    assert addresses.grants == {}
    addresses.open(_network())
    assert addresses.v4.lowest() == ipv4("10.1.1.1")


def test_a_grant_that_changes_hands_stays_held() -> None:
    addresses = NetworkAddresses()
    addresses.open(_network())
    assert addresses.v4 is not None
    addresses.grant("10.1.1.1", _grant(1, GrantOwner.RESERVATION))
    addresses.grant("10.1.1.1", _grant(2))
    assert addresses.grants["10.1.1.1"].seq == 2
    assert addresses.v4.lowest() == ipv4("10.1.1.2")
    addresses.release("10.1.1.1")
    assert addresses.v4.lowest() == ipv4("10.1.1.1")


def test_gateways_do_not_count_as_given() -> None:
    addresses = NetworkAddresses()
    addresses.grant("2001:db8::5", _grant(1))
    addresses.grant("2001:db8::9", _grant(2, GrantOwner.GATEWAY))
    addresses.open(_network(v6="2001:db8::"))
    assert addresses.v6 is not None
    assert addresses.v6.following() == ipv6("2001:db8::6")


def test_host_bits_bound_nothing_and_a_range_does() -> None:
    for first, last, lowest in (
        ("10.1.1.77", "10.1.1.255", "10.1.1.1"),
        ("10.1.1.77", "10.1.1.80", "10.1.1.77"),
    ):
        addresses = NetworkAddresses()
        addresses.open(_network(first, last))
        assert addresses.v4 is not None
        assert addresses.v4.lowest() == ipv4(lowest)
    assert str(_network().v4) == "10.1.1.0/24"
