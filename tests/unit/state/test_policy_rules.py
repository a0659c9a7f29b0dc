"""The ofnet rules of a policy rule, and the rules that expand to nothing."""

import pytest

from core.addresses import ipv6, parse_match, subnet6
from core.ids import GroupKey, GroupName, NetworkId, NetworkName, TenantName
from state.policy_rules import (
    Addresses,
    PolicyRule,
    RuleScope,
    Span,
    expand,
    expand_all,
    protocol_number,
)
from state.records import Encap, GroupRecord, NetworkRecord, NetworkType

TENANT = TenantName("default")


def group(name: str, number: int) -> GroupRecord:
    return GroupRecord(
        tenant=TENANT,
        name=GroupName(name),
        network=NetworkName("n1"),
        group_id=number,
        encap=Encap.VXLAN,
        pkt_tag=1,
        ext_pkt_tag=1,
        dscp=0,
        bandwidth="",
        burst=0,
        ip_pool="",
        group_tag=name,
    )


def network(name: str, first: str, last: str, *, bounded: bool = False) -> NetworkRecord:
    return NetworkRecord(
        tenant=TENANT,
        name=NetworkName(name),
        type=NetworkType.DATA,
        encap=Encap.VXLAN,
        pkt_tag=1,
        ext_pkt_tag=1,
        subnet="10.1.2.0",
        subnet_len=24,
        gateway="",
        first=first,
        last=last,
        ipv6_subnet="",
        ipv6_subnet_len=0,
        ipv6_gateway="",
        network_tag=name,
        bounded=bounded,
    )


WEB, DB = group("web", 3), group("db", 7)
KNOWN = RuleScope(
    groups={GroupKey("web:default"): WEB, GroupKey("db:default"): DB},
    networks={
        NetworkId("n2.default"): network("n2", "10.1.2.77", "10.1.2.255"),
        NetworkId("n3.default"): network("n3", "10.1.2.8", "10.1.2.17"),
    },
)


def rule(direction: str, **more: object) -> PolicyRule:
    asked: dict[str, object] = {
        "tenant": TENANT,
        "policy": "p1",
        "rule_id": "1",
        "direction": direction,
        "action": "allow",
        "priority": 10,
    }
    return PolicyRule(**(asked | more))  # type: ignore[arg-type] # by name


def span(text: str) -> Span:
    return parse_match(text)


PREFIX = "default:web:default:p1:default:p1:1"


def test_into_a_group_from_another_and_back() -> None:
    request, answer = expand(
        WEB, rule("in", group="db", protocol=6, port=80, source=span("10.1.1.9")), KNOWN
    )
    assert (request.rule_id, answer.rule_id) == (f"{PREFIX}:inRx", f"{PREFIX}:inTx")
    assert (request.src_group, request.dst_group) == (7, 3)
    assert (answer.src_group, answer.dst_group) == (3, 7)
    assert (request.src_address, request.dst_address) == ("10.1.1.9", "")
    assert (answer.src_address, answer.dst_address) == ("", "10.1.1.9")
    assert (request.src_port, request.dst_port) == (0, 80)
    assert (answer.src_port, answer.dst_port) == (80, 0)
    assert request.tcp_flags == answer.tcp_flags == ""


def test_out_of_a_group_to_another_and_back() -> None:
    request, answer = expand(
        WEB, rule("out", group="db", protocol=17, port=53, destination=span("10.1.1.0/24")), KNOWN
    )
    assert (request.rule_id, answer.rule_id) == (f"{PREFIX}:outTx", f"{PREFIX}:outRx")
    assert (request.src_group, request.dst_group) == (3, 7)
    assert (answer.src_group, answer.dst_group) == (7, 3)
    assert (request.dst_address, answer.src_address) == ("10.1.1.0/24", "10.1.1.0/24")
    assert (request.dst_port, answer.src_port) == (53, 53)


def test_both_ends_of_an_incoming_rule() -> None:
    (request,) = expand(
        WEB, rule("in", source=span("10.1.1.7/24"), destination=span("10.1.1.9")), KNOWN
    )
    assert (request.src_address, request.dst_address) == ("10.1.1.0/24", "10.1.1.9")


@pytest.mark.parametrize(
    ("protocol", "port", "count", "flags"),
    [
        (0, 0, 1, ""),
        (0, 80, 1, ""),
        (1, 0, 1, ""),
        (1, 80, 1, ""),
        (6, 0, 1, "syn,!ack"),
        (6, 80, 2, ""),
        (17, 0, 1, ""),
        (17, 80, 2, ""),
    ],
)
@pytest.mark.parametrize("direction", ["in", "out"])
def test_a_port_of_tcp_or_udp_is_answered(
    direction: str, protocol: int, port: int, count: int, flags: str
) -> None:
    expanded = expand(WEB, rule(direction, protocol=protocol, port=port), KNOWN)
    assert len(expanded) == count
    assert expanded[0].tcp_flags == flags


@pytest.mark.parametrize("end", [{"group": "nope"}, {"network": "nope"}])
@pytest.mark.parametrize("direction", ["in", "out"])
def test_nobody_is_not_anybody(direction: str, end: dict[str, str]) -> None:
    assert expand(WEB, rule(direction, protocol=6, port=80, **end), KNOWN) == ()


def test_another_tenants_group_is_not_meant() -> None:
    assert expand(WEB, rule("in", tenant=TenantName("blue"), group="db"), KNOWN) == ()


def test_a_network_is_its_range_or_its_subnet() -> None:
    (whole,) = expand(WEB, rule("in", network="n2"), KNOWN)
    assert whole.src_address == "10.1.2.0/24"
    parts = expand(WEB, rule("out", network="n3"), KNOWN)
    assert [part.dst_address for part in parts] == ["10.1.2.8/29", "10.1.2.16/31"]
    assert [part.rule_id for part in parts] == [f"{PREFIX}:outTx:1", f"{PREFIX}:outTx:2"]


def test_ranges_at_both_ends_meet_each_other() -> None:
    expanded = expand(
        WEB,
        rule(
            "in",
            protocol=6,
            port=80,
            source=span("10.0.0.1-2"),
            destination=span("10.0.0.4-6/24"),
        ),
        KNOWN,
    )
    pairs = {(part.src_address, part.dst_address) for part in expanded if ":inRx:" in part.rule_id}
    assert pairs == {
        ("10.0.0.1", "10.0.0.4/31"),
        ("10.0.0.1", "10.0.0.6"),
        ("10.0.0.2", "10.0.0.4/31"),
        ("10.0.0.2", "10.0.0.6"),
    }
    assert len({part.rule_id for part in expanded}) == len(expanded) == 8


SIX = subnet6(ipv6("fd00:5::"), 64)
ONE6 = subnet6(ipv6("fd00:5::7"), 128)


@pytest.mark.parametrize(
    ("source", "destination", "matches"),
    [
        (SIX, None, {(":ipv6", "fd00:5::/64", "")}),
        (None, ONE6, {(":ipv6", "", "fd00:5::7")}),
        (SIX, ONE6, {(":ipv6", "fd00:5::/64", "fd00:5::7")}),
        (SIX, (1, 1), set()),
        ((1, 1), SIX, set()),
        (None, None, {("", "", "")}),
    ],
)
def test_addresses_of_ipv6_match_ipv6_alone(
    source: Addresses | None,
    destination: Addresses | None,
    matches: set[tuple[str, str, str]],
) -> None:
    found = expand(WEB, rule("in", source=source, destination=destination), KNOWN)
    assert matches == {
        (one.rule_id.partition("inRx")[2], one.src_address, one.dst_address) for one in found
    }


def test_each_group_that_a_policy_holds_for() -> None:
    first, second = rule("in"), rule("out", rule_id="2", group="db")
    expanded = expand_all([(WEB, [first, second]), (DB, [first])], KNOWN)
    assert sorted(expanded) == [
        "default:db:default:p1:default:p1:1:inRx",
        "default:web:default:p1:default:p1:1:inRx",
        "default:web:default:p1:default:p1:2:outTx",
    ]
    assert all(key == made.rule_id for key, made in expanded.items())


@pytest.mark.parametrize(
    ("text", "number"),
    [("", 0), ("icmp", 1), ("igmp", 2), ("tcp", 6), ("udp", 17), ("006", 6), ("255", 255)],
)
def test_protocols(text: str, number: int) -> None:
    assert protocol_number(text) == number


@pytest.mark.parametrize("text", ["256", "sctp", "-1"])
def test_there_are_no_other_protocols(text: str) -> None:
    with pytest.raises(ValueError, match=r"protocol|invalid literal"):
        protocol_number(text)
