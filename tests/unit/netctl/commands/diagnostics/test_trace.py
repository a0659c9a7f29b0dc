"""`netctl trace`."""

import json
from typing import Any

import pytest

from tests.unit.netctl.master import Netctl

KEY = "n1.default-" + "ab" * 32
FOUND: dict[str, Any] = {
    "source": f"endpoint {KEY} on host h1",
    "destination": "host h2",
    "names": {},
    "outcome": "dropped",
    "verdict": "dropped by rule 1",
    "hops": [
        {
            "host": "h1",
            "bridge": "contivVxlanBridge",
            "mode": "vrouter",
            "steps": [
                {
                    "table": 0,
                    "tableName": "INPUT",
                    "why": f"endpoint {KEY}",
                    "does": "goto",
                },
                {"table": 3, "tableName": "DNAT", "why": "all packets", "does": "goto_table:4"},
                {"table": 5, "tableName": "POLICY", "why": "rule 1", "does": "drop"},
            ],
            "exits": [],
            "faults": ["the switch lacks flow x"],
        }
    ],
    "answer": [],
}


def test_hops_are_shown_line_by_line(netctl: Netctl) -> None:
    netctl.master.traced = FOUND
    done = netctl("trace", "a", "b", "-l", "tcp", "-P", "80")
    assert done.out == (
        "from endpoint n1.default-abababababab on host h1 to host h2\n"
        "host h1  contivVxlanBridge (vrouter)\n"
        "   0 INPUT            endpoint n1.default-abababababab: goto\n"
        "   5 POLICY           rule 1: drop\n"
        "  !! the switch lacks flow x\n"
        "dropped by rule 1\n"
    )
    assert sorted(netctl.master.asked) == [
        ("dst", "b"),
        ("port", "80"),
        ("proto", "tcp"),
        ("src", "a"),
    ]


def test_endpoints_are_called_by_their_names(netctl: Netctl) -> None:
    netctl.master.traced = {**FOUND, "names": {KEY: "shop"}}
    assert netctl("trace", "a", "b").out.startswith("from endpoint shop on host h1")


@pytest.mark.parametrize(
    ("outcome", "live", "code"),
    [
        ("delivered", "", 0),
        *((bad, "", 1) for bad in ("left", "agent", "dropped", "misdelivered", "broken")),
        ("delivered", "delivered", 0),
        ("delivered", "lost", 1),
        ("broken", "delivered", 1),
    ],
)
def test_only_what_is_delivered_is_a_success(
    netctl: Netctl, outcome: str, live: str, code: int
) -> None:
    sent = {"outcome": live, "verdict": live, "seen": {}, "unreachable": {}}
    netctl.master.traced = {**FOUND, "outcome": outcome, **({"live": sent} if live else {})}
    assert netctl("trace", "a", "b").code == code
    done = netctl("trace", "--json", "a", "b")
    assert (done.code, done.err) == (code, "")


def test_json_is_whole(netctl: Netctl) -> None:
    netctl.master.traced = FOUND
    assert json.loads(netctl("trace", "-j", "--ipv6", "a", "b").out) == FOUND
    assert ("family", "6") in netctl.master.asked


def test_what_became_of_a_packet_that_was_sent_is_told_last(netctl: Netctl) -> None:
    seen = {"link": "vvport1", "direction": "out", "endpoint": "b", "answer": False}
    back = {"link": "eth0", "direction": "in", "endpoint": "", "answer": True}
    live = {
        "outcome": "delivered",
        "verdict": "delivered to endpoint b",
        "seen": {"h1": [seen, back]},
        "unreachable": {"h2": "no answer in time"},
    }
    netctl.master.traced = {**FOUND, "live": live}
    done = netctl("trace", "--live", "a", "b")
    assert ("live", "") in netctl.master.asked
    assert done.out.splitlines()[-5:] == [
        "the packet that was sent",
        "  host h1  out by link vvport1 of endpoint b",
        "  host h1  the answer in by link eth0",
        "  !! host h2 did not look: no answer in time",
        "delivered to endpoint b",
    ]


@pytest.mark.parametrize("words", [[], ["a"], ["a", "b", "c"]])
def test_two_ends_are_required(words: list[str], netctl: Netctl) -> None:
    done = netctl("trace", *words)
    assert (done.code, done.message) == (1, '"Source and destination required"')
