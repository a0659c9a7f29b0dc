"""`netctl policy suggest`."""

import json
from typing import Any

import pytest
import yaml

from tests.unit.netctl.master import Netctl

EMPTY = dict.fromkeys(
    (
        *("fromEndpointGroup", "fromNetwork", "fromIpAddress"),
        *("toEndpointGroup", "toNetwork", "toIpAddress", "protocol"),
    ),
    "",
)


def rule(number: str, **more: Any) -> dict[str, Any]:
    whole = {"policyName": "seen-db", "ruleId": number, "direction": "in", "action": "allow"}
    return {**EMPTY, "port": 0, **whole, **more}


def shift(becomes: str) -> dict[str, Any]:
    return {
        "tenant": "blue",
        "source": "db",
        "destination": "web",
        "traffic": "any",
        "becomes": becomes,
        "by": ["blue:seen-db:1"],
        "before": [],
        "sources": 1,
        "destinations": 2,
    }


FOUND: dict[str, Any] = {
    "tenant": "blue",
    "policys": [{"policyName": "seen-db"}],
    "rules": [
        rule("1", action="deny"),
        rule("2", protocol="tcp", port=80, fromEndpointGroup="web"),
        rule("3", direction="out", protocol="icmp", toIpAddress="9.9.9.9"),
    ],
    "endpointGroups": [{"key": "blue:db", "policies": ["seen-db"], "replaces": ["p1"]}],
    "networkPolicies": [{"kind": "NetworkPolicy"}, {"kind": "NetworkPolicy"}],
    "unsaid": ["icmp of pods of shop"],
    "reach": {"changes": [shift("denied")], "complete": True},
    "wider": [],
    "unseen": [],
    "connections": 7,
    "dropped": 0,
    "leftOut": 0,
    "complete": True,
    "since": {},
    "lost": {},
    "off": [],
    "unreachable": {},
}


def test_rules_are_shown_beside_what_they_would_deny(netctl: Netctl) -> None:
    netctl.master.suggested = FOUND
    done = netctl("policy", "suggest", "-t", "blue", "-g", "web", "-g", "db", "--dropped")
    assert netctl.master.asked == [("tenant", "blue"), ("groups", "web,db"), ("dropped", "true")]
    assert done.out.splitlines() == [
        "7 connections were seen. Nothing was changed.",
        "Group blue:db would get policy seen-db instead of p1:",
        "  1: deny in all from any",
        "  2: allow in tcp/80 from group web",
        "  3: allow out icmp to address 9.9.9.9",
        "Would newly be denied:",
        "  tenant blue: db (1 endpoints) to web (2), any: denied, by rule blue:seen-db:1",
        "Nothing would newly be allowed.",
    ]
    assert done.err == ""


def test_what_is_not_known_and_what_is_wider_is_told(netctl: Netctl) -> None:
    netctl.master.suggested = {
        **FOUND,
        "dropped": 3,
        "leftOut": 2,
        "complete": False,
        "since": {"h1": "12:00"},
        "lost": {"h1": {"room": 4}},
        "off": ["h2"],
        "unreachable": {"h3": "away"},
        "wider": ["group web: all"],
        "unseen": ["idle"],
        "reach": {"changes": [], "complete": False},
    }
    done = netctl("policy", "suggest", "--since=1h")
    assert [name for name, _ in netctl.master.asked] == ["tenant", "groups", "since"]
    assert done.err.splitlines() == [
        "no flows of h3: away",
        "host h2 records no flows: its agent needs --flow-records",
        "host h1 lacks 4 (room)",
        "host h1 has no records from before 12:00",
        "not all connections are allowed: a host had too many kinds of them, ask for fewer",
        "3 connections were dropped by policies and are not allowed (--dropped allows them)",
        (
            "2 connections are not allowed: their group or network is gone, or rules cannot name "
            "their protocol"
        ),
        "wider than seen: group web: all",
        "no connections were seen of groups: idle",
    ]
    assert done.out.splitlines()[-1] == "These lists are incomplete: too much traffic would change."


def test_the_objects_can_be_posted_or_given_to_kubernetes(netctl: Netctl) -> None:
    netctl.master.suggested = FOUND
    posts = json.loads(netctl("policy", "suggest", "-o", "json").out)
    assert posts == {name: FOUND[name] for name in ("policys", "rules", "endpointGroups")}
    done = netctl("policy", "suggest", "-o", "networkpolicy")
    assert list(yaml.safe_load_all(done.out)) == FOUND["networkPolicies"]
    assert done.err == "NetworkPolicies would deny icmp of pods of shop\n"
    netctl.master.suggested = {**FOUND, "networkPolicies": []}
    assert netctl("policy", "suggest", "-o", "networkpolicy").out == ""


@pytest.mark.parametrize("form", ["yaml", "table", "x"])
def test_other_forms_are_refused(netctl: Netctl, form: str) -> None:
    done = netctl("policy", "suggest", "-o", form)
    assert done.code != 0
    assert "what-if, json, networkpolicy" in done.err


def test_suggested_policies_begin_under_audit_if_asked_for(netctl: Netctl) -> None:
    netctl.master.suggested = FOUND
    posts = json.loads(netctl("policy", "suggest", "-o", "json", "--audit").out)
    assert posts["policys"] == [{"policyName": "seen-db", "enforcement": "audit"}]
    assert netctl("policy", "suggest", "--audit").code == 1


OBJECTS: dict[str, Any] = {
    "policys": [{"key": "blue:seen-db", "policyName": "seen-db"}],
    "rules": [rule("1", key="blue:seen-db:1"), rule("2", key="blue:seen-db:2")],
}


def test_a_suggestion_is_made_with_the_groups_last(netctl: Netctl) -> None:
    netctl.master.suggested = {**FOUND, **OBJECTS}
    done = netctl("policy", "suggest", "--apply", "--audit")
    assert (done.code, done.out) == (0, "Group blue:db has policy seen-db now\n")
    written = [(plural, key) for plural, key, _ in netctl.master.written]
    rules = [("rules", one["key"]) for one in OBJECTS["rules"]]
    assert written == [("policys", "blue:seen-db"), *rules]
    assert netctl.master.written[0][2]["enforcement"] == "audit"
    assert netctl.master.patched == [("endpointGroups", "blue:db", {"policies": ["seen-db"]})]
    assert netctl("policy", "suggest", "--apply", "-o", "json").code == 1


def test_nothing_is_made_beside_a_policy_of_the_name(netctl: Netctl) -> None:
    netctl.master.suggested = {**FOUND, **OBJECTS}
    netctl.master.add("policys", {"key": "blue:seen-db"})
    done = netctl("policy", "suggest", "--apply")
    assert (done.code, done.message) == (
        3,
        '"policy blue:seen-db exists already: remove it first"',
    )
    assert (netctl.master.written, netctl.master.deleted) == ([], [])
