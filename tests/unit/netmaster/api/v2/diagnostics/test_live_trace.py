"""A live trace: every host looks before the packet is sent, and who does not is named."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from core.errors import AgentUnavailable, Invalid
from netmaster.api.leader.leader_context import ApiRequest
from netmaster.api.v2.diagnostics import live_trace
from netmaster.plan.show.trace_ends import TraceEnd

A = TraceEnd(kind="endpoint", key="a", host="h1")
B = TraceEnd(kind="endpoint", key="n.t-b", host="h2")
QUESTION = ("h1", {"enter": {"endpoint": "n.t-a"}})
OUT = {"link": "eth0", "direction": "out", "endpoint": "", "answer": False}
IN = {**OUT, "direction": "in"}
GIVEN = {**OUT, "link": "vvport1", "endpoint": "n.t-b"}
SEEN = {"h1": [OUT], "h2": [IN, GIVEN]}


class Answer:
    """What a host says once it has looked."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def content(self) -> "Answer":
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self.text.encode()


class Agents:
    """Two hosts; `events` are what was asked of them, in order, `away` who does not answer."""

    def __init__(self, *away: str, broken: str = "") -> None:
        self.away, self.broken = away, broken
        self.events: list[tuple[str, str, str]] = []

    @asynccontextmanager
    async def stream(self, host: str, path: str, *, seconds: float) -> AsyncIterator[Answer]:
        assert seconds > live_trace.LOOKED
        if host in self.away:
            raise AgentUnavailable(f"host {host}: gone")
        asked = parse_qs(urlsplit(path).query)
        (mark,), (looked,) = asked["mark"], asked["seconds"]
        # it still looks when another one has been waited for
        assert float(looked) > live_trace.BEGUN
        self.events.append(("looks", host, mark))
        yield Answer("[" if host == self.broken else json.dumps(SEEN[host]))

    async def send(self, host: str, question: Mapping[str, Any]) -> None:
        self.events.append(("sends", host, question["mark"]))


async def sent(agents: Agents) -> live_trace.LiveOutcome:
    leader: Any = SimpleNamespace(agents=agents)
    return await live_trace.send(leader, QUESTION, ["h1", "h2"], A, B)


async def test_all_hosts_look_before_it_is_sent() -> None:
    agents = Agents()
    found = await sent(agents)
    assert [event[:2] for event in agents.events] == [
        ("looks", "h1"),
        ("looks", "h2"),
        ("sends", "h1"),
    ]
    (mark,) = {mark for _, _, mark in agents.events}
    assert len(bytes.fromhex(mark)) == 8
    assert (found["outcome"], found["seen"], found["unreachable"]) == ("delivered", SEEN, {})


async def test_a_host_that_does_not_look_is_named() -> None:
    found = await sent(Agents("h2"))
    assert (found["outcome"], found["unreachable"]) == ("unknown", {"h2": "gone"})
    found = await sent(Agents(broken="h2"))
    assert found["outcome"] == "unknown"
    assert "broke off" in found["unreachable"]["h2"]


async def test_nothing_is_sent_by_a_host_that_does_not_answer() -> None:
    agents = Agents("h1")
    found = await sent(agents)
    assert found["verdict"] == "not sent: host h1: gone"
    assert [event[:2] for event in agents.events] == [("looks", "h2")]


@pytest.mark.parametrize("protocol", ["udp", "sctp", "47"])
async def test_what_would_reach_a_process_is_refused(protocol: str) -> None:
    async def body() -> bytes:
        return b""

    asked = ApiRequest(body=body, parameters={}, query=f"src=a&dst=b&proto={protocol}")
    leader: Any = SimpleNamespace()
    with pytest.raises(Invalid, match="would reach a process"):
        await live_trace.answer(leader, asked)
