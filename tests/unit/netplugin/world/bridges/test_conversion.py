"""Records in a switch's terms."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest

from core.errors import Invalid
from netplugin.world.bridges import port_names
from netplugin.world.bridges.conversion import (
    LocalPort,
    addressed,
    check_endpoint,
    check_host,
    check_network,
    local_of,
    network_of,
    peering_of,
    remote_of,
)
from state.records import BgpRecord, Encap
from tests.unit.netplugin.records import PEER, endpoint, group, host, network


def test_a_network_without_gateways_has_none() -> None:
    bare = network_of(network(gateway="", encap=Encap.VLAN, tag=9), 3)
    assert (bare.vlan, bare.vni, bare.vrf, bare.gateway, bare.gateway6) == (9, 0, 3, None, None)
    both = network_of(network(v6=True), 3)
    assert both.gateway == IPv4Address("10.1.255.254")
    assert both.gateway6 == IPv6Address("2001:db8::1")


@pytest.mark.parametrize(
    ("first", "last", "bounded", "blocks"),
    [
        ("10.1.0.0", "10.1.255.255", False, ["10.1.0.0/16"]),
        ("10.1.0.77", "10.1.255.255", False, ["10.1.0.0/16"]),
        ("10.1.255.254", "10.1.255.255", True, ["10.1.255.254/31"]),
        ("10.1.0.10", "10.1.0.13", True, ["10.1.0.10/31", "10.1.0.12/31"]),
        ("10.1.0.9", "10.1.0.9", False, ["10.1.0.9/32"]),
    ],
)
def test_a_network_grants_its_range(
    first: str, last: str, blocks: list[str], *, bounded: bool
) -> None:
    ranged = replace(network(), first=first, last=last, bounded=bounded)
    assert network_of(ranged, 1).granted == tuple(map(IPv4Network, blocks))


def test_a_network_grants_all_of_its_ipv6_subnet() -> None:
    assert network_of(network(v6=True), 1).granted[1:] == (IPv6Network("2001:db8::/64"),)


def test_a_network_whose_range_makes_no_sense_is_refused() -> None:
    with pytest.raises(Invalid, match="record of n1"):
        check_network(replace(network(), first="10.1.0.9", last="10.1.0.8", bounded=True))


def test_a_local_endpoint_has_its_groups_mark() -> None:
    port = LocalPort(record=endpoint(group="web", group_id=7, v6=True), ofport=5)
    local = local_of(port, group(dscp=46), None)
    assert (local.ofport, local.group_id, local.dscp) == (5, 7, 46)
    assert local.ip6 == IPv6Address("2001:db8::1")
    assert local_of(port, None, None).dscp == 0


def test_to_its_host_a_pod_is_its_ports_number() -> None:
    private = IPv4Network("172.22.0.0/16")
    port = LocalPort(record=endpoint(), ofport=5, number=300)
    assert local_of(port, None, private).nat_ip == IPv4Address("172.22.1.44")
    assert local_of(port, None, None).nat_ip is None
    assert local_of(replace(port, number=None), None, private).nat_ip is None


def test_a_remote_endpoint_is_where_its_record_says() -> None:
    remote = remote_of(endpoint(host=PEER, group_id=7))
    assert (remote.host, remote.group_id, remote.ip6) == (PEER, 7, None)


@pytest.mark.parametrize("missing", ["ip_address", "mac_address"])
def test_without_an_address_there_is_nobody_to_send_to(missing: str) -> None:
    assert addressed(endpoint())
    assert not addressed(replace(endpoint(), **{missing: ""}))  # type: ignore[arg-type]


def test_a_peering_says_who_speaks_with_whom() -> None:
    record = BgpRecord(
        hostname="h1",
        router_ip="50.1.1.1/24",
        as_number="65002",
        neighbor_as="4200000000",
        neighbor="50.1.1.2",
    )
    peering = peering_of(record)
    assert (str(peering.router), str(peering.peer)) == ("50.1.1.1/24", "50.1.1.2")
    assert (peering.asn, peering.peer_asn) == (65002, 4_200_000_000)
    with pytest.raises(Invalid, match="record of BGP of host h1: "):
        peering_of(replace(record, router_ip=""))
    with_global = peering_of(replace(record, router_ipv6="2001:db8:50::1/64"))
    assert replace(with_global, router6=None) == peering
    assert with_global.hops6 == (IPv6Address("2001:db8:50::1"), *peering.hops6)


def test_a_peering_by_ipv6() -> None:
    record = BgpRecord(
        hostname="h1",
        router_ip="",
        as_number="65002",
        neighbor_as="65000",
        neighbor="",
        router_ipv6="2001:db8:50::1/64",
        neighbor_ipv6="2001:db8:50::2",
    )
    alone = peering_of(record)
    assert (alone.own, alone.peer, alone.router) == (
        IPv6Address("2001:db8:50::1"),
        IPv6Address("2001:db8:50::2"),
        None,
    )
    assert alone.link_local == port_names.router_link_local(alone.router_id)
    both = peering_of(replace(record, router_ip="50.1.1.1/24"))
    assert (both.own, both.router_id) == (alone.own, IPv4Address("50.1.1.1"))
    for wrong in (
        {"neighbor": "50.1.1.2"},
        {"router_ipv6": ""},
        {"router_ipv6": "fe80::1/64", "neighbor_ipv6": "fe80::2"},
        {"neighbor_ipv6": "2001:db8:51::2"},
        {"neighbor_ipv6": "", "neighbor": "50.1.1.2"},
        {"neighbor_ipv6": "50.1.1.2"},
    ):
        with pytest.raises(Invalid, match="record of BGP of host h1: "):
            peering_of(replace(record, **wrong))


def test_what_cannot_be_read_is_named() -> None:
    for wrong in ({"mac_address": "no"}, {"ip_address": "10.1"}, {"ipv6_address": "1:"}):
        with pytest.raises(Invalid, match=r"record of n1\.default-c1: "):
            check_endpoint(replace(endpoint(), **wrong))  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=r"record of n1\.default: "):
        check_network(network(gateway="10.1"))
    with pytest.raises(Invalid, match="record of host h2: "):
        check_host(host(vtep_ip="10.1"))
