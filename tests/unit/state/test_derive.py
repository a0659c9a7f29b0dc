"""`state.derive` against recorded replies and against a plain set model."""

import ipaddress
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.ids import EndpointKey, HostLabel, NetworkId, NetworkName, TenantName
from state import derive
from state.creation import last_address
from state.records import (
    Encap,
    EndpointRecord,
    GrantOwner,
    GrantRecord,
    NetworkRecord,
    NetworkType,
)

RECORDED = json.loads(
    (Path(__file__).parents[2] / "golden" / "derive" / "address-lists.json").read_text()
)


def network(
    subnet: str,
    gateway: str = "",
    *,
    encap: Encap = Encap.VXLAN,
    pkt_tag: int = 1,
    ext_pkt_tag: int = 1,
) -> NetworkRecord:
    """Return the record of a network created with `a/len` or `a-b/len`."""
    written, _, length = subnet.partition("/")
    first, _, last = written.partition("-")
    base = str(ipaddress.ip_network(f"{first}/{length}", strict=False).network_address)
    return NetworkRecord(
        tenant=TenantName("default"),
        name=NetworkName("n1"),
        type=NetworkType.DATA,
        encap=encap,
        pkt_tag=pkt_tag,
        ext_pkt_tag=ext_pkt_tag,
        subnet=base,
        subnet_len=int(length),
        gateway=gateway,
        first=first,
        last=last or last_address(base, int(length)),
        ipv6_subnet="",
        ipv6_subnet_len=0,
        ipv6_gateway="",
        network_tag="",
        bounded=bool(last),
    )


@pytest.mark.parametrize("row", RECORDED["networks"], ids=lambda row: row["step"])
def test_network_lists_are_as_recorded(row: dict[str, str]) -> None:
    lists = derive.network_addresses(
        network(row["subnet"], row["gateway"]), row["granted"], row["pools"]
    )
    assert lists == derive.AddressLists(row["allocated"], row["available"])


@pytest.mark.parametrize("row", RECORDED["groups"], ids=lambda row: row["step"])
def test_group_lists_are_as_recorded(row: dict[str, str]) -> None:
    lists = derive.group_addresses(row["pool"], row["granted"])
    assert lists == derive.AddressLists(row["allocated"], row["available"])


def test_a_group_without_a_pool_has_no_lists() -> None:
    assert derive.group_addresses("", ["10.1.1.1"]) == derive.AddressLists("", "")


def numbers(text: str) -> set[int]:
    found: set[int] = set()
    for item in text.split(", ") if text else []:
        first, last = derive.pool_span(item)
        assert not found & {first - 1, *range(first, last + 1)}
        found |= set(range(first, last + 1))
    return found


@given(
    length=st.integers(24, 32),
    host=st.integers(0, 255),
    granted=st.sets(st.integers(0, 255)),
    bounds=st.none() | st.tuples(st.integers(0, 255), st.integers(0, 255)),
    pool=st.none() | st.tuples(st.integers(0, 255), st.integers(0, 255)),
)
def test_lists_agree_with_sets(
    length: int,
    host: int,
    granted: set[int],
    bounds: tuple[int, int] | None,
    pool: tuple[int, int] | None,
) -> None:
    size = 1 << 32 - length
    base = int(ipaddress.IPv4Address("10.0.0.0")) + host - host % size

    def text(number: int) -> str:
        return str(ipaddress.IPv4Address(base + number % size))

    low, high = sorted(n % size for n in bounds) if bounds else (0, size - 1)
    subnet = f"{text(low)}-{text(high)}/{length}" if bounds else f"{text(0)}/{length}"
    span = sorted(n % size for n in pool) if pool else None
    pools = [f"{text(span[0])}-{text(span[1])}"] if span else []
    held = {n % size for n in granted} | (set(range(span[0], span[1] + 1)) if span else set())
    usable = set(range(low, high + 1)) - {0, size - 1}

    lists = derive.network_addresses(network(subnet), map(text, granted), pools)

    assert numbers(lists.allocated) == {base + n for n in usable & held}
    assert numbers(lists.available) == {base + n for n in usable - held}


def test_a_large_network_costs_what_is_in_it_not_its_size() -> None:
    lists = derive.network_addresses(network("10.0.0.0/8", "10.0.0.1"), ["10.200.0.1"])
    assert lists.allocated == "10.0.0.1, 10.200.0.1"
    assert lists.available == "10.0.0.2-10.200.0.0, 10.200.0.2-10.255.255.254"


def grant(owner: GrantOwner) -> GrantRecord:
    return GrantRecord(owner=owner, owner_id="", seq=1)


def test_address_count_leaves_gateways_out() -> None:
    assert derive.address_count(map(grant, GrantOwner)) == len(GrantOwner) - 1


def endpoint(net: str, group: str) -> EndpointRecord:
    return EndpointRecord(
        key=EndpointKey(f"{net}-x"),
        network=NetworkId(net),
        endpoint_id="x",
        service_name="",
        group_id=0,
        group_key=group,
        ip_address="",
        ipv6_address="",
        mac_address="",
        homing_host=HostLabel("h1"),
        intf_name="",
        vtep_ip="",
        labels=None,
        container_id="",
        common_name="",
    )
