"""The original's tests of tags and address arithmetic, by their number (C, D, F, K5-K7)."""

from collections.abc import Callable

import pytest

from contivmodel.objects import Network
from core import addresses
from core.errors import ContivError, Exhausted, Invalid
from netmaster.ipam.claims import SubnetClaims, claim
from netmaster.ipam.pool6 import Pool6
from netmaster.ipam.segments import Segments, parse_vlans, parse_vxlans
from netmaster.plan.show import inspect
from state import derive
from state.records import Encap
from tests.unit.netmaster.checklist import Checklist


def segments(vlans: str, vxlans: str) -> Segments:
    """Return the tags of two ranges, all free."""
    free = Segments()
    free.configure(parse_vlans(vlans), parse_vxlans(vxlans))
    return free


@pytest.fixture
def checklist() -> Checklist:
    """Give a new cluster."""
    return Checklist()


def test_c3_to_c5_vlans(checklist: Checklist) -> None:
    assert checklist.settings(vlans="1-19")
    for at, tag in enumerate((1, 2, 19)):
        assert checklist.net(f"n{at}", subnet=f"10.{at}.1.0/24", pktTag=tag)
    assert checklist.in_use() == ("1-2, 19", "")
    assert checklist.gone("networks", "default:n1")
    assert checklist.in_use() == ("1, 19", "")


def test_c3_and_c7_none_left() -> None:
    with pytest.raises(Exhausted, match="no vlans available"):
        Segments().choose(Encap.VLAN, 0)
    with pytest.raises(Exhausted, match="no vxlans available"):
        Segments().choose(Encap.VXLAN, 0)


def test_c8_and_c9_vxlans(checklist: Checklist) -> None:
    assert checklist.settings(vxlans="1-148")
    for at, tag in enumerate((1, 100, 101)):
        assert checklist.net(f"n{at}", "vxlan", f"10.{at}.1.0/24", pktTag=tag)
        assert checklist.tags(f"n{at}") == (at + 1, tag)
    assert checklist.in_use() == ("", "1, 100-101")
    assert checklist.gone("networks", "default:n1")
    assert checklist.net("n1", "vxlan", pktTag=100, subnet="10.1.1.0/24")
    assert checklist.tags("n1") == (2, 100)


def test_d1_to_d3_the_first_of_a_range() -> None:
    free = segments("1-10", "15000-17000")
    assert free.choose(Encap.VLAN, 0).pkt_tag == 1
    tags = free.choose(Encap.VXLAN, 0)
    assert (tags.pkt_tag, tags.ext_pkt_tag) == (1, 15000)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_vlans, "1-5000"),  # D4
        (parse_vlans, "900-500"),
        (parse_vlans, "5--100"),  # F9
        (parse_vlans, "101-5000"),
        (parse_vlans, "200-101"),
        (parse_vxlans, "101-75535"),  # F10
        (parse_vxlans, "8000-7999"),
    ],
)
def test_d4_f9_and_f10_what_is_no_range(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(Invalid):
        parse(text)


def test_f9_and_f10_ranges() -> None:
    segments("5-100", "10000-16000")


@pytest.mark.parametrize(
    ("subnet", "number", "text"),
    [
        ("11.2.1.0/24", 5, "11.2.1.5"),
        ("10.123.16.0/22", 513, "10.123.18.1"),
        ("172.12.0.0/16", 261, "172.12.1.5"),
    ],
)
def test_f1_hosts_by_number(subnet: str, number: int, text: str) -> None:
    base = addresses.parse_range(subnet).extent[0]
    assert addresses.ipv4_text(base + number) == text
    assert addresses.ipv4(text) - base == number


@pytest.mark.parametrize(
    "subnet",
    [
        "11.2.1.10-11.2.1.100/24",
        "10.123.16.0/26",
        "10.123.16.66/26",
        "10.123.16.10-10.123.16.100/22",
    ],
)
def test_f3_ranges_of_networks(checklist: Checklist, subnet: str) -> None:
    assert checklist.net("n", subnet=subnet), checklist.text


@pytest.mark.parametrize(
    "subnet",
    [
        "10.123.16.10-10.123.16.100/26",
        "10.123.16.60-10.123.16.100/26",
        "10.1.1.0/1",
        "10.1.1.0/33",
    ],
)
def test_f4_what_is_no_range_of_a_network(checklist: Checklist, subnet: str) -> None:
    assert not checklist.net("n", subnet=subnet)


@pytest.mark.parametrize(
    ("address", "length", "base"),
    [
        ("10.1.1.10", 16, "10.1.0.0"),
        ("10.1.1.10", 24, "10.1.1.0"),
        ("10.1.1.100", 26, "10.1.1.64"),
        ("10.1.1.70", 26, "10.1.1.64"),
    ],
)
def test_f5_subnets_of_addresses(address: str, length: int, base: str) -> None:
    subnet = addresses.subnet4(addresses.ipv4(address), length)
    assert addresses.ipv4_text(subnet.base) == base


@pytest.mark.parametrize(
    ("subnet", "number", "text"),
    [
        ("2016:430::/64", 0x254, "2016:430::254"),
        ("babe:face::80/121", 0x45, "babe:face::c5"),
        ("2001::/100", 2, "2001::2"),
    ],
)
def test_f6_ipv6_hosts_by_number(subnet: str, number: int, text: str) -> None:
    parsed, _ = addresses.parse_subnet6(subnet)
    assert parsed.text(parsed.base + number) == text


@pytest.mark.parametrize(
    ("length", "last", "following"),
    [(100, 0, 1), (100, 1, 2), (100, 0xFFFE, 0xFFFF), (124, 0xE, 0xF)],
)
def test_f8_ipv6_addresses_follow_one_another(length: int, last: int, following: int) -> None:
    subnet, _ = addresses.parse_subnet6(f"2001::/{length}")
    pool = Pool6(subnet)
    pool.resume(subnet.base + last)
    assert pool.following() == subnet.base + following


@pytest.mark.parametrize(
    ("subnet", "taken", "available"),
    [
        ("10.36.1.0/24", ["10.36.1.1-10.36.1.10"], "10.36.1.11-10.36.1.254"),
        ("10.36.1.0/24", ["10.36.1.1-10.36.1.10", "10.36.1.11-10.36.1.254"], ""),
        (
            "10.36.1.0/24",
            ["10.36.1.1-10.36.1.10", "10.36.1.31-10.36.1.54"],
            "10.36.1.11-10.36.1.30, 10.36.1.55-10.36.1.254",
        ),
        (
            "10.36.0.0/16",
            ["10.36.0.1-10.36.0.10", "10.36.2.1-10.36.2.10"],
            "10.36.0.11-10.36.2.0, 10.36.2.11-10.36.255.254",
        ),
        (
            "10.36.1.0/24",
            ["10.36.1.1-10.36.1.4", "10.36.1.8-10.36.1.10"],
            "10.36.1.5-10.36.1.7, 10.36.1.11-10.36.1.254",
        ),
    ],
)
def test_f12_to_f14_and_f17_what_is_taken_and_left(
    checklist: Checklist, subnet: str, taken: list[str], available: str
) -> None:
    assert checklist.net("n1", subnet=subnet)
    network = checklist.view.networks[next(iter(checklist.view.networks))]
    assert derive.network_addresses(network, [], taken).available == available


@pytest.mark.parametrize(
    ("pool", "fits"),
    [("60.1.1.55-60.1.1.60", True), ("60.1.1.5-60.1.1.9", False), ("60.1.2.5-60.1.2.9", False)],
)
def test_f15_and_f16_ranges_that_are_free(checklist: Checklist, pool: str, fits: bool) -> None:
    assert checklist.net("n1", subnet="60.1.1.0/24")
    assert checklist.epg("g1", "n1", ipPool="60.1.1.1-60.1.1.20")
    assert checklist.epg("g2", "n1", ipPool=pool) is fits


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ("10.36.0.1/32", "10.36.0.0/24", True),
        ("20.20.0.20/32", "20.20.0.0/16", True),
        ("20.20.5.20/32", "20.20.0.0/24", False),
    ],
)
def test_f18_overlap(one: str, other: str, overlap: bool) -> None:
    claims = SubnetClaims()
    claims.add(Network(key="n1", subnet=one))
    found = claims.overlapping("", claim(Network(subnet=other)))
    assert bool(found.v4) is overlap


@pytest.mark.parametrize(
    ("subnet", "available"),
    [
        ("10.1.1.0/24", "10.1.1.1-10.1.1.254"),  # K1
        ("10.100.100.194-10.100.100.222/27", "10.100.100.194-10.100.100.222"),
        ("10.1.1.5-10.1.1.15/27", "10.1.1.5-10.1.1.15"),
        ("10.1.1.0/27", "10.1.1.1-10.1.1.30"),
        ("10.1.1.0/28", "10.1.1.1-10.1.1.14"),
        ("10.1.1.0/29", "10.1.1.1-10.1.1.6"),
        ("10.1.1.0/30", "10.1.1.1-10.1.1.2"),
    ],
)
def test_k1_and_k5_available_addresses(checklist: Checklist, subnet: str, available: str) -> None:
    assert checklist.net("n1", subnet=subnet)
    assert checklist.lists() == ("", available, 0)


def test_k2_addresses_reserved_then_used(checklist: Checklist) -> None:
    assert checklist.net("n1")
    assert checklist.allocate() == "10.1.1.1/24"
    checklist.endpoint("c1", ip_address="10.1.1.1")
    assert checklist.allocate(preferred="10.1.1.5") == "10.1.1.5/24"
    checklist.endpoint("c2", ip_address="10.1.1.5")
    assert checklist.lists()[:2] == ("10.1.1.1, 10.1.1.5", "10.1.1.2-10.1.1.4, 10.1.1.6-10.1.1.254")
    for name in ("c1", "c2"):
        checklist.delete_endpoint(name)
    assert checklist.lists() == ("", "10.1.1.1-10.1.1.254", 0)


@pytest.mark.parametrize("pool", ["10.3.1.10-10.3.1.20", "10.3.1.40-10.3.1.42"])
def test_k4_and_k6_groups_with_pools(checklist: Checklist, pool: str) -> None:
    assert checklist.net("n1", subnet="10.3.1.0/24")
    assert checklist.epg("g", "n1", ipPool=pool)
    assert checklist.endpoint("c1", service_name="g").ip_address == pool.partition("-")[0]
    assert not checklist.gone("endpointGroups", "default:g")
    checklist.delete_endpoint("c1")
    assert checklist.gone("endpointGroups", "default:g")


@pytest.mark.parametrize(
    "pool",
    [
        "10.3.1.0-10.3.1.20",
        "10.3.1.254-10.3.1.255",
        "10.3.1.110-10.3.1.320",
        "10.3.2.0-10.3.2.20",
        "10.3.2.0/24",
    ],
)
def test_k7_pools_that_cannot_be(checklist: Checklist, pool: str) -> None:
    assert checklist.net("n1", subnet="10.3.1.0/24")
    assert not checklist.epg("g", "n1", ipPool=pool)


@pytest.mark.parametrize("pool", ["10.3.1.30-10.3.1.50", "", "10.3.1.1-19.3.1.21"])
def test_k8_a_pool_is_not_changed(checklist: Checklist, pool: str) -> None:
    assert checklist.net("n1", subnet="10.3.1.0/24")
    assert checklist.epg("epg1", "n1", ipPool="10.3.1.10-10.3.1.20")
    assert not checklist.epg("epg1", "n1", ipPool=pool)


def test_k9_a_pool_of_one_address(checklist: Checklist) -> None:
    assert checklist.net("n1", subnet="10.3.1.0/24")
    assert checklist.epg("g", "n1", ipPool="10.3.1.11-10.3.1.11")
    assert checklist.endpoint("c1", service_name="g").ip_address == "10.3.1.11"
    with pytest.raises(ContivError):
        checklist.endpoint("c2", service_name="g")


def test_k10_pools_of_a_network(checklist: Checklist) -> None:
    assert checklist.net("n1", subnet="10.2.2.0/24")
    pools = ("", "5-10", "11-30", "", "31-132", "133-180")
    for number, pool in enumerate(pools):
        first, dash, last = pool.partition("-")
        text = f"10.2.2.{first}-10.2.2.{last}" if dash else ""
        assert checklist.epg(f"g{number}", "n1", ipPool=text)
    assert checklist.lists()[:2] == (
        "10.2.2.5-10.2.2.180",
        "10.2.2.1-10.2.2.4, 10.2.2.181-10.2.2.254",
    )
    for number, first in ((1, "10.2.2.5"), (2, "10.2.2.11"), (4, "10.2.2.31"), (5, "10.2.2.133")):
        assert checklist.endpoint(f"c{number}", service_name=f"g{number}").ip_address == first
        oper = inspect.group(checklist.view, f"default:g{number}")
        assert oper["allocatedIPAddresses"] == first
    assert checklist.endpoint("c0", service_name="g0").ip_address == "10.2.2.1"


def test_k11_a_group_shows_its_endpoints(checklist: Checklist) -> None:
    assert checklist.net("n1", pktTag=1)
    assert checklist.epg("g", "n1")
    for name in ("c1", "c2"):
        checklist.endpoint(name, service_name="g")
    oper = inspect.group(checklist.view, "default:g")
    assert (len(oper["endpoints"]), oper["numEndpoints"], oper["pktTag"]) == (2, 2, 1)


def test_k12_a_tenant_counts(checklist: Checklist) -> None:
    assert checklist.net("n1")
    for group in ("g1", "g2"):
        assert checklist.epg(group, "n1")

    def counted() -> tuple[int, int, int]:
        oper = inspect.tenant(checklist.view, "default")
        return oper["totalNetworks"], oper["totalEPGs"], oper["totalEndpoints"]

    for number, group in enumerate(("", "g1", "g2")):
        checklist.endpoint(f"c{number}", service_name=group)
        assert counted() == (1, 2, number + 1)
    for number in range(3):
        checklist.delete_endpoint(f"c{number}")
    assert counted() == (1, 2, 0)
    for group in ("g1", "g2"):
        assert checklist.gone("endpointGroups", f"default:{group}")
    assert checklist.gone("networks", "default:n1")


def test_k13_a_policy_shows_endpoints(checklist: Checklist) -> None:
    assert checklist.net("n1")
    assert checklist.post("policys", "default:p", tenantName="default", policyName="p")
    assert checklist.epg("g", "n1", policies=["p"])
    for count in (1, 2):
        checklist.endpoint(f"c{count}", service_name="g")
        oper = inspect.policy(checklist.view, "default:p")
        assert (len(oper["endpoints"]), oper["numEndpoints"]) == (count, count)
