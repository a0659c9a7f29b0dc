"""Address arithmetic: text, subnets and ranges of both families."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import addresses


@pytest.mark.parametrize("text", ["10.1.1.5", "0.0.0.0", "255.255.255.255"])
def test_ipv4_text_returns_what_was_read(text: str) -> None:
    assert addresses.ipv4_text(addresses.ipv4(text)) == text


@pytest.mark.parametrize(
    "text", ["", "abc", "10.1", "10.1.1.300", "010.1.1.1", "10.1.1.1/24", "::1", " 10.1.1.1", "1\0"]
)
def test_what_is_no_ipv4_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        addresses.ipv4(text)


def test_ipv6_text_is_canonical() -> None:
    assert addresses.ipv6_text(addresses.ipv6("2001:0DB8:3:0:0::5")) == "2001:db8:3::5"


@pytest.mark.parametrize("text", ["", "10.1.1.1", "zz::", "fe80::1%eth0", "1:2:3"])
def test_what_is_no_ipv6_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        addresses.ipv6(text)


def test_mac_address_ends_in_the_ipv4_address() -> None:
    assert addresses.mac_text(addresses.ipv4("10.1.1.5")) == "02:02:0a:01:01:05"


def test_mac_addresses_of_ipv6_alone() -> None:
    one, two, other = map(addresses.ipv6, ("fd00:3::5", "fd00:3::6", "fd00:4::5"))
    macs = {addresses.mac6_text(each) for each in (one, two, other)}
    assert len(macs) == 3
    assert all(mac.startswith("02:06:") for mac in macs)
    assert addresses.mac6_text(one) == "02:06:59:4a:e2:ef", "hosts and masters make the same one"
    assert addresses.derived_mac("", "fd00:3::5") == addresses.mac6_text(one)
    assert addresses.derived_mac("10.1.1.5", "fd00:3::5") == "02:02:0a:01:01:05"


@given(st.integers(0, (1 << 101) - 1), st.integers(0, (1 << 27) - 1), st.integers(0, (1 << 27) - 1))
def test_tunnels_of_one_prefix_stand_for_different_hosts(upper: int, one: int, other: int) -> None:
    made = [addresses.tunnel_source4(upper << 27 | lower) for lower in (one, other)]
    assert all(number in addresses.TUNNEL_SOURCES4 for number in made)
    assert (made[0] == made[1]) == (one == other)


@pytest.mark.parametrize(
    ("address", "length", "base", "last"),
    [
        ("10.1.1.10", 16, "10.1.0.0", "10.1.255.255"),
        ("10.1.1.100", 26, "10.1.1.64", "10.1.1.127"),
        ("10.1.1.1", 32, "10.1.1.1", "10.1.1.1"),
        ("10.1.1.1", 0, "0.0.0.0", "255.255.255.255"),
    ],
)
def test_subnet_of_an_address(address: str, length: int, base: str, last: str) -> None:
    subnet = addresses.subnet4(addresses.ipv4(address), length)
    assert str(subnet) == f"{base}/{length}"
    assert addresses.ipv4_text(subnet.last) == last
    assert subnet.base in subnet
    assert subnet.last + 1 not in subnet


@pytest.mark.parametrize("length", [-1, 33])
def test_a_length_that_does_not_fit_is_refused(length: int) -> None:
    with pytest.raises(ValueError):
        addresses.subnet4(0, length)


def test_host_numbers_add_to_an_odd_ipv6_subnet() -> None:
    subnet, written = addresses.parse_subnet6("babe:face::80/121")
    assert written == "babe:face::80"
    assert subnet.text(subnet.base + 0x45) == "babe:face::c5"


@pytest.mark.parametrize("text", ["2001:db8::", "2001:db8::/", "2001:db8::/x", "2001:db8::/129"])
def test_what_is_no_ipv6_subnet_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        addresses.parse_subnet6(text)


@pytest.mark.parametrize(
    ("text", "bounded", "valid", "extent"),
    [
        ("10.1.1.0/24", False, True, ("10.1.1.0", "10.1.1.255")),
        ("10.1.1.200/24", False, True, ("10.1.1.0", "10.1.1.255")),
        ("10.1.1.10-10.1.1.20/24", True, True, ("10.1.1.10", "10.1.1.20")),
        ("10.1.1.20-10.1.1.10/24", True, False, ("10.1.1.20", "10.1.1.10")),
        ("10.1.1.10-10.1.2.20/24", True, False, ("10.1.1.10", "10.1.2.20")),
    ],
)
def test_range_of_a_network(text: str, bounded: bool, valid: bool, extent: tuple[str, str]) -> None:
    claimed = addresses.parse_range(text)
    assert claimed.bounded is bounded
    assert claimed.valid is valid
    assert tuple(map(addresses.ipv4_text, claimed.extent)) == extent


@pytest.mark.parametrize("text", ["10.1.1.0", "10.1.1/24", "10.1.1.0/33", "10.1.1.1-/24", "/24"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        addresses.parse_range(text)


def test_overlap_of_ipv6_subnets() -> None:
    wide, _ = addresses.parse_subnet6("2001:2000::/32")
    inside, _ = addresses.parse_subnet6("2001:2000:1234:4422::/64")
    beside, _ = addresses.parse_subnet6("2001:2001::/64")
    assert wide.overlaps(inside)
    assert inside.overlaps(wide)
    assert not wide.overlaps(beside)


def test_pool_of_one_address() -> None:
    address = addresses.ipv4("10.1.1.40")
    assert addresses.parse_pool("10.1.1.40") == (address, address)
    assert addresses.parse_pool("10.1.1.40-10.1.1.42") == (address, address + 2)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("10.1.1.7", "10.1.1.7", "10.1.1.7"),
        ("10.1.1.7/24", "10.1.1.0", "10.1.1.255"),
        ("10.1.1.5-10", "10.1.1.5", "10.1.1.10"),
        ("10.1.1.5-10/24", "10.1.1.5", "10.1.1.10"),
        ("10.1.1.9-5", "10.1.1.9", "10.1.1.5"),
    ],
)
def test_addresses_of_a_rule(text: str, first: str, last: str) -> None:
    span = addresses.parse_match(text)
    assert tuple(map(addresses.ipv4_text, span)) == (first, last)


@pytest.mark.parametrize("text", ["", "10.1.1", "10.1.1.5-256", "10.1.1.5-10.1.1.9", "10.1.1.0/33"])
def test_what_is_no_address_of_a_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        addresses.parse_match(text)


@given(st.integers(0, (1 << 32) - 1), st.integers(0, 5000))
def test_blocks_are_the_range_and_as_few_as_can_be(first: int, extent: int) -> None:
    last = min(first + extent, (1 << 32) - 1)
    blocks = list(addresses.blocks4(first, last))
    theirs = ipaddress.summarize_address_range(
        ipaddress.IPv4Address(first), ipaddress.IPv4Address(last)
    )
    assert [str(block) for block in blocks] == [str(network) for network in theirs]


def test_blocks_of_everything_and_of_nothing() -> None:
    assert [str(block) for block in addresses.blocks4(0, (1 << 32) - 1)] == ["0.0.0.0/0"]
    assert list(addresses.blocks4(5, 4)) == []
