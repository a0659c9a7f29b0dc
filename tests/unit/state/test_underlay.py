"""Which network takes which address of hosts, masters and the store."""

from dataclasses import replace
from ipaddress import ip_address

import pytest

from core.addresses import ipv4, subnet4
from core.ids import HostLabel, NetworkName, TenantName
from state import codec
from state.records import Encap, HostRecord, NetworkRecord, NetworkType, ServiceInstance
from state.underlay import (
    AddressKind,
    Underlay,
    UnderlayAddress,
    of_host,
    of_master,
    overlaps,
    usable,
)

HOST = HostRecord(
    label=HostLabel("h1"),
    control_ip="192.168.77.1",
    vtep_ip="10.9.0.1",
    vxlan_port=4789,
    addresses=("192.168.77.1", "fd00:77::1", "127.0.0.1", "nonsense"),
    next_hops=("192.168.77.126",),
)
MASTER = ServiceInstance(
    service="netmaster",
    address="192.168.77.254",
    port=9999,
    addresses=("192.168.78.254",),
    next_hops=("192.168.77.126",),
    store=("192.168.79.9",),
)
MASTERS = "192.168.77.254, the control address of master 192.168.77.254:9999"


def network(
    subnet: str,
    *,
    encap: Encap = Encap.VXLAN,
    kind: NetworkType = NetworkType.DATA,
    span: tuple[str, str] | None = None,
    gateway: str = "",
    six: str = "",
    gateway6: str = "",
) -> NetworkRecord:
    base, _, length = subnet.partition("/")
    last = subnet4(ipv4(base), int(length)).last
    first, end = span or (base, subnet4(last, 32).text(last))
    base6, _, length6 = six.partition("/")
    return NetworkRecord(
        tenant=TenantName("blue"),
        name=NetworkName("n1"),
        type=kind,
        encap=encap,
        pkt_tag=1,
        ext_pkt_tag=1,
        subnet=base,
        subnet_len=int(length),
        gateway=gateway,
        first=first,
        last=end,
        bounded=span is not None,
        ipv6_subnet=base6,
        ipv6_subnet_len=int(length6 or 0),
        ipv6_gateway=gateway6,
        network_tag="",
    )


def found(one: NetworkRecord, *more: UnderlayAddress) -> list[str]:
    known = [*of_host(HOST), *of_master(MASTER), *more]
    return [f"{finding.part}: {finding.taken}" for finding in overlaps([one], known)]


def test_a_vxlan_network_may_have_no_address_of_the_underlay_in_its_subnet() -> None:
    one = network("192.168.77.128/25", span=("192.168.77.130", "192.168.77.140"))
    assert found(one) == [f"subnet 192.168.77.128/25: {MASTERS}"]
    assert [one.partition(": ")[2] for one in found(network("192.168.0.0/16"))] == [
        "192.168.77.1, the control address of host h1",
        "192.168.77.126, a next hop of host h1",
        "192.168.77.126, a next hop of master 192.168.77.254:9999",
        "192.168.77.254, the control address of master 192.168.77.254:9999",
        "192.168.78.254, an address of master 192.168.77.254:9999",
        "192.168.79.9, the store's address for master 192.168.77.254:9999",
    ]
    assert found(network("10.9.0.0/24")) == [
        "subnet 10.9.0.0/24: 10.9.0.1, the tunnel address of host h1"
    ]
    assert found(network("10.20.0.0/24")) == []


def test_the_gateway_of_a_vxlan_network_may_not_be_the_hosts_router() -> None:
    assert found(network("192.168.77.64/26", gateway="192.168.77.126"))[:1] == [
        "subnet 192.168.77.64/26: 192.168.77.126, a next hop of host h1"
    ]


def test_a_vlan_network_may_have_the_hosts_subnet_and_router() -> None:
    # Its pods are beside the hosts on the physical network.
    one = network(
        "192.168.77.0/24",
        encap=Encap.VLAN,
        span=("192.168.77.32", "192.168.77.127"),
        gateway="192.168.77.126",
    )
    assert found(one) == []
    assert found(replace(one, gateway=""))[:1] == [
        "range 192.168.77.32-192.168.77.127: 192.168.77.126, a next hop of host h1"
    ]
    assert found(replace(one, first="192.168.77.1", last="192.168.77.20")) == [
        "range 192.168.77.1-192.168.77.20: 192.168.77.1, the control address of host h1"
    ]
    other = found(replace(one, gateway="192.168.77.254"))
    assert other[-1] == f"gateway 192.168.77.254: {MASTERS}"


def test_an_infra_network_may_not_have_the_hosts_subnet() -> None:
    one = network(
        "192.168.77.0/24",
        encap=Encap.VLAN,
        kind=NetworkType.INFRA,
        span=("192.168.77.32", "192.168.77.40"),
    )
    assert len(found(one)) == 4


def test_what_an_infra_network_gave_to_hosts_is_its_own() -> None:
    one = network("10.40.0.0/24", kind=NetworkType.INFRA)
    address = usable("10.40.0.1")
    assert address is not None
    held = [UnderlayAddress(address, AddressKind.FURTHER, "host h1")]
    assert overlaps([one], held) != ()
    assert overlaps([one], held, {one.id: {address}}) == ()


def test_a_network_that_changed_is_looked_at_anew() -> None:
    known = Underlay(of_host(HOST))
    before = network("10.9.0.0/24")
    assert [str(one.taken.address) for one in overlaps([before], known)] == ["10.9.0.1"]
    assert overlaps([before], known) == overlaps([before], Underlay(of_host(HOST)))
    assert overlaps([network("10.8.0.0/24")], known) == (), "of the same name"
    own = {before.id: frozenset({ip_address("10.9.0.1")})}
    assert overlaps([before], known, own) == (), "given by the network itself"
    assert len(overlaps([before], known)) == 1


def test_addresses_of_ipv6() -> None:
    one = network("10.20.0.0/24", six="fd00:77::/64")
    assert found(one) == ["subnet fd00:77::/64: fd00:77::1, an address of host h1"]
    router = usable("fd00:78::1")
    assert router is not None
    hop = UnderlayAddress(router, AddressKind.NEXT_HOP, "host h1")
    vlan = network("10.20.0.0/24", encap=Encap.VLAN, six="fd00:78::/64", gateway6="fd00:78::1")
    assert found(vlan, hop) == []
    assert found(replace(vlan, encap=Encap.VXLAN), hop) != []


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "127.0.0.1", "::1", "0.0.0.0", "::", "169.254.1.1", "fe80::1%eth0", "224.0.0.1"),
        *("255.255.255.255", "::ffff:127.0.0.1", "10.1.1.0/24"),
    ],
)
def test_addresses_at_which_no_other_machine_can_be_reached_are_passed_over(text: str) -> None:
    assert usable(text) is None


def test_a_network_that_cannot_be_read_takes_nothing() -> None:
    assert found(replace(network("192.168.77.0/24"), gateway="x", encap=Encap.VLAN)) == []


def test_hosts_and_masters_keep_their_addresses_in_the_store() -> None:
    assert codec.decode_host("/contiv.io/host/h1", codec.encode(HOST)) == HOST
    assert codec.decode_service("k", codec.encode(MASTER)) == replace(MASTER, schema=1)


def test_records_without_further_addresses_are_those_of_earlier_releases() -> None:
    bare = replace(HOST, addresses=(), next_hops=())
    assert b"addresses" not in codec.encode(bare)
    assert b"nextHops" not in codec.encode(bare)
    instance = ServiceInstance(service="netmaster", address="192.0.2.1", port=1)
    assert not {b"Addresses", b"NextHops", b"Store"} & set(codec.encode(instance).split(b'"'))
