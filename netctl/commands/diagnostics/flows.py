"""`netctl flows`: who talked to whom, and what was dropped, on all hosts."""

import sys
import time
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

import click

from netctl.commandline import Command, switch
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.output import LINES
from netctl.render import Json, place

SHOWN: Final = 50
AGAIN: Final = 1.0
"""Seconds between the end of a watch and the next one."""
_END: Final = "an end called so: pod, container, group, network, service, or an address or block"
_CONTAINER: Final = ("tenant", "network", "group", "container")
_POD: Final = ("tenant", "network", "group", "namespace", "pod")


@click.command("flows", cls=Command, help="Show who talked to whom, and what was dropped")
@click.option("--from", "source", default="", help=f"From {_END}")
@click.option("--to", "destination", default="", help=f"To {_END}")
@click.option("--from-labels", default="", help="From an end with labels as app=web,tier!=db")
@click.option("--to-labels", default="", help="To an end with labels as app=web,tier!=db")
@click.option("-P", "--port", default="", help="To this port")
@click.option("-l", "--protocol", default="", help="Of this protocol: tcp, udp, icmp")
@click.option("-v", "--verdict", default="", help="forwarded, dropped or audited")
@click.option("-r", "--reason", default="", help="Dropped for this reason: policy, spoofed, ...")
@click.option("-s", "--service", default="", help="To the service of this key")
@click.option("-p", "--policy", default="", help="Dropped by this policy")
@click.option("-t", "--tenant", default="", help="An end of which is of this tenant")
@click.option("-H", "--host", default="", help="On the host with this label")
@switch("-f", "--follow", help_text="Show flows as they begin and end, until interrupted")
@flags.last(SHOWN)
@flags.since
@flags.data
@click.pass_obj
def flows(
    master: MasterConnection,
    /,
    *,
    follow: bool,
    last: int | None,
    since: datetime | None,
    **by: str,
) -> None:
    """Print the last flows, the oldest first; what is missing of them on stderr."""
    asked = {_PARAMETERS.get(name, name): value for name, value in by.items() if value}
    if follow:
        _follow(master, asked)
        return
    if since is not None:
        asked["since"] = since.isoformat()
    found = master.client().flows(asked, flags.count(last, since, SHOWN))
    for line in missing(found):
        click.echo(line, err=True)
    records = found.get("items", [])[::-1]
    master.show_data(records, lambda: "".join(f"{_line(one)}\n" for one in records))


_PARAMETERS: Final = {
    "source": "from",
    "destination": "to",
    "from_labels": "fromLabels",
    "to_labels": "toLabels",
    "port": "toPort",
}


def _follow(master: MasterConnection, asked: dict[str, str]) -> None:
    """Print flows as they come, for ever; what hosts miss once each."""
    output = replace(master.output, form=LINES) if master.output.form == "json" else master.output
    told: set[str] = set()
    while True:
        for name, data in master.client().watch_flows(asked):
            if name == "flow":
                click.echo(output.of_data(data, partial(_told, data)), nl=False)
                continue
            for line in missing(data):
                if line not in told:
                    told.add(line)
                    click.echo(line, err=True)
            sys.stdout.flush()
        time.sleep(AGAIN)  # netmaster ends a watch now and then, to look at its client's rights


def _told(one: Json) -> str:
    return f"{'end  ' if one['ended'] else 'begin'}  {_line(one)}\n"


def missing(found: Json) -> list[str]:
    """Return what the records of flows lack, in words."""
    away = [f"no flows of {host}: {why}" for host, why in found.get("unreachable", {}).items()]
    off = [f"host {host} records no flows: its agent needs --flow-records" for host in found["off"]]
    lost = [
        f"host {host} lacks "
        + ", ".join(f"{number} ({cause})" for cause, number in one.items() if number)
        for host, one in found.get("lost", {}).items()
    ]
    return [*away, *off, *lost]


def _line(one: Json) -> str:
    service = _service(one) if one["service"] else ""
    parts = [
        f"{one['last']}  {one['host']}  {one['verdict']}  {one['protocol']}",
        f"{_end(one['source'])} -> {service}{_end(one['destination'])}",
        f"{one['packets']} packets {one['bytes']} bytes",
    ]
    if one["reason"]:
        parts[-1] = f"{one['packets']} packets"
        parts.append(f"{one['reason']}: {one['because']}" if one["because"] else one["reason"])
    else:
        parts.append(f"answers {one['answerPackets']} packets {one['answerBytes']} bytes")
    return "  ".join(parts)


def _service(one: Json) -> str:
    return f"{place(one['serviceAddress'], one['servicePort'])} (service {one['service']}) -> "


def _end(end: Json) -> str:
    names = "/".join(end[name] for name in (_POD if end["pod"] else _CONTAINER) if end[name])
    where = place(end["address"], end["port"])
    return f"{where} ({names})" if names else where
