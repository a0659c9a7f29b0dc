"""What the hops of a trace come to, in one line. Pure.

In come the answers of the agents on the way (`netplugin.trace.tracer`) and the ends; out comes the
outcome: `delivered`, `left` the cluster, `agent` for what an agent answers itself, `dropped`,
`misdelivered` for what arrives somewhere else, `broken`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from netmaster.plan.show.trace_ends import TraceEnd

Hop = Mapping[str, Any]

DELIVERED: Final = "delivered"
_INSIDE: Final = frozenset({"endpoint", "unused"})
"""Ends that are in a network: what arrives elsewhere is misdelivered."""
_GOOD: Final = frozenset({DELIVERED, "left", "agent"})


class TraceVerdict(NamedTuple):
    """An outcome, and the line that says it."""

    outcome: str
    text: str


def verdict(hops: Sequence[Hop], source: TraceEnd, destination: TraceEnd) -> TraceVerdict:
    """Return what becomes of a packet from one end to another."""
    for hop in hops:
        for fault in hop.get("faults", ()):
            return TraceVerdict("broken", f"broken: host {hop['host']}: {fault}")
    last = hops[-1]
    exits = last.get("exits", [])
    if not exits:
        return TraceVerdict("dropped", f"dropped by {_where(last)}{_no_route(last, destination)}")
    return _left(last, _best(exits, destination), source, destination)


def unreachable(source: TraceEnd, destination: TraceEnd) -> str:
    """Return why no packet can come from one end to the other; "" if nothing is in the way."""
    if destination.kind == "unused":
        address = destination.addresses[0]
        return f"no endpoint has the address {address} of network {destination.key}"
    apart = source.tenant and destination.tenant and source.tenant != destination.tenant
    if apart and destination.kind == "endpoint":
        return (
            f"{destination.text} is in tenant {destination.tenant}, which pods of tenant "
            f"{source.tenant} do not reach"
        )
    return ""


def both_ways(there: TraceVerdict, back: TraceVerdict | None) -> TraceVerdict:
    """Return the verdict about a packet and its answer."""
    if back is None or there.outcome not in _GOOD or back.outcome in _GOOD:
        return there
    return TraceVerdict(back.outcome, f"{there.text}, but the answer is {_answer(back)}")


def onward(hop: Hop, destination: TraceEnd) -> Mapping[str, Any] | None:
    """Return the exit of a hop that leads to another host; None at the end of the way."""
    exits = hop.get("exits", [])
    if not exits:
        return None
    best: Mapping[str, Any] = _best(exits, destination)
    return best if best["kind"] in {"tunnel", "uplink"} and best["name"] else None


def _best(exits: Sequence[Any], destination: TraceEnd) -> Any:
    """Return the exit that matters where a packet is flooded: the one to its destination."""
    names = {destination.key, destination.host} - {""}
    return next((one for one in exits if one["name"] in names), exits[0])


def _left(
    last: Hop, out: Mapping[str, Any], source: TraceEnd, destination: TraceEnd
) -> TraceVerdict:
    """Return what it means that a packet leaves a host where nobody follows it further."""
    kind, name, host = out["kind"], out["name"], last["host"]
    if kind == "agent" and (service := _service(last)):
        text = f"service {service} has no provider: host {host} refuses its connections"
        return TraceVerdict("agent", f"{text}: is a pod selected, and is it ready?")
    if kind in _AGENTS:
        return TraceVerdict("agent", f"left to {_AGENTS[kind]} of host {host} by {_where(last)}")
    if kind in {"endpoint", "access"}:
        arrived, right = f"{DELIVERED} to endpoint {name} on host {host}", name == destination.key
        right = right or destination.kind not in _INSIDE
    else:
        arrived = f"left by {_WAYS.get(kind, f'{kind} {name}'.strip())} of host {host}"
        right = destination.kind not in _INSIDE
        if destination.kind == kind == "host" and host == destination.host:
            return TraceVerdict(DELIVERED, f"{DELIVERED} to host {host}")
    if not right:
        why = unreachable(source, destination)
        told = f"{why}: {arrived}" if why else f"{arrived}, not for {destination.text}"
        return TraceVerdict("misdelivered", f"misdelivered: {told}")
    return TraceVerdict(DELIVERED if kind in {"endpoint", "access"} else "left", arrived)


_AGENTS: Final = {"agent": "the agent", "names": "the name service"}
_WAYS: Final = {
    "host": "the host's own network stack",
    "uplink": "the uplink",
    "router": "BGP's port",
}


def _service(last: Hop) -> str:
    """Return the service whose flow a packet met last; services of Kubernetes are no ends."""
    steps = last.get("steps", [])
    return str(steps[-1]["owner"]) if steps and steps[-1]["kind"] == "SERVICE" else ""


def _where(hop: Hop) -> str:
    """Return the words for the flow that decided: the last one, or the one that is missing."""
    steps = hop.get("steps", [])
    if not steps:
        return f"host {hop['host']}"
    last = steps[-1]
    why = last["why"]
    if not last["flow"] or (last["kind"] == "PIPELINE" and "priority=1 " in f"{last['flow']} "):
        why = "no flow for it"
    return f"{why} on host {hop['host']}, table {last['table']} {last['tableName']}"


def _no_route(hop: Hop, destination: TraceEnd) -> str:
    """Return what the lack of a flow means where BGP brings the routes; "" elsewhere."""
    if hop.get("mode") != "vlrouter" or destination.kind != "outside":
        return ""
    if (hop.get("steps") or [{}])[-1].get("tableName") != "IP":
        return ""
    return f": the BGP peer of host {hop['host']} has told it of no route there"


def _answer(back: TraceVerdict) -> str:
    return back.text.removeprefix("misdelivered: ")
