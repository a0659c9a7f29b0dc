"""A trace goes from host to host, and names the agent that does not answer."""

from collections.abc import Mapping
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import pytest

from core.errors import AgentUnavailable, Invalid
from netmaster.agent_answers import TraceExit, TraceHop
from netmaster.api.v2.diagnostics.trace import TraceQuery, _redacted, read_query, trace
from netmaster.plan.show.trace_ends import TraceEnd

A = TraceEnd(kind="endpoint", key="n.t-a", host="h1", addresses=(ip_address("10.1.1.1"),), name="a")
B = TraceEnd(
    kind="endpoint",
    key="n.t-b",
    host="h2",
    addresses=(ip_address("10.1.1.2"), ip_address("fd00::2")),
    mac="02:02:0a:01:01:02",
    vlan=61,
)
OUTSIDE = TraceEnd(kind="outside", addresses=(ip_address("8.8.8.8"),))
VIP = TraceEnd(kind="service", key="web:t", addresses=(ip_address("10.1.1.9"),))
ASKED = TraceQuery(src="a", dst="b", proto="tcp", port="80")
FRAME = {"eth_src": "x", "in_port": 3}


class Agents:
    """Two hosts with a tunnel between them; `away` are those whose agents do not answer."""

    def __init__(self, *away: str) -> None:
        self.away = away
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def ask(self, host: str, question: Mapping[str, Any]) -> TraceHop:
        self.asked.append((host, dict(question)))
        if host in self.away:
            raise AgentUnavailable(f"host {host}: 192.0.2.2:9090 does not answer")
        target, key = (question["towards"].get(name, "") for name in ("host", "endpoint"))
        found: TraceExit = {"kind": "tunnel", "name": target, "port": 2, "packet": FRAME}
        if host == target:
            found = {"kind": "endpoint", "name": key, "port": 7, "packet": {}, "answer": {"x": 1}}
        packet = {"of": host}
        return {"host": host, "bridge": "br", "packet": packet, "exits": [found], "faults": []}


async def test_there_and_back() -> None:
    agents = Agents()
    found = await trace(agents.ask, A, B, ASKED)
    assert (found["outcome"], found["names"]) == ("delivered", {"n.t-a": "a"})
    assert [hop["host"] for hop in found["hops"]] == ["h1", "h2"]
    assert [hop["host"] for hop in found["answer"]] == ["h2", "h1"]
    first, second, third, fourth = agents.asked
    assert first == (
        "h1",
        {
            "enter": {"endpoint": "n.t-a"},
            "to": "10.1.1.2",
            "protocol": 6,
            "port": 80,
            "sourcePort": 40000,
            "towards": {"endpoint": "n.t-b", "host": "h2"},
            "before": [],
        },
    )
    assert second[1]["enter"] == {"tunnel": "h1"}
    assert second[1]["packet"] == {"eth_src": "x"}
    # the hosts get the packet that is answered, so that they know its connection
    assert third[1]["enter"] == {"port": "7", "bridge": "br"}
    assert third[1]["packet"] == {"x": 1}
    assert (third[1]["before"], fourth[1]["before"]) == ([{"of": "h2"}], [{"of": "h1"}])


async def test_an_agent_that_does_not_answer_is_named() -> None:
    found = await trace(Agents("h2").ask, A, B, ASKED)
    assert found["verdict"] == (
        "broken: host h2: its agent does not answer: 192.0.2.2:9090 does not answer"
    )


async def test_from_outside_a_packet_comes_in_by_the_uplink() -> None:
    agents = Agents()
    await trace(agents.ask, OUTSIDE, B, ASKED)
    host, question = agents.asked[0]
    assert (host, question["enter"]) == ("h2", {"uplink": ""})
    packet = question["packet"]
    assert (packet["ipv4_src"], packet["ipv4_dst"]) == ("8.8.8.8", "10.1.1.2")
    assert (packet["tcp_dst"], packet["tcp_flags"], packet["vlans"]) == (80, 2, [61])


async def test_from_outside_a_host_forwards_to_its_pod() -> None:
    """Policies judge the client, whom the host does not stand for."""
    agents = Agents()
    await trace(agents.ask, OUTSIDE, replace(B, vlan=0), ASKED)
    host, question = agents.asked[0]
    assert (host, question["enter"]) == ("h2", {"host": ""})
    assert (question["source"], question["to"]) == ("8.8.8.8", "10.1.1.2")


@pytest.mark.parametrize(
    ("source", "destination", "asked"),
    [
        (VIP, B, ASKED),
        (OUTSIDE, OUTSIDE, ASKED),
        (A, A, ASKED),
        (A, B, TraceQuery(src="a", dst="b", family="5")),
        (A, OUTSIDE, TraceQuery(src="a", dst="b", proto="tpc")),
        (A, OUTSIDE, TraceQuery(src="a", dst="b", port="65536")),
        (B, A, TraceQuery(src="b", dst="a", family="6")),
    ],
)
async def test_what_makes_no_sense_is_refused(
    source: TraceEnd, destination: TraceEnd, asked: TraceQuery
) -> None:
    with pytest.raises(Invalid):
        await trace(Agents().ask, source, destination, asked)


@pytest.mark.parametrize("text", ["", "src=a", "src=a&dst=b&what=1", "src=a&src=b&dst=c"])
def test_bad_queries(text: str) -> None:
    with pytest.raises(Invalid):
        read_query(text)


def test_an_operator_learns_nothing_of_other_tenants() -> None:
    def shown(kind: str, owner: str) -> dict[str, Any]:
        return {"kind": kind, "owner": owner, "why": f"why {owner}", "flow": f"flow {owner}"}

    rule = "{0}:g:{0}:p:{0}:p:1:inRx"
    steps = [
        shown("RULE", rule.format("blue")),
        shown("RULE", rule.format("red")),
        shown("LOCAL", "net.red-abc"),
        shown("LOCAL", "net.blue-abc"),
        shown("SERVICE", "web:red"),
    ]
    out = {"kind": "endpoint", "name": "net.red-abc", "port": 1, "packet": {"x": 1}, "answer": {}}
    hop = {"host": "h1", "steps": steps, "exits": [out], "faults": ["endpoint net.red-abc: down"]}
    verdict = "broken: endpoint net.red-abc: down"
    trace: Any = {"hops": [hop], "answer": [], "verdict": verdict}
    text = str(_redacted(trace, frozenset({"blue"})))
    assert "red-abc" not in text
    assert "web:red" not in text
    assert ":red:" not in text
    assert "net.blue-abc" in text
