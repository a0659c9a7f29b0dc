"""REST objects as agents read them: the policies of groups, and rules."""

import json
from typing import Any

import pytest

from core import keys
from core.errors import Invalid
from core.ids import GroupKey, GroupName, NetworkName, TenantName
from state import codec
from state.intents import Attachment, decode, decode_attachment, decode_rule
from state.policy_rules import PolicyRule
from state.records import GlobalRecord

TENANT = TenantName("default")
RULE = {
    "key": "default:p1:1",
    "tenantName": "default",
    "policyName": "p1",
    "ruleId": "1",
    "direction": "in",
    "action": "allow",
    "priority": 10,
    "link-sets": {"Policies": {}},
}
GROUP = {"key": "default:web", "tenantName": "default", "groupName": "web", "networkName": "n1"}


def rule(**more: Any) -> PolicyRule:
    fields = RULE | more
    return decode_rule(f"{keys.RULES}{fields['key']}", json.dumps(fields).encode())


def attachment(**more: Any) -> Attachment:
    return decode_attachment(f"{keys.GROUP_OBJECTS}default:web", json.dumps(GROUP | more).encode())


def test_a_groups_policies_are_named_in_their_order() -> None:
    found = attachment(policies=["p2", "p1"])
    assert found == Attachment(TENANT, GroupName("web"), ("p2", "p1"))
    assert found.key == GroupKey("web:default"), "as its record's"


@pytest.mark.parametrize("more", [{}, {"policies": None}, {"policies": []}])
def test_a_group_without_policies_has_none(more: dict[str, Any]) -> None:
    assert attachment(**more).policies == ()


def test_what_a_rule_does_not_name_is_any() -> None:
    assert rule() == PolicyRule(
        tenant=TENANT, policy="p1", rule_id="1", direction="in", action="allow", priority=10
    )


@pytest.mark.parametrize(
    ("more", "field", "value"),
    [
        ({"action": "deny"}, "action", "deny"),
        ({"direction": "out"}, "direction", "out"),
        ({"protocol": "udp"}, "protocol", 17),
        ({"protocol": "47"}, "protocol", 47),
        ({"port": 53}, "port", 53),
        ({"fromEndpointGroup": "db"}, "group", GroupName("db")),
        ({"direction": "out", "toEndpointGroup": "db"}, "group", GroupName("db")),
        ({"fromNetwork": "n2"}, "network", NetworkName("n2")),
        ({"direction": "out", "toNetwork": "n2"}, "network", NetworkName("n2")),
        ({"fromIpAddress": "10.0.0.9"}, "source", (0x0A000009, 0x0A000009)),
        ({"toIpAddress": "10.0.0.0/30"}, "destination", (0x0A000000, 0x0A000003)),
    ],
)
def test_what_it_names_counts(more: dict[str, Any], field: str, value: object) -> None:
    assert getattr(rule(**more), field) == value


@pytest.mark.parametrize(
    "more",
    [
        {"protocol": "icmpp"},
        {"protocol": "256"},
        {"fromIpAddress": "10.0.0"},
        {"priority": "10"},
        {"port": "53"},
        {"policyName": 1},
    ],
)
def test_what_cannot_be_read_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        rule(**more)


@pytest.mark.parametrize("value", [b"", b"[]", b"{", json.dumps(RULE | {"key": "x"}).encode()])
def test_neither_is_what_is_no_such_object(value: bytes) -> None:
    with pytest.raises(Invalid):
        decode(f"{keys.RULES}default:p1:1", value)
    with pytest.raises(Invalid):
        decode(f"{keys.GROUP_OBJECTS}default:web", value)


def test_a_key_says_what_is_stored_there() -> None:
    assert decode(f"{keys.RULES}default:p1:1", json.dumps(RULE).encode()) == rule()
    found = decode(f"{keys.GROUP_OBJECTS}default:web", json.dumps(GROUP).encode())
    assert found == attachment()
    settings = GlobalRecord(
        infra_type="default", fwd_mode="bridge", arp_mode="flood", pvt_subnet="172.19.0.0/16"
    )
    assert decode(keys.GLOBAL_CONFIG, codec.encode(settings)) == settings
    assert decode(f"{keys.OBJECTS}tenant/default", b"{}") is None
