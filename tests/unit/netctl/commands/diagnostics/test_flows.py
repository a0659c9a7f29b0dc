"""`netctl flows`."""

import json
from typing import Any

import pytest

from netctl.commands.diagnostics import flows
from tests.unit.netctl.master import Netctl

NAMES = {"tenant": "default", "network": "n1", "group": "web", "namespace": "", "pod": ""}
NONE = dict.fromkeys((*NAMES, "container"), "")


def record(**more: Any) -> dict[str, Any]:
    return {
        "host": "h1",
        "number": 1,
        "last": "12:00",
        "ended": False,
        "verdict": "forwarded",
        "reason": "",
        "because": "",
        "protocol": "tcp",
        "source": {"address": "10.1.0.1", "port": 40000, **NAMES, "container": "c1"},
        "destination": {"address": "fd00::1", "port": 80, **NONE},
        "service": "",
        "serviceAddress": "",
        "servicePort": 0,
        "packets": 3,
        "bytes": 300,
        "answerPackets": 2,
        "answerBytes": 200,
        **more,
    }


FLOW = "12:00  h1  forwarded  tcp  10.1.0.1:40000 (default/n1/web/c1) -> "
COUNTS = "  3 packets 300 bytes  answers 2 packets 200 bytes"


def test_the_last_flows_are_shown_the_oldest_first(netctl: Netctl) -> None:
    pod = {"address": "10.1.0.9", "port": 0, **NAMES, "namespace": "shop", "pod": "p", "group": ""}
    via = {"service": "web:default", "serviceAddress": "10.1.0.200", "servicePort": 8080}
    drop = {"verdict": "dropped", "reason": "policy", "because": "rule 7"}
    found = [record(**drop), record(destination=pod, **via), record()]
    netctl.master.flow_page = {
        "items": found,
        "off": ["h2"],
        "lost": {"h1": {"drop": 4, "room": 0}},
        "unreachable": {"h3": "away"},
    }
    done = netctl("flows", "--from=web", "--to", "shop/p", "-P", "80", "-n", "3")
    assert done.out.splitlines() == [
        f"{FLOW}[fd00::1]:80{COUNTS}",
        f"{FLOW}10.1.0.200:8080 (service web:default) -> 10.1.0.9 (default/n1/shop/p){COUNTS}",
        f"{FLOW.replace('forwarded', 'dropped')}[fd00::1]:80  3 packets  policy: rule 7",
    ]
    assert done.err.splitlines() == [
        "no flows of h3: away",
        "host h2 records no flows: its agent needs --flow-records",
        "host h1 lacks 4 (drop)",
    ]
    wanted = [("from", "web"), ("to", "shop/p"), ("toPort", "80"), ("limit", "3")]
    assert netctl.master.asked == wanted
    lines = netctl("flows", "-o", "jsonl").out.splitlines()
    assert [json.loads(line)["verdict"] for line in lines] == ["forwarded", "forwarded", "dropped"]


def test_flows_are_followed_and_what_is_missing_is_said_once(
    netctl: Netctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "AGAIN", 0.0)
    hosts = {"off": ["h2"], "lost": {}, "unreachable": {}}
    netctl.master.flow_events = [
        ("hosts", hosts),
        ("flow", record()),
        ("hosts", hosts),
        ("flow", record(ended=True)),
    ]
    done = netctl("flows", "--follow", "--verdict=forwarded")
    assert done.out.splitlines() == [
        f"begin  {FLOW}[fd00::1]:80{COUNTS}",
        f"end    {FLOW}[fd00::1]:80{COUNTS}",
    ]
    assert done.err.splitlines()[0] == "host h2 records no flows: its agent needs --flow-records"
    assert done.err.count("h2") == 1
    assert netctl.master.asked == [("verdict", "forwarded")]
