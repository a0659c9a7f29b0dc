"""Where a packet that was really sent came to, by where it was seen. Pure.

In come the hosts on its way, what each saw of it (`netplugin.diagnostics.live_trace`) and who could
not be asked; out comes the outcome: `delivered`, `left` the cluster's hosts, `lost` with the hop
that dropped it first, `unknown` where nobody looked, `not sent`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from netmaster.plan.show.trace_ends import End
from netmaster.plan.show.trace_verdict import TraceVerdict

Sightings = Sequence[Mapping[str, Any]]

LOST: Final = "lost"
TO_KERNEL: Final = frozenset({"contivh0", "contivv0"})
"""The links by which switches pass packets to the kernels of their hosts
(`netplugin.world.port_names`)."""


def live_verdict(
    way: Sequence[str],
    seen: Mapping[str, Sightings],
    silent: Mapping[str, str],
    destination: End,
) -> TraceVerdict:
    """Return what became of a packet; `way` are the hosts from the sender's to the receiver's."""
    for at, host in enumerate(way):
        here = [one for one in seen.get(host, ()) if not one["answer"]]
        if any(destination.key and one["endpoint"] == destination.key for one in here):
            return _delivered(way, seen, destination, host)
        if host in silent:
            return TraceVerdict("unknown", f"{_until(way, at)}; host {host}: {silent[host]}")
        if at and not _passed(here, "in"):
            return TraceVerdict(LOST, f"{LOST} between host {way[at - 1]} and host {host}")
        out = next((one["link"] for one in here if _is_way(one, "out")), None)
        if out is None:
            return _not_sent_on(host, here, destination, came=bool(at))
        if at + 1 == len(way) and destination.kind != "endpoint":
            return _left(f"left host {host} by link {out}", destination)
    return TraceVerdict(LOST, f"dropped by the switches of host {way[-1]}")


def _left(text: str, destination: End) -> TraceVerdict:
    if destination.kind == "unused":
        return TraceVerdict(LOST, f"{text}, not for {destination.text}")
    return TraceVerdict("left", text)


def _delivered(
    way: Sequence[str], seen: Mapping[str, Sightings], destination: End, host: str
) -> TraceVerdict:
    answered = any(
        one["answer"] and one["endpoint"] and one["direction"] == "out"
        for one in seen.get(way[0], ())
    )
    text = f"delivered to endpoint {destination.key} on host {host}"
    return TraceVerdict("delivered", f"{text}, and its answer came back" if answered else text)


def _not_sent_on(host: str, here: Sightings, destination: End, *, came: bool) -> TraceVerdict:
    """Return what became of a packet that left a host by no link; `came`: from another host."""
    entered = next((one["link"] for one in here if _is_to_kernel(one)), None)
    if entered is None:
        by = f", which it came to by link {_link(here, 'in')}" if came else ""
        return TraceVerdict(LOST, f"dropped by the switches of host {host}{by}")
    if destination.kind == "host" and destination.host == host:
        return TraceVerdict("delivered", f"delivered to host {host} by link {entered}")
    return TraceVerdict(
        LOST,
        f"dropped by the kernel of host {host}, to which its switch passed it by link {entered}: "
        f"look at net.ipv4.ip_forward, `iptables -S FORWARD` and `ip route get` there",
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
