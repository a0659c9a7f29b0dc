"""`netctl policy rule-ls`, `rule-add` and `rule-rm`."""

import json
from typing import Any

import pytest

from tests.unit.netctl.master import Netctl


def rule(number: str, **fields: Any) -> dict[str, Any]:
    policy = fields.pop("policy", "p1")
    return {
        "key": f"default:{policy}:{number}",
        "action": "allow",
        "direction": "in",
        "policyName": policy,
        "priority": 1,
        "ruleId": number,
        "tenantName": "default",
        **fields,
    }


RULES = [
    rule("3", direction="out", priority=10, protocol="udp", port=53, action="deny"),
    rule("2", priority=5, protocol="tcp", port=80),
    rule("5", fromIpAddress="10.1.1.0/24"),
    rule("6", direction="out", toNetwork="n1"),
    rule("7", fromEndpointGroup="web", toIpAddress="10.1.1.9"),
    rule("1", policy="p2"),
]


TABLES = """\
Incoming Rules:
Rule  Priority  From EndpointGroup  From Network  From IpAddress  To IpAddress  Protocol  Port  Action
----  --------  ------------------  ------------  ---------       ------------  --------  ----  ------
5     1                                           10.1.1.0/24                             0     allow
7     1         web                                               10.1.1.9                0     allow
2     5                                                                         tcp       80    allow
Outgoing Rules:
Rule  Priority  To EndpointGroup  To Network  To IpAddress  Protocol  Port  Action
----  --------  ----------------  ----------  ---------     --------  ----  ------
6     1                           n1                                  0     allow
3     10                                                    udp       53    deny
"""  # noqa: E501 - as it is shown


@pytest.fixture
def stocked(netctl: Netctl) -> Netctl:
    netctl.master.add("policys", {"key": "default:p1", "policyName": "p1"})
    netctl.master.add("rules", *RULES)
    return netctl


def test_rule_ls_is_a_table_a_direction_by_priority(stocked: Netctl) -> None:
    assert stocked("policy", "rule-ls", "p1").out == TABLES


def test_rule_ls_shows_which_rules_decide_nothing(stocked: Netctl) -> None:
    stocked.master.add("rules", rule("8", direction="out", action="deny", audit=True))
    lines = stocked("policy", "rule-ls", "p1").out.splitlines()
    assert [line for line in lines if "audit" in line] == [
        "8     1                                                               0     deny (audit)"
    ]


def test_rule_ls_quiet_and_json_have_the_same_order(stocked: Netctl) -> None:
    assert stocked("policy", "rule-ls", "-q", "p1").out == "5\n6\n7\n2\n3\n"
    out = stocked("policy", "rule-ls", "p1", "--json").out
    assert [line.split('"')[3] for line in out.splitlines() if '"ruleId"' in line] == [
        *("5", "6", "7", "2", "3")
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [(["nope"], "policy not found"), (["-t", "nope", "p1"], "tenant not found")],
)
def test_rule_ls_wants_tenant_and_policy(words: list[str], message: str, stocked: Netctl) -> None:
    done = stocked("policy", "rule-ls", *words)
    assert (done.code, done.out, done.message) == (3, "", f'"{message}\n"')


def test_rule_add_sends_every_flag(netctl: Netctl) -> None:
    words = "-t blue -p 7 -d in -g web -i 10.1.0.0/16 -s 10.2.0.1 -l tcp -P 80 -j deny p1 1"
    done = netctl("policy", "rule-add", *words.split())
    assert (done.code, done.out, done.err) == (0, "", "")
    assert netctl.master.written == [
        (
            "rules",
            "blue:p1:1",
            {
                "tenantName": "blue",
                "policyName": "p1",
                "ruleId": "1",
                "priority": 7,
                "direction": "in",
                "fromEndpointGroup": "web",
                "toEndpointGroup": "",
                "fromNetwork": "",
                "toNetwork": "",
                "fromIpAddress": "10.1.0.0/16",
                "toIpAddress": "10.2.0.1",
                "protocol": "tcp",
                "port": 80,
                "action": "deny",
            },
        )
    ]


def test_rule_add_has_defaults(netctl: Netctl) -> None:
    netctl("policy", "rule-add", "p1", "1")
    [(_, key, body)] = netctl.master.written
    assert key == "default:p1:1"
    assert (body["priority"], body["direction"], body["action"]) == (1, "in", "allow")


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [("-d out -e web", "toEndpointGroup", "web"), ("-d out -o n1", "toNetwork", "n1")],
)
def test_rule_add_outgoing(words: str, field: str, value: str, netctl: Netctl) -> None:
    assert netctl("policy", "rule-add", "p1", "1", *words.split()).code == 0
    assert netctl.master.written[0][2][field] == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-e g", "Cant specify to-group for incoming rule"),
        ("-o n", "Cant specify to-network for incoming rule"),
        ("-g g -n n", "Can't specify both from-group argument and -from-network "),
        ("-d out -g g", "Cant specify from-group for outgoing rule"),
        ("-d out -n n", "Cant specify from-network for outgoing rule"),
        ("-d out -i 10.0.0.1", "Cant specify from-ip-address for outgoing rule"),
        ("-d out -e g -o n", "Can't specify both -to-group and -to-network"),
        ("-d sideways -e g", "Unknown direction"),
        ("-d=", "Unknown direction"),
    ],
)
def test_rule_add_checks_before_it_asks(words: str, message: str, netctl: Netctl) -> None:
    done = netctl("policy", "rule-add", "p1", "1", *words.split())
    assert (done.code, done.out, done.message) == (1, "", f'"{message}"')
    assert netctl.master.written == []


def test_rule_rm_is_silent(netctl: Netctl) -> None:
    done = netctl("policy", "rule-rm", "p1", "1", "-t", "blue")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert netctl.master.deleted == [("rules", "blue:p1:1")]


@pytest.mark.parametrize("verb", ["rule-add", "rule-rm"])
@pytest.mark.parametrize("names", [[], ["p1"], ["p1", "1", "2"], ["p1", ""]])
def test_policy_and_rule_are_required(verb: str, names: list[str], netctl: Netctl) -> None:
    done = netctl("policy", verb, *names)
    assert (done.code, done.message) == (1, '"Policy name and Rule ID required"')
    assert "[policy] [rule id]" in done.out
    assert (netctl.master.written, netctl.master.deleted) == ([], [])


HITS = {
    "items": [
        {"rule": "default:p1:2", "packets": 7, "bytes": 700, "hosts": {"h1": {"packets": 7}}},
        {"rule": "default:p1:3", "packets": 1, "bytes": 60, "hosts": {}},
    ],
    "kubernetes": [
        {
            "rule": "networkpolicies shop/web/ingress/0",
            "policies": ["networkpolicies shop/web"],
            "verdict": "allow",
            "packets": 3,
            "bytes": 180,
        }
    ],
    "unreachable": {"h2": "host h2: no netplugin is registered"},
}


def test_rule_ls_shows_hits_and_who_did_not_count(stocked: Netctl) -> None:
    stocked.master.hits = HITS
    done = stocked("policy", "rule-ls", "p1", "--stats")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[1][-3:] == ["Action", "Packets", "Bytes"]
    assert [(line[0], *line[-2:]) for line in lines[3:6]] == [
        ("5", "0", "0"),
        ("7", "0", "0"),
        ("2", "7", "700"),
    ]
    assert lines[-1][-2:] == ["1", "60"]
    assert done.err == "no counters of h2: host h2: no netplugin is registered\n"
    assert stocked.master.asked == [("tenant", "default"), ("policy", "p1")]
    shown = json.loads(stocked("policy", "rule-ls", "p1", "--stats", "-j").out)
    assert {one["ruleId"]: one["stats"]["packets"] for one in shown} == {
        "2": 7,
        "3": 1,
        **dict.fromkeys("567", 0),
    }


def test_the_policies_of_kubernetes_have_hits_as_well(netctl: Netctl) -> None:
    netctl.master.hits = HITS
    done = netctl("policy", "kube-stats")
    assert done.out.splitlines()[2].split()[-3:] == ["allow", "3", "180"]
    assert netctl("policy", "kube-stats", "-j").out.startswith("[\n")
