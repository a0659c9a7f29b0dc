"""`netctl trace`: what would happen to a packet, hop by hop."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, Final

import click

from netctl.colours import told
from netctl.commandline import Command, switch
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.failure import FINDINGS, CommandFailed

_PLAIN: Final = frozenset({"", "all packets"})
"""Reasons that are the same for every packet: shown where a packet ends alone."""

_DELIVERED: Final = "delivered"

_LONG_ID: Final = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{20,}\b")


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a trace; the last one is the verdict.

    Endpoints are called by their names, where these are known, and ids of containers are cut.
    """
    for line in _whole_lines(found):
        yield _LONG_ID.sub(r"\1", reduce(_named, found["names"].items(), line))


def _named(line: str, called: tuple[str, str]) -> str:
    key, name = called
    return line.replace(key, name)


def _whole_lines(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"from {found['source']} to {found['destination']}"
    yield from _hops(found["hops"])
    if found["answer"]:
        yield "the answer"
        yield from _hops(found["answer"])
    yield told(found["verdict"], well=found["outcome"] == _DELIVERED)
    if "live" in found:
        yield from _live(found["live"])


def _live(live: Mapping[str, Any]) -> Iterator[str]:
    yield "the packet that was sent"
    for host, seen in live["seen"].items():
        for one in seen:
            where = f" of endpoint {one['endpoint']}" if one["endpoint"] else ""
            answer = f"the answer {one.get('what', '')}".rstrip() + " "
            what = answer if one["answer"] else ""
            yield f"  host {host}  {what}{one['direction']} by link {one['link']}{where}"
    for host, why in live["unreachable"].items():
        yield told(f"  !! host {host} did not look: {why}", well=False)
    yield told(live["verdict"], well=live["outcome"] == _DELIVERED)


def _hops(hops: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for hop in hops:
        mode = f" ({hop['mode']})" if "mode" in hop else ""
        yield f"host {hop['host']}  {hop.get('bridge', '')}{mode}".rstrip()
        steps = hop.get("steps", [])
        for step in steps:
            if step is steps[-1] or step["why"] not in _PLAIN:
                why = step["why"] or "no flow"
                yield f"  {step['table']:>2} {step['tableName']:<16} {why}: {step['does']}"
        for leaving in hop.get("exits", ()):
            place = f"{leaving['kind']} {leaving['name']}".strip()
            yield f"  -> {place}, port {leaving['port']}"
        for fault in hop.get("faults", ()):
            yield told(f"  !! {fault}", well=False)
        for note in hop.get("notes", ()):
            yield f"  !! {note}"


@click.command(
    "trace",
    cls=Command,
    help="Say what would happen to a packet; without --live none is sent",
    words=("src", "dst"),
    wrong_words="Source and destination required",
)
@click.option("-t", "--tenant", default="", help="Whose names count; all by default")
@click.option("-l", "--proto", default="icmp", help="icmp, tcp, udp, sctp or a number")
@click.option("-P", "--port", default="", help="Port of the destination")
@click.option("-s", "--sport", default="", help="Port of the source")
@switch("--live", help_text="Send such a packet too, icmp or tcp, and say where it came to")
@switch("-6", "--ipv6", help_text="Between addresses of IPv6, where names are given")
@flags.data
@click.pass_obj
def trace(
    master: MasterConnection,
    /,
    *,
    src: str,
    dst: str,
    ipv6: bool,
    live: bool,
    **asked: str,
) -> None:
    """Ask netmaster, which asks the agents on the way; exit with 1 unless all is delivered."""
    query = {"src": src, "dst": dst, **asked, "family": "6" if ipv6 else ""}
    client = master.client()
    ask = client.live_trace if live else client.trace
    found = ask((name, value) for name, value in query.items() if value)
    master.show_data(found, lambda: "".join(f"{line}\n" for line in lines(found)))
    if not _is_delivered(found):
        raise CommandFailed("", FINDINGS)


def _is_delivered(found: Mapping[str, Any]) -> bool:
    """Return whether the packet, and with `--live` the one that was sent, came to its end."""
    judged = (found, found["live"]) if "live" in found else (found,)
    return all(one["outcome"] == _DELIVERED for one in judged)
