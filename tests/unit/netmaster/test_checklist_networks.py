"""The original's tests of tenants, networks, tags, settings and addresses, by their number.

A1-A51, A86-A95 and B: what is accepted, what is refused, and what the state says afterwards.
"""

import json
from typing import Any

import pytest

from core.errors import ContivError
from core.ids import NetworkId
from netmaster.api.v1 import objects
from netmaster.api.v1.objects import OBJECT_CLASSES
from state import codec
from tests.unit.netmaster.checklist import GLOBAL, Checklist


@pytest.fixture
def checklist() -> Checklist:
    """Give a new cluster."""
    return Checklist()


def test_a1_to_a4_a_tenant_goes_last(checklist: Checklist) -> None:
    assert checklist.tenant_made("tenant1")
    assert checklist.net("net1", subnet="10.1.1.1/16", pktTag=1, tenantName="tenant1")
    assert checklist.net(
        "net2", subnet="20.1.1.1/16", pktTag=2, tenantName="tenant1", cfgdTag="test-tag"
    )
    for group, network, more in (
        ("group1", "net1", {}),
        ("group2", "net1", {}),
        ("group3", "net2", {"cfgdTag": "epg-tag"}),
    ):
        assert checklist.epg(group, network, "tenant1", **more)
    profiles: dict[str, tuple[str, ...]] = {
        "profile1": (),
        "profile2": ("group1",),
        "profile3": ("group1", "group3"),
    }
    for profile, groups in profiles.items():
        assert checklist.app(profile, *groups, tenant="tenant1")
    for plural, names in (
        ("appProfiles", profiles),
        ("endpointGroups", ("group1", "group2", "group3")),
        ("networks", ("net1", "net2")),
    ):
        assert not checklist.gone("tenants", "tenant1")
        for name in names:
            assert checklist.gone(plural, f"tenant1:{name}")
    assert checklist.gone("tenants", "tenant1")
    assert checklist.read("tenant", "tenant1") is None


@pytest.mark.parametrize("name", ["tenant1", "tenant-valid"])
def test_a5_names_that_can_be(checklist: Checklist, name: str) -> None:
    assert checklist.tenant_made(name)


@pytest.mark.parametrize("mark", ":|\\#@!~*^")
def test_a6_names_that_cannot_be(checklist: Checklist, mark: str) -> None:
    assert not checklist.tenant_made(f"tenant{mark}invalid")
    assert not checklist.tenant_made("-tenant")


def test_a7_subnets_side_by_side(checklist: Checklist) -> None:
    assert checklist.net("contiv1", subnet="10.1.1.0/24", gateway="10.1.1.220", pktTag=1)
    assert checklist.net("contiv2", subnet="10.1.2.0/24", gateway="10.1.2.254", pktTag=2)
    for name, gateway, tag in (("contiv1", "10.1.1.220", 1), ("contiv2", "10.1.2.254", 2)):
        oper = checklist.oper(f"default:{name}")
        assert (oper["allocatedIPAddresses"], oper["pktTag"]) == (gateway, tag)
        assert not oper["allocatedAddressesCount"]


def test_a8_to_a10_subnets_that_overlap(checklist: Checklist) -> None:
    assert checklist.net("contiv1", pktTag=1)
    assert not checklist.net("contiv2", "vxlan")
    assert not checklist.net("contiv2", gateway="10.1.1.233")
    assert not checklist.net("contiv2", subnet="10.1.0.0/16")
    assert checklist.oper("default:contiv1")["allocatedIPAddresses"] == ""
    assert checklist.tags("contiv1")[0] == 1


def test_a11_tenants_may_overlap(checklist: Checklist) -> None:
    assert checklist.settings(fwdMode="bridge")  # routed they share one address space
    assert checklist.tenant_made("tenant1")
    assert checklist.net("n")
    assert checklist.net("n", subnet="10.1.0.0/16", tenantName="tenant1", pktTag=2)


def test_a12_and_a13_ranges_of_one_subnet(checklist: Checklist) -> None:
    for name, subnet, fits in (
        ("n1", "20.1.1.10-20.1.1.45/24", True),
        ("n2", "20.1.1.45-20.1.1.100/24", False),
        ("n2", "20.1.1.46-20.1.1.100/24", True),
        ("n3", "20.1.1.0-20.1.1.10/24", False),
        ("n3", "20.1.1.0-20.1.1.9/24", True),
    ):
        assert checklist.net(name, subnet=subnet) is fits, subnet
    assert all(
        checklist.oper(f"default:{n}")["allocatedIPAddresses"] == "" for n in ("n1", "n2", "n3")
    )


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        ("::/64", "1::/64", True),
        ("2001:3332:3244:2422::/64", "2001:3332:3244:2422::/64", False),
        ("2001:2000::/32", "2001:2000:1234:4422::/64", False),
    ],
)
def test_a14_to_a16_ipv6_subnets(checklist: Checklist, first: str, second: str, fits: bool) -> None:
    assert checklist.net("n1", subnet="10.1.1.1/16", ipv6Subnet=first)
    assert checklist.net("n2", subnet="10.2.0.0/16", ipv6Subnet=second) is fits


def test_a17_ipv6_subnets_of_two_tenants(checklist: Checklist) -> None:
    assert checklist.settings(fwdMode="bridge")
    assert checklist.tenant_made("tenant1")
    assert checklist.net("n", ipv6Subnet="ffff:ffff:ffff::/48")
    assert checklist.net("n", ipv6Subnet="ffff:ffff:ffff::/48", tenantName="tenant1")


def test_a18_a_vlan_network(checklist: Checklist) -> None:
    assert checklist.net("contiv", subnet="10.1.1.1/24", gateway="10.1.1.254", pktTag=1, nwType="")
    record = checklist.view.networks[NetworkId("contiv.default")]
    state = json.loads(codec.encode(record))
    assert (state["nwType"], state["subnetIP"]) == ("data", "10.1.1.0")
    assert checklist.tags("contiv") == (1, 0)
    assert checklist.oper("default:contiv")["allocatedIPAddresses"] == "10.1.1.254"
    assert checklist.in_use() == ("1", "")


def test_a19_a_vxlan_network(checklist: Checklist) -> None:
    assert checklist.net("contiv", "vxlan", "10.1.1.1/16", gateway="10.1.1.254", pktTag=1)
    assert checklist.tags("contiv") == (1, 1)
    assert checklist.in_use() == ("", "1")


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({"name": "contiv-valid"}, True),  # A20
        ({}, True),  # A21
        ({"ipv6Subnet": "2016:0617::/120"}, True),  # A22
        ({"nwType": "infra"}, True),  # A23
        ({"name": "contiv:invalid"}, False),  # A24
        ({"name": "contiv|invalid"}, False),
        ({"name": "-invalid"}, False),
        ({"nwType": "infratest"}, False),  # A25
        ({"nwType": "testinfra"}, False),
        ({"nwType": "testdata"}, False),
        ({"nwType": "datatest"}, False),
        ({"subnet": "10.1.1.10-10.1.1.20/24", "gateway": "10.1.1.254"}, True),  # A26
        ({"subnet": "10.1.1.10-10.1.5.254/16", "gateway": "10.1.254.254"}, True),
        ({"subnet": "10.1.1.10-20/24"}, False),  # A27
        ({"subnet": "10.1.1.10-10.1.20/24"}, False),
        ({"subnet": "10.1.1.10-10.1.1.1/24"}, False),
        ({"subnet": "10.1.1.10-10.1.2.30/24"}, False),
        ({"subnet": "10.1.1.10-10.2.1.30/16"}, False),
        ({"subnet": "10.1.1.10-10.1.1.1.30/24"}, False),
        ({"subnet": "10.1.1/24"}, False),
        ({"subnet": "10.1.1.256/24"}, False),
        ({"cfgdTag": "contiv-net"}, True),  # A28
        ({"cfgdTag": "io.contiv.network.test"}, True),
        ({"cfgdTag": "tag=contiv-net"}, False),  # A29
        ({"cfgdTag": "io.contiv.network/test"}, False),
        ({"subnet": "10.1.1.1-10.1.1.70/26"}, False),  # A30
        ({"subnet": "10.1.1.1/32"}, False),
        ({"ipv6Subnet": "2016:0617::/128"}, False),
        ({"tenantName": "nobody"}, False),  # A31
        ({"encap": "vvvv"}, False),
        ({"pktTag": 5000}, False),
        ({"encap": "vxlan", "pktTag": 20000}, False),
        ({"subnet": "10.1.1.1/24", "gateway": "10.1.2.254"}, False),
        ({"subnet": "10.1.1.65-10.1.1.70/26", "gateway": "10.1.1.1"}, False),
    ],
)
def test_a20_to_a31_networks(checklist: Checklist, more: dict[str, Any], fits: bool) -> None:
    name = more.pop("name", "contiv")
    assert checklist.net(name, **more) is fits, checklist.text
    if fits:
        assert checklist.gone("networks", f"default:{name}")


def test_a32_what_is_not_there_cannot_be_deleted(checklist: Checklist) -> None:
    assert not checklist.gone("networks", "default:contiv")


def test_a33_networks_of_an_aci_fabric(checklist: Checklist) -> None:
    assert checklist.settings(networkInfraType="aci", fwdMode="bridge", arpMode="flood")
    assert checklist.net("n1", subnet="10.1.1.1/24", gateway="10.1.1.254", pktTag=1)
    assert checklist.net("n2", "vxlan", "10.2.1.1/16", pktTag=1, ipv6Subnet="2016:0617::/120")
    assert checklist.tags("n2") == (1, 1)
    for name in ("n1", "n2"):
        assert checklist.gone("networks", f"default:{name}")
    assert checklist.settings()


def test_a34_to_a36_vlans_in_use_stay_in_range(checklist: Checklist) -> None:
    for at, tag in enumerate((10, 11, 300)):
        assert checklist.net(f"n{at}", subnet=f"10.1.{at}.0/24", pktTag=tag)
    assert checklist.settings(vlans="9-301")
    assert not checklist.net("n3", subnet="10.1.3.0/24", pktTag=10)
    assert not checklist.net("n3", subnet="10.1.3.0/24", pktTag=302)
    assert checklist.net("n3", subnet="10.1.3.0/24", pktTag=299)
    assert not checklist.settings(vlans="50-301")
    assert not checklist.settings(vlans="1-200")


def test_a37_a_vlan_is_free_again(checklist: Checklist) -> None:
    assert checklist.settings(vlans="1-800", arpMode="flood")
    for _ in range(2):
        assert checklist.net("n", pktTag=700)
        assert checklist.gone("networks", "default:n")


def test_a38_to_a40_local_tags_of_vxlans(checklist: Checklist) -> None:
    for at, tag in enumerate((1000, 1001, 2000)):
        assert checklist.net(f"n{at}", "vxlan", f"10.{at}.1.0/24", pktTag=tag)
        assert checklist.tags(f"n{at}") == (at + 1, tag)
    assert checklist.settings(vxlans="1000-2500")
    assert not checklist.net("n3", "vxlan", "10.3.1.0/24", pktTag=1000)
    assert not checklist.net("n3", "vxlan", "10.3.1.0/24", pktTag=2501)
    assert checklist.net("n3", "vxlan", "10.3.1.0/24", pktTag=2200)
    assert checklist.tags("n3") == (4, 2200)
    assert not checklist.settings(vxlans="2000-10000")
    assert not checklist.settings(vxlans="1000-2000")


def test_a41_a_vxlan_and_its_local_tag_are_free_again(checklist: Checklist) -> None:
    assert checklist.settings(vxlans="1000-9000")
    for subnet in ("15.1.1.0/24", "16.1.1.1/24"):
        assert checklist.net("n", "vxlan", subnet, pktTag=3200)
        assert checklist.tags("n") == (1, 3200)
        assert checklist.gone("networks", "default:n")


def test_a42_and_a43_tags_by_themselves(checklist: Checklist) -> None:
    assert checklist.net("v", pktTag=0)
    assert checklist.tags("v") == (1, 0)
    for at, (asked, expected) in enumerate(((0, (1, 1)), (0, (2, 2)), (1000, (3, 1000)))):
        assert checklist.net(f"x{at}", "vxlan", f"11.{at}.1.0/24", pktTag=asked)
        assert checklist.tags(f"x{at}") == expected
    assert not checklist.net("again", subnet="12.1.1.0/24", pktTag=1)
    assert not checklist.net("again", "vxlan", "12.1.1.0/24", pktTag=1000)


@pytest.mark.parametrize(
    ("encap", "tag"), [("vlan", 1001), ("vlan", 99), ("vxlan", 2001), ("vxlan", 1000)]
)
def test_a44_tags_out_of_range(checklist: Checklist, encap: str, tag: int) -> None:
    assert checklist.settings(vlans="100-1000", vxlans="1001-2000")
    assert not checklist.net("n", encap, pktTag=tag)


@pytest.mark.parametrize("encap", ["vlan", "vxlan"])
def test_a45_a46_and_a48_settings_that_networks_rest_on(checklist: Checklist, encap: str) -> None:
    assert checklist.net("n", encap, pktTag=3200)
    assert not checklist.settings(fwdMode="bridge")
    assert checklist.text == f"Unable to update forwarding mode due to existing 1 {encap}s"
    assert not checklist.settings(pvtSubnet="172.21.0.0/16")
    assert checklist.text == f"Unable to update private subnet due to existing 1 {encap}s"
    assert checklist.gone("networks", "default:n")
    assert checklist.settings(pvtSubnet="172.21.0.0/16")


def test_a47_and_a49_settings_nothing_rests_on(checklist: Checklist) -> None:
    for more in (
        {"fwdMode": "routing", "pvtSubnet": "172.21.0.0/16"},
        {"fwdMode": "bridge", "pvtSubnet": "172.19.0.0/16"},
        {"pvtSubnet": "172.20.0.0/16"},
        {"networkInfraType": "aci", "arpMode": "flood"},
        {"vlans": "1-1000", "vxlans": "1001-2000"},
    ):
        assert checklist.settings(**more)
        assert checklist.read("global", "global").vlans == (GLOBAL | more)["vlans"]
        ranges = checklist.view.tag_ranges
        assert ranges is not None
        assert (ranges.vlans, ranges.vxlans) == (
            (GLOBAL | more)["vlans"],
            (GLOBAL | more)["vxlans"],
        )
        assert len(checklist.view.unread) == 5


@pytest.mark.parametrize(
    "more",
    [
        {"networkInfraType": "xyz"},
        *({"vlans": text} for text in ("1-5000", "0-4094", "1", "1?2", "abcd")),
        *({"vxlans": text} for text in ("1-100000", "1-20000")),
        {"pvtSubnet": "172.21.0.0/24"},
    ],
)
def test_a50_settings_that_cannot_be(checklist: Checklist, more: dict[str, str]) -> None:
    assert not checklist.settings(**more)


@pytest.mark.parametrize("mode", ["kubernetes", "docker", "swarm-mode"])
def test_a51_the_cluster_mode_is_shown(checklist: Checklist, mode: str) -> None:
    shown = objects.inspected(checklist.view, OBJECT_CLASSES["globals"], "global", mode)
    assert shown["Oper"]["clusterMode"] == mode


def test_a93_to_a95_addresses_of_a_network(checklist: Checklist) -> None:
    assert checklist.tenant_made("teatwo")
    assert checklist.net("t2-net", subnet="60.1.1.1/24", gateway="60.1.1.254", tenantName="teatwo")
    assert checklist.epg("t2-epgA", "t2-net", "teatwo")

    def listed() -> tuple[str, int]:
        oper = checklist.oper("teatwo:t2-net")
        return oper["allocatedIPAddresses"], oper["allocatedAddressesCount"]

    checklist.endpoint("c1231", "t2-net", tenant="teatwo", service_name="t2-epgA")
    assert listed() == ("60.1.1.1, 60.1.1.254", 1)
    with pytest.raises(ContivError):
        checklist.endpoint("c1232", "t2-net", tenant="teatwo", service_name="t2-epgB")
    assert listed() == ("60.1.1.1, 60.1.1.254", 1)
    checklist.endpoint("c1233", "t2-net", tenant="teatwo", service_name="t2-epgA")
    assert listed() == ("60.1.1.1-60.1.1.2, 60.1.1.254", 2)
    assert checklist.epg("t2-epgB", "t2-net", "teatwo")
    checklist.endpoint("c1232", "t2-net", tenant="teatwo", service_name="t2-epgB")
    assert listed() == ("60.1.1.1-60.1.1.3, 60.1.1.254", 3)


def test_b3_and_b4_texts_of_tags_out_of_range(checklist: Checklist) -> None:
    assert checklist.settings(vlans="11-1000", vxlans="1001-2000")
    for encap, tag in (("vxlan", 2001), ("vxlan", 3001), ("vlan", 1200), ("vlan", 1501)):
        assert not checklist.net("n", encap, pktTag=tag)
        assert f"requested {encap} not available" in checklist.text
    assert checklist.net("n1", "vxlan", pktTag=2000)
    assert checklist.net("n2", subnet="10.2.1.0/24", pktTag=12)


def test_b5_a_network_in_use(checklist: Checklist) -> None:
    assert checklist.net("n1")
    checklist.endpoint("c1")
    assert not checklist.gone("networks", "default:n1")
    assert "Error: Network has active endpoints" in checklist.text


@pytest.mark.parametrize(
    ("gateway", "count", "listed"),
    [
        ("10.1.1.254", 3, "10.1.1.1-10.1.1.3, 10.1.1.254"),
        ("", 4, "10.1.1.1-10.1.1.4"),
        ("10.1.1.254", 0, "10.1.1.254"),
        ("", 0, ""),
    ],
)
def test_b6_allocated_addresses(
    checklist: Checklist, gateway: str, count: int, listed: str
) -> None:
    assert checklist.net("n1", gateway=gateway)
    for number in range(count):
        checklist.endpoint(f"c{number}")
    assert checklist.lists()[0] == listed


def test_b7_allocated_addresses_with_gaps(checklist: Checklist) -> None:
    assert checklist.net("n1", gateway="10.1.1.254")
    for number in range(1, 8):
        checklist.endpoint(f"c{number}")
    for number in (3, 4, 6):
        checklist.delete_endpoint(f"c{number}")
    assert checklist.lists()[0] == "10.1.1.1-10.1.1.2, 10.1.1.5, 10.1.1.7, 10.1.1.254"
