"""Answers `GET /api/v2/trace`: what would happen to a packet, host by host.

`netmaster.plan.show.trace_ends` finds the ends, the agents follow the packet on their hosts
(`netplugin.trace`), this module goes from host to host, there and back, and
`netmaster.plan.show.trace_verdict` says what it comes to. Nothing is sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

from aiohttp import web
from typing_extensions import TypedDict

from core.errors import AgentUnavailable, Invalid
from core.numbers import bounded
from core.patience import patient
from netmaster.agent_answers import TraceHop
from netmaster.api.http.queries import parameters
from netmaster.api.http.replies import json_reply
from netmaster.api.http.routes import OperationDoc
from netmaster.api.leader.leader_context import ApiRequest, LeaderContext
from netmaster.plan.show.trace_ends import Scope, TraceEnd, resolve
from netmaster.plan.show.trace_verdict import both_ways, onward, verdict
from netmaster.view import View

WITHIN: Final = patient(5.0)
"""Seconds for all hosts together."""
MOST_HOPS: Final = 6
PROTOCOLS: Final[Mapping[str, int]] = {"icmp": 1, "tcp": 6, "udp": 17, "sctp": 132}
SOURCE_PORT: Final = "40000"
"""The sender's port unless a client names one."""
_UPLINK_MAC: Final = "0e:00:00:00:00:01"
"""The sender of frames from outside; any MAC address that no pod has."""


class Trace(TypedDict):
    """What would happen to a packet, and to its answer."""

    source: str
    destination: str
    names: dict[str, str]
    outcome: str
    verdict: str
    hops: list[TraceHop]
    answer: list[TraceHop]


QUERY: Final = {
    "src": "who sends: an endpoint's key, address or name, a host's label, an outside address",
    "dst": "who shall get it: as src, or the name or address of a service",
    "proto": "icmp (default), tcp, udp, sctp, or a number",
    "port": "the destination's port",
    "sport": "the sender's port",
    "family": "4 (default) or 6, where names do not tell",
    "tenant": "whose names count; all by default",
}

OPERATION: Final = OperationDoc(summary="trace a packet", tag="trace", answer=Trace, query=QUERY)

Ask = Callable[[str, Mapping[str, Any]], Awaitable[TraceHop]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """What is asked for; texts as they were given."""

    src: str = ""
    dst: str = ""
    proto: str = "icmp"
    port: str = "0"
    sport: str = SOURCE_PORT
    family: str = "4"
    tenant: str = ""

    def talk(self) -> dict[str, int]:
        """Return protocol and ports. Raises Invalid."""
        given = self.proto.lower()
        protocol = PROTOCOLS.get(given)
        return {
            "protocol": _number("proto", given, 255) if protocol is None else protocol,
            "port": _number("port", self.port, 65535),
            "sourcePort": _number("sport", self.sport, 65535),
        }


async def show_trace(leader: LeaderContext, request: ApiRequest) -> web.Response:
    """Answer what would happen to a packet. Raises Invalid, NotFound for ends it cannot find."""
    asked = read_query(request.query)
    source, destination = await find_ends(leader, request, asked)
    shown = await trace(asking(leader, WITHIN), source, destination, asked)
    visible = request.access.tenants if request.access else None
    return json_reply(shown if visible is None else _redacted(shown, visible))


async def find_ends(
    leader: LeaderContext, request: ApiRequest, asked: TraceQuery
) -> tuple[TraceEnd, TraceEnd]:
    """Return the ends of a trace. Raises Invalid and NotFound for what the client cannot name."""
    vteps = await leader.agents.vteps()
    visible = request.access.tenants if request.access else None
    scope = Scope(tenant=asked.tenant, tenants=visible, vteps=vteps)

    def ends(view: View) -> tuple[TraceEnd, TraceEnd]:
        return resolve(view, asked.src, scope), resolve(view, asked.dst, scope)

    source, destination = await leader.committer.read(ends)
    if visible is not None and source.kind != "endpoint":
        raise Invalid(f"{asked.src} is no endpoint of your tenants")
    return source, destination


def asking(leader: LeaderContext, within: float) -> Ask:
    """Return what asks agents, for so many seconds in all."""
    return partial(_asked, leader, asyncio.get_running_loop().time() + within)


async def trace(ask: Ask, source: TraceEnd, destination: TraceEnd, asked: TraceQuery) -> Trace:
    """Return what would happen to a packet from one end to another. Raises Invalid."""
    host, question = first_question(source, destination, asked)
    hops = await _follow(ask, host, question, destination)
    there, back, answers = verdict(hops, source, destination), None, []
    last = hops[-1]
    arrived = next((one for one in last.get("exits", ()) if "answer" in one), None)
    if there.outcome == "delivered" and arrived is not None:
        enter = {"port": str(arrived["port"]), "bridge": last.get("bridge", "")}
        answer = {"enter": enter, "packet": arrived["answer"], "towards": _towards(source)}
        answers = await _follow(ask, last["host"], answer, source, hops)
        back = verdict(answers, destination, source)
    found = both_ways(there, back)
    return {
        "source": source.text,
        "destination": destination.text,
        "names": {end.key: end.name for end in (source, destination) if end.name},
        "outcome": found.outcome,
        "verdict": found.text,
        "hops": hops,
        "answer": answers,
    }


def first_question(
    source: TraceEnd, destination: TraceEnd, asked: TraceQuery
) -> tuple[str, dict[str, Any]]:
    """Return the host where the packet comes in, and the question for its agent."""
    version = _family(source, destination, asked)
    to = destination.address(version)
    if to is None:
        raise Invalid(f"{destination.text} has no IPv{version} address")
    own = {**asked.talk(), "to": str(to), "towards": _towards(destination)}
    if source.kind == destination.kind != "outside" and source == destination:
        raise Invalid(f"source and destination are both {source.text}")
    if source.kind == "endpoint":
        return source.host, {**own, "enter": {"endpoint": source.key}}
    if source.kind == "host":
        return source.host, {**own, "enter": {"host": ""}}
    if source.kind == "service":
        raise Invalid(f"{source.text} is a service and sends no packets: name one of its endpoints")
    if destination.kind != "endpoint":
        raise Invalid("a trace needs an endpoint or a host at one end")
    if not destination.vlan:
        # by a node port or the like: its host forwards, and policies judge by the client's address
        client = {"source": str(source.address(version))}
        return destination.host, {**own, **client, "enter": {"host": ""}}
    packet = _frame(source, destination, version, asked.talk())
    return destination.host, {"enter": {"uplink": ""}, "packet": packet, "towards": own["towards"]}


def _frame(
    source: TraceEnd, destination: TraceEnd, version: int, talk: Mapping[str, int]
) -> dict[str, Any]:
    """Return the packet that comes from the physical network for an endpoint."""
    kind, protocol = f"ipv{version}", talk["protocol"]
    packet: dict[str, Any] = {
        "eth_src": _UPLINK_MAC,
        "eth_dst": destination.mac,
        "eth_type": 0x0800 if version == 4 else 0x86DD,
        f"{kind}_src": str(source.address(version)),
        f"{kind}_dst": str(destination.address(version)),
        "ip_proto": protocol,
        "vlans": [destination.vlan],
    }
    named = {number: name for name, number in PROTOCOLS.items()}
    if protocol == PROTOCOLS["icmp"]:
        four = version == 4
        packet |= {"ip_proto": 1 if four else 58}
        packet |= {"icmp_type": 8} if four else {"icmpv6_type": 128}
    elif protocol in named:
        name = named[protocol]
        packet |= {f"{name}_src": talk["sourcePort"], f"{name}_dst": talk["port"]}
    if protocol == PROTOCOLS["tcp"]:
        packet["tcp_flags"] = 2
    return packet


async def _follow(
    ask: Ask,
    host: str,
    question: dict[str, Any],
    destination: TraceEnd,
    before: list[TraceHop] | None = None,
) -> list[TraceHop]:
    """Return the hops of a packet; `before` are those of the packet it answers."""
    hops: list[TraceHop] = []
    while len(hops) < MOST_HOPS:
        known = [one for one in before or () if one["host"] == host and "packet" in one]
        try:
            hop = await ask(host, {**question, "before": [one["packet"] for one in known]})
        except AgentUnavailable as exc:
            reason = str(exc).removeprefix(f"host {host}: ")
            return [*hops, {"host": host, "faults": [f"its agent does not answer: {reason}"]}]
        hops.append(hop)
        out = onward(hop, destination)
        if out is None or hop["faults"]:
            break
        question = {
            "enter": {out["kind"]: host},
            "packet": {k: v for k, v in out["packet"].items() if k != "in_port"},
            "towards": _towards(destination),
        }
        host = out["name"]
    return hops


def _towards(end: TraceEnd) -> dict[str, str]:
    return {"endpoint": end.key, "host": end.host} if end.kind == "endpoint" else {}


def _family(source: TraceEnd, destination: TraceEnd, asked: TraceQuery) -> int:
    for end in (destination, source):
        versions = {one.version for one in end.addresses}
        if end.kind != "endpoint" and len(versions) == 1:
            return versions.pop()
    for text, end in ((asked.dst, destination), (asked.src, source)):
        literal = [one.version for one in end.addresses if str(one) == text.lower()]
        if literal:
            return literal[0]
    if asked.family not in {"4", "6"}:
        raise Invalid(f"family={asked.family} is neither 4 nor 6")
    return int(asked.family)


async def _asked(
    leader: LeaderContext, until: float, host: str, question: Mapping[str, Any]
) -> TraceHop:
    try:
        async with asyncio.timeout_at(until):
            return await leader.agents.trace(host, question)
    except TimeoutError as exc:
        raise AgentUnavailable(f"host {host}: no answer in time") from exc


def _redacted(shown: Trace, tenants: frozenset[str]) -> Trace:
    """Return a trace without what is of other tenants: an operator learns nothing of them."""
    hops = [*shown["hops"], *shown["answer"]]
    for hop in hops:
        for step in hop.get("steps", ()):
            named = step["kind"] in {"PIPELINE", "UPLINKS", "HOST_PORT", "VTEP"}
            if not named and not _is_of(step["owner"], tenants):
                step |= {"owner": "", "why": "another tenant", "flow": ""}
        for leaving in hop.get("exits", ()):
            if leaving["kind"] in {"endpoint", "access"} and not _is_of(leaving["name"], tenants):
                shown["verdict"] = shown["verdict"].replace(leaving["name"], "of another tenant")
                leaving |= {"name": "", "packet": {}}
                leaving.pop("answer", None)
                hop["faults"] = []
    return shown


def _is_of(name: str, tenants: frozenset[str]) -> bool:
    """Return whether a name is one of these tenants: a rule's id, a key of an endpoint, ..."""
    parts = {*name.split(":"), name.partition("-")[0].rpartition(".")[2], name.rpartition(".")[2]}
    return bool(parts & tenants)


def read_query(text: str) -> TraceQuery:
    """Return what a query asks for. Raises Invalid."""
    found = parameters(text, {one.name for one in fields(TraceQuery)})
    asked = TraceQuery(**{name: value for name, value in found.items() if value})
    if not asked.src or not asked.dst:
        raise Invalid("parameters src and dst are required")
    return asked


def _number(name: str, text: str, greatest: int) -> int:
    found = bounded(text, 0, greatest)
    if found is None:
        raise Invalid(f"parameter {name}={text[:80]} is not a number from 0 to {greatest}")
    return found
