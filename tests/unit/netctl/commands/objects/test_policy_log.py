"""`netctl policy log` and `rule-add --log`."""

import json
from typing import Any

from tests.unit.netctl.master import Netctl

NAMES = {"tenant": "default", "network": "n1", "group": "web", "container": "pod-1"}


def record(at: str, **more: Any) -> dict[str, Any]:
    return {
        "at": at,
        "host": "h1",
        "number": 1,
        "tenant": "default",
        "policy": "doors",
        "rule": "7",
        "action": "deny",
        "protocol": "tcp",
        "source": {"address": "10.1.0.1", "port": 40000, **NAMES},
        "destination": {"address": "fd00::1", "port": 80, **dict.fromkeys(NAMES, "")},
        **more,
    }


LEFT = {"host": "h2", "tenant": "default", "policy": "doors", "rule": "7", "packets": 900}


def test_the_last_records_are_shown_the_oldest_first(netctl: Netctl) -> None:
    found = [record("12:01", protocol="icmp"), record("12:00")]
    netctl.master.logged = {"items": found, "unrecorded": [LEFT], "unreachable": {"h3": "away"}}
    done = netctl("policy", "log", "-t", "default", "-r", "7", "-n", "2")
    line = "h1  deny default:doors:7  {}  10.1.0.1:40000 (default/n1/web/pod-1) -> [fd00::1]:80"
    assert done.out.splitlines() == [
        f"12:00  {line.format('tcp')}",
        f"12:01  {line.format('icmp')}",
        "not recorded: 900 packets of default:doors:7 on h2",
    ]
    assert done.err == "no records of h3: away\n"
    assert netctl.master.asked == [("tenant", "default"), ("rule", "7"), ("limit", "2")]
    shown = json.loads(netctl("policy", "log", "-j").out)
    assert [one["at"] for one in shown["items"]] == ["12:00", "12:01"]
    assert shown["unrecorded"] == [LEFT]


def test_a_rule_is_logged_if_asked_for(netctl: Netctl) -> None:
    for words in ([], ["--log"]):
        assert netctl("policy", "rule-add", *words, "p1", "1").code == 0
    assert ["log" in body for _, _, body in netctl.master.written] == [False, True]
    assert netctl.master.written[-1][2]["log"] is True


def test_a_rule_is_under_audit_if_asked_for(netctl: Netctl) -> None:
    for words in ([], ["--audit"]):
        assert netctl("policy", "rule-add", *words, "p1", "1").code == 0
    assert ["audit" in body for _, _, body in netctl.master.written] == [False, True]
    assert netctl.master.written[-1][2]["audit"] is True
