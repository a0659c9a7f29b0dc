"""Names and numbers of ports."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Exhausted, Invalid
from netplugin.world.bridges import port_names
from ofnet.world import Bridge

SUBNET = IPv4Network("172.19.0.0/16")


def test_a_number_names_both_ends() -> None:
    assert port_names.switch_name(7) == "vvport7"
    assert port_names.container_name(7) == "vport7"
    assert port_names.number_of("vvport7") == 7


def test_a_bridges_own_device_has_a_name_that_the_kernel_takes() -> None:
    names = [port_names.bridge_device(bridge) for bridge in Bridge]
    assert names == ["contivVxlan", "contivVlan"]


@pytest.mark.parametrize(
    "name", ["vport7", "vvport", "vvport0", "vvport07", "vvport65533", "vvport7x", "contivh0", ""]
)
def test_other_names_have_no_number(name: str) -> None:
    assert port_names.number_of(name) is None


def test_numbers_go_round_and_pass_over_what_is_in_use() -> None:
    assert port_names.next_number(0, set()) == 1
    assert port_names.next_number(1, {2, 3}) == 4
    assert port_names.next_number(port_names.LAST_ENDPOINT, {1}) == 2
    assert port_names.next_number(0xFFFF, set()) == 1
    assert port_names.next_vtep_ofport(0, set()) == 0x8000
    assert port_names.next_vtep_ofport(0x8000, {0x8001}) == 0x8002
    assert port_names.next_vtep_ofport(port_names.LAST_VTEP, set()) == 0x8000


def test_the_last_free_number_is_given_and_then_none() -> None:
    everything = set(range(1, port_names.LAST_ENDPOINT + 1))
    assert port_names.next_number(5, everything - {4}) == 4
    with pytest.raises(Exhausted, match="32511 ports"):
        port_names.next_number(5, everything)


@given(last=st.integers(0, 0xFFFF), used=st.sets(st.integers(1, 200)))
def test_a_number_is_free_and_in_range(last: int, used: set[int]) -> None:
    number = port_names.next_number(last, used)
    assert number not in used
    assert port_names.FIRST_ENDPOINT <= number <= port_names.LAST_ENDPOINT
    assert port_names.number_of(port_names.switch_name(number)) == number


def test_a_number_just_released_does_not_come_back_soon() -> None:
    last, seen = 0, []
    for _ in range(1000):
        last = port_names.next_number(last, set())
        seen.append(last)
    assert len(set(seen)) == 1000


def test_tunnel_ports_keep_the_original_name_where_it_is_good() -> None:
    assert port_names.vtep_name(IPv4Address("192.168.2.11"), set()) == "vxif192168211"
    assert port_names.vtep_name(IPv4Address("10.77.0.3"), set()) == "vxif107703"


def test_tunnel_names_do_not_collide_and_fit() -> None:
    first = port_names.vtep_name(IPv4Address("1.11.1.1"), set())
    second = port_names.vtep_name(IPv4Address("11.1.1.1"), {first})
    assert first == "vxif11111"
    assert second != first
    long = port_names.vtep_name(IPv4Address("192.168.100.200"), set())
    assert all(len(name) <= 15 and port_names.is_vtep(name) for name in (second, long))
    assert port_names.vtep_name(IPv4Address("192.168.100.200"), {long}) != long


@given(st.ip_addresses(), st.ip_addresses())
def test_two_addresses_have_two_names(
    one: IPv4Address | IPv6Address, other: IPv4Address | IPv6Address
) -> None:
    name = port_names.vtep_name(one, set())
    assert len(name) <= 15
    assert ":" not in name
    assert port_names.vtep_name(other, {name}) != name


def test_a_pod_has_two_ports_of_one_number() -> None:
    assert [
        port_names.pod_number(name) for name in ("vvport7", "hport7", "hport07", "contivh0")
    ] == [
        *(7, 7),
        *(None, None),
    ]
    assert port_names.access_name(7) == "hport7"
    assert port_names.number_of("hport7") is None
    first = port_names.access_ofport(7, ())
    assert port_names.FIRST_ACCESS <= first <= port_names.LAST_ACCESS
    assert port_names.access_ofport(7, {first}) == first + 1
    assert port_names.access_ofport(port_names.LAST_ENDPOINT, ()) <= port_names.LAST_ACCESS
    assert port_names.next_infra_ofport({port_names.FIRST_INFRA}) == port_names.FIRST_INFRA + 1


def test_private_address_and_mac_end_in_the_number() -> None:
    assert str(port_names.private_address(SUBNET, 1)) == "172.19.0.1/16"
    assert str(port_names.private_address(SUBNET, 300)) == "172.19.1.44/16"
    assert str(port_names.private_address(SUBNET, port_names.HOST_NUMBER)) == "172.19.255.254/16"
    assert port_names.private_mac(SUBNET, port_names.HOST_NUMBER) == "02:02:ac:13:ff:fe"


def test_a_private_network_of_another_size_is_refused() -> None:
    with pytest.raises(Invalid, match="must be a /16"):
        port_names.private_address(IPv4Network("172.19.0.0/24"), 1)


def test_the_routers_link_local_address_is_that_of_its_mac() -> None:
    address = port_names.router_link_local(IPv4Address("50.1.1.1"))
    assert str(address) == "fe80::402:32ff:fe01:101"


def test_the_routers_mac_is_none_that_a_pod_may_have() -> None:
    mac = port_names.router_mac(IPv4Address("50.1.1.1"))
    assert mac == "06:02:32:01:01:01"
    assert not mac.startswith(port_names.private_mac(SUBNET, 1)[:5])
