"""Where a packet that was really sent came to, by where it was seen. Pure.

In come the hosts on its way, what each saw of it (`netplugin.diagnostics.live_trace`) and who could
not be asked; out comes the outcome: `delivered`, `left` the cluster's hosts, `lost` with the hop
that dropped it first, `unknown` where nobody looked, `not sent`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from netmaster.plan.show.trace_ends import TraceEnd
from netmaster.plan.show.trace_verdict import TraceVerdict, unreachable

Sightings = Sequence[Mapping[str, Any]]

LOST: Final = "lost"
REFUSED: Final = "RST"
ERROR: Final = "ICMP error"
"""What some answers are, or how their texts begin (`ofnet.trace.frames`)."""
TO_KERNEL: Final = frozenset({"contivh0", "contivv0"})
"""The links by which switches pass packets to the kernels of their hosts
(`netplugin.world.bridges.port_names`)."""


def live_verdict(
    way: Sequence[str],
    seen: Mapping[str, Sightings],
    unreachable: Mapping[str, str],
    source: TraceEnd,
    destination: TraceEnd,
) -> TraceVerdict:
    """Return what became of a packet; `way` are the hosts from the sender's to the receiver's."""
    found = _first_end(way, seen, unreachable, source, destination)
    told = "" if found.outcome in {"delivered", "left"} else _error_told(way, seen)
    return TraceVerdict(found.outcome, f"{found.text}{told}")


def _first_end(
    way: Sequence[str],
    seen: Mapping[str, Sightings],
    unreachable: Mapping[str, str],
    source: TraceEnd,
    destination: TraceEnd,
) -> TraceVerdict:
    """Return what became of a packet where it was seen last."""
    for at, host in enumerate(way):
        here = [one for one in seen.get(host, ()) if not one["answer"]]
        if (receiver := _receiver(here, destination)) is not None:
            text = f"delivered to endpoint {receiver} on host {host}"
            return TraceVerdict("delivered", text + _answered(way, seen, receiver, host))
        if host in unreachable:
            return TraceVerdict("unknown", f"{_until(way, at)}; host {host}: {unreachable[host]}")
        if at and not _passed(here, "in"):
            return TraceVerdict(LOST, f"{LOST} between host {way[at - 1]} and host {host}")
        out = next((one["link"] for one in here if _is_way(one, "out")), None)
        if out is None:
            return _not_sent_on(host, here, source, destination, came=bool(at))
        if at + 1 == len(way) and destination.kind != "endpoint":
            return _left(way, seen, source, destination, f"left host {host} by link {out}")
    return TraceVerdict(LOST, f"dropped by the switches of host {way[-1]}")


def _left(
    way: Sequence[str],
    seen: Mapping[str, Sightings],
    source: TraceEnd,
    destination: TraceEnd,
    text: str,
) -> TraceVerdict:
    if why := unreachable(source, destination):
        return TraceVerdict(LOST, f"{why}: {text}")
    return TraceVerdict("left", text + _answered(way, seen, "", way[-1]))


def _receiver(here: Sightings, destination: TraceEnd) -> str | None:
    """Return the endpoint that got a packet: the destination, or a provider of that service."""
    for one in here:
        known = destination.key and one["endpoint"] == destination.key
        provider = destination.kind == "service" and one["endpoint"] and one["direction"] == "out"
        if known or provider:
            return str(one["endpoint"])
    return None


def _answers(way: Sequence[str], seen: Mapping[str, Sightings]) -> list[str]:
    """Return what the answers say that came back to the sender; "" from an earlier release."""
    return [
        str(one.get("what", ""))
        for one in seen.get(way[0], ())
        if one["answer"] and one["endpoint"] and one["direction"] == "out"
    ]


def _error_told(way: Sequence[str], seen: Mapping[str, Sightings]) -> str:
    errors = [one for one in _answers(way, seen) if one.startswith(ERROR)]
    return f"; {errors[0]}" if errors else ""


def _answered(way: Sequence[str], seen: Mapping[str, Sightings], receiver: str, host: str) -> str:
    """Return what became of the answer to a packet that came to a receiver, or left a host."""
    came = _answers(way, seen)
    if REFUSED in came:
        return ", which refused the connection (RST): does a process listen on the port there?"
    if errors := [one for one in came if one.startswith(ERROR)]:
        return f", and {errors[0]}"
    return ", and its answer came back" if came else _unanswered(way, seen, receiver, host)


def _unanswered(way: Sequence[str], seen: Mapping[str, Sightings], receiver: str, host: str) -> str:
    looked = [one for at in {way[0], host} for one in seen.get(at, ())]
    if way[0] not in seen or not all("what" in one for one in looked):
        return ""
    if any(one["answer"] and receiver and one["endpoint"] == receiver for one in seen[host]):
        return ", but the answer it gave was lost on the way back"
    if not receiver:
        return ", and no answer came"
    return ", and no answer came: look at the firewall and the routes within the pod"


def _not_sent_on(
    host: str, here: Sightings, source: TraceEnd, destination: TraceEnd, *, came: bool
) -> TraceVerdict:
    """Return what became of a packet that left a host by no link; `came`: from another host."""
    entered = next((one["link"] for one in here if _is_to_kernel(one)), None)
    if entered is None:
        by = f", which it came to by link {_link(here, 'in')}" if came else ""
        return TraceVerdict(LOST, f"dropped by the switches of host {host}{by}")
    if destination.kind == "host" and destination.host == host:
        return TraceVerdict("delivered", f"delivered to host {host} by link {entered}")
    dropped = f"dropped by the kernel of host {host}"
    if why := unreachable(source, destination):
        return TraceVerdict(LOST, f"{why}: {dropped}")
    return TraceVerdict(
        LOST,
        f"{dropped}, to which its switch passed it by link {entered}: look at "
        f"net.ipv4.ip_forward, `iptables -S FORWARD` and `ip route get` there",
    )


def _until(way: Sequence[str], at: int) -> str:
    if not at:
        return "nobody looked at the sender's host"
    return f"it left host {way[at - 1]}, and nobody looked further"


def _passed(here: Sightings, direction: str) -> bool:
    return any(_is_way(one, direction) for one in here)


def _link(here: Sightings, direction: str) -> str:
    return next((str(one["link"]) for one in here if _is_way(one, direction)), "?")


def _is_way(one: Mapping[str, Any], direction: str) -> bool:
    """Return whether a packet was seen on a link of the host itself, not on one of a pod."""
    return one["direction"] == direction and not one["endpoint"]


def _is_to_kernel(one: Mapping[str, Any]) -> bool:
    return one["direction"] == "in" and one["link"] in TO_KERNEL
