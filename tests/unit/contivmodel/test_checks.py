"""Fields are checked in the original's order, with the original's patterns and texts."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contivmodel.checks import validate
from contivmodel.objects import (
    AciGw,
    EndpointGroup,
    Global,
    Netprofile,
    Network,
    RestObject,
    Tenant,
    posted,
)
from core.errors import Invalid

NETWORK: dict[str, Any] = {
    "tenant_name": "t",
    "network_name": "n",
    "encap": "vxlan",
    "subnet": "10.1.1.0/24",
}
GLOBAL: dict[str, Any] = {
    "name": "global",
    "vlans": "1-4094",
    "vxlans": "1-10000",
    "pvt_subnet": "172.19.0.0/16",
}


def refusal(obj: RestObject) -> str:
    try:
        validate(obj)
    except Invalid as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize("name", ["a", "A1", "1", "a.b", "a--b", "a" * 64, "0-0.x"])
def test_names_like_dns_names_pass(name: str) -> None:
    assert refusal(Tenant(tenant_name=name)) == ""


@pytest.mark.parametrize(
    "name", ["", "a b", "-a", "a-", "a_b", "a..b", ".a", "a.", "ü", "a+b", "a/b", "a\n"]
)
def test_other_names_do_not(name: str) -> None:
    assert refusal(Tenant(tenant_name=name)) == "tenantName string invalid format"


def test_lengths_count_bytes_and_come_before_the_format() -> None:
    assert refusal(Tenant(tenant_name="a" * 65)) == "tenantName string too long"
    assert refusal(Tenant(tenant_name="ü" * 33)) == "tenantName string too long"
    assert refusal(Tenant(tenant_name="ü" * 32)) == "tenantName string invalid format"


def test_an_optional_name_may_be_empty_or_end_with_a_dot() -> None:
    assert refusal(Tenant(tenant_name="t", default_network="abc.")) == ""
    bad = Tenant(tenant_name="t", default_network="-bad-")
    assert refusal(bad) == "defaultNetwork string invalid format"


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("encap", "", "encap string invalid format"),
        ("encap", "gre", "encap string invalid format"),
        ("nw_type", "bad", "nwType string invalid format"),
        ("nw_type", "infra", ""),
        ("pkt_tag", 16_777_216, ""),
        ("pkt_tag", 16_777_217, "pktTag Value Out of bound"),
        ("pkt_tag", -1, ""),
        ("subnet", "", "subnet string invalid format"),
        ("subnet", "10.2.1.0", "subnet string invalid format"),
        ("subnet", "10.2.1.0/32", "subnet string invalid format"),
        ("subnet", "10.2.1.0/0", "subnet string invalid format"),
        ("subnet", "10.2.1.0/31", ""),
        ("subnet", "300.2.1.0/24", "subnet string invalid format"),
        ("subnet", "10.2.1.0/24 ", "subnet string invalid format"),
        ("subnet", "10.2.1.0/24\n", "subnet string invalid format"),
        ("subnet", "10.1.1.10-50/24", "subnet string invalid format"),
        ("subnet", "10.1.1.10-10.1.1.20/24", ""),
        ("subnet", "010.1.1.0/24", "subnet string invalid format"),
        ("gateway", "10.2.1.300", "gateway string invalid format"),
        ("gateway", "::1", "gateway string invalid format"),
        ("gateway", "", ""),
        ("ipv6_subnet", "2001:db8::/64", ""),
        ("ipv6_subnet", "zz::/64", "ipv6Subnet string invalid format"),
        ("ipv6_subnet", "2001:db8::/107", ""),
        ("ipv6_subnet", "2001:db8::/108", "ipv6Subnet string invalid format"),
        ("ipv6_subnet", "2001:db8::/128", "ipv6Subnet string invalid format"),
        ("ipv6_gateway", "2001:db8:3:0:0::5", ""),
        ("ipv6_gateway", "1:2:3:4:5:6:7:8", ""),
        ("ipv6_gateway", "10.1.1.1", "ipv6Gateway string invalid format"),
        ("cfgd_tag", "a.b-c", ""),
        ("cfgd_tag", "bad tag!", "cfgdTag string invalid format"),
        ("cfgd_tag", "t" * 129, "cfgdTag string too long"),
    ],
)
def test_fields_of_a_network(field: str, value: Any, text: str) -> None:
    assert refusal(Network(**{**NETWORK, field: value})) == text


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("arp_mode", "bad", "arpMode string invalid format"),
        ("arp_mode", "", ""),
        ("fwd_mode", "bad", "fwdMode string invalid format"),
        ("name", "foo", "name string invalid format"),
        ("network_infra_type", "aci-opflex", ""),
        ("network_infra_type", "bad", "networkInfraType string invalid format"),
        ("pvt_subnet", "10.0.0.0/8", "pvtSubnet string invalid format"),
        ("vlans", "1-10,20-30", "vlans string invalid format"),
        ("vlans", "1-12345", "vlans string invalid format"),
        ("vxlans", "1-99999999", ""),
        ("vxlans", "", "vxlans string invalid format"),
    ],
)
def test_fields_of_the_global_object(field: str, value: str, text: str) -> None:
    assert refusal(Global(**{**GLOBAL, field: value})) == text


@pytest.mark.parametrize(
    ("pool", "ok"),
    [("", True), ("10.1.1.1", True), ("10.1.1.1-10.1.1.9", True), ("10.1.1.1-9", False)],
)
def test_the_pool_of_a_group(pool: str, ok: bool) -> None:
    group = EndpointGroup(tenant_name="t", group_name="g", network_name="n", ip_pool=pool)
    assert refusal(group) == ("" if ok else "ipPool string invalid format")


@pytest.mark.parametrize("number", ["1", "10", "99999999999"])
@pytest.mark.parametrize("unit", ["k", "M", " G", "kbps", " Mbps", "gb", " Kb"])
def test_bandwidths(number: str, unit: str) -> None:
    assert refusal(a_profile(bandwidth=number + unit)) == ""


@pytest.mark.parametrize(
    "text", ["10", "0 mbps", "010 mbps", "10 MBPS", "10 tbps", "abc", "10  mbps", "10 {bps", "10 1"]
)
def test_texts_that_are_no_bandwidth(text: str) -> None:
    assert refusal(a_profile(bandwidth=text)) == "bandwidth string invalid format"


@pytest.mark.parametrize(
    ("field", "name", "greatest"), [("dscp", "DSCP", 63), ("burst", "burst", 10_486)]
)
def test_numbers_have_bounds(field: str, name: str, greatest: int) -> None:
    for number in (0, greatest):
        assert refusal(a_profile(**{field: number})) == ""
    for number in (-1, greatest + 1):
        assert refusal(a_profile(**{field: number})) == f"{name} Value Out of bound"


def test_a_profile_without_a_tenant_is_for_others_to_refuse() -> None:
    assert refusal(a_profile(tenant_name="")) == ""
    assert refusal(a_profile(profile_name="a b")) == "profileName string invalid format"


def a_profile(**more: Any) -> Netprofile:
    return Netprofile(**({"tenant_name": "t", "profile_name": "p"} | more))


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("name", "other", "name string invalid format"),
        ("enforce_policies", "maybe", "enforcePolicies string invalid format"),
        ("include_common_tenant", "", "includeCommonTenant string invalid format"),
        ("physical_domain", "a b", "physicalDomain string invalid format"),
        ("physical_domain", "x" * 129, "physicalDomain string too long"),
        ("node_bindings", "topology/pod-1/node-101,", "nodeBindings string invalid format"),
        ("node_bindings", "topology/pod-1/node-12345", "nodeBindings string invalid format"),
        ("path_bindings", "bad", "pathBindings string invalid format"),
        ("path_bindings", "x" * 2049, "pathBindings string too long"),
    ],
)
def test_the_settings_of_the_aci_gateway(field: str, value: str, text: str) -> None:
    settings = {
        "name": "aciGw",
        "enforce_policies": "yes",
        "include_common_tenant": "no",
        "physical_domain": "dom",
        "node_bindings": "topology/pod-1/node-101,topology/pod-1/node-102",
        "path_bindings": "topology/pod-1/paths-101/pathep-[eth1/14]",
    }
    assert refusal(AciGw(**settings)) == ""
    assert refusal(AciGw(**(settings | {field: value}))) == text


def test_fields_fail_in_wire_order() -> None:
    both = Network(**{**NETWORK, "encap": "gre", "subnet": "x"})
    assert refusal(both) == "encap string invalid format"


def test_the_key_fails_first() -> None:
    with pytest.raises(Invalid, match=r"^Invalid Key$"):
        posted(Network(**{**NETWORK, "encap": "gre"}), "t:other")


def test_a_posted_object_has_the_urls_key_and_its_defaults() -> None:
    network = posted(Network(**NETWORK, key="ignored"), "t:n")
    assert (network.key, network.nw_type) == ("t:n", "data")


ORIGINAL_NAME = re.compile(
    r"(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])\.)*"
    r"([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\-]*[A-Za-z0-9])"
)


@given(st.text(alphabet="aZ0-._", max_size=12))
def test_names_are_what_the_original_pattern_accepts(name: str) -> None:
    assert (refusal(Tenant(tenant_name=name)) == "") == bool(ORIGINAL_NAME.fullmatch(name))


@pytest.mark.timeout(30)  # any other would take hours
def test_hostile_texts_are_refused_in_linear_time() -> None:
    hostile = ["1" * 500_000, "a-" * 250_000, "1." * 250_000, ":" * 500_000, "1:" * 250_000]
    for text in hostile:
        for field in ("subnet", "gateway", "ipv6_subnet", "ipv6_gateway", "cfgd_tag"):
            assert refusal(Network(**{**NETWORK, field: text})) != ""
