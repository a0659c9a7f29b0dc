"""`netctl policy log`: what rules with `log` denied and allowed, on all hosts."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import click

from netctl.commandline import Command
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.render import Json, place

SHOWN: Final = 50
_NAMES: Final = ("tenant", "network", "group", "container")


@click.command(
    "log", cls=Command, help="Show what rules with --log denied and allowed, the oldest first"
)
@click.option("-t", "--tenant", default="", help="Of rules of this tenant")
@click.option("-p", "--policy", default="", help="Of the policies of this name")
@click.option("-r", "--rule", default="", help="Of the rules with this id")
@click.option("-a", "--action", default="", help="What they did: allow, deny or audit")
@click.option("-H", "--host", default="", help="On the host with this label")
@flags.last(SHOWN)
@flags.since
@flags.data
@click.pass_obj
def policy_log(
    master: MasterConnection, /, *, last: int | None, since: datetime | None, **by: str
) -> None:
    """Print the last records, then how many packets have none; unreachable hosts on stderr."""
    asked = {name: value for name, value in by.items() if value}
    found = master.client().policy_log(asked, flags.count(last, since, SHOWN))
    for host, reason in found.get("unreachable", {}).items():
        click.echo(f"no records of {host}: {reason}", err=True)
    records = flags.not_older(found.get("items", []), since)[::-1]
    without = found.get("unrecorded", [])
    shown = {"items": records, "unrecorded": without}
    master.show_data(shown, lambda: _shown(records, without))


def _shown(records: Sequence[Json], without: Sequence[Json]) -> str:
    lines = [
        f"{one['at']}  {one['host']}  {one['action']} {_rule(one)}  {one['protocol']}"
        f"  {_end(one['source'])} -> {_end(one['destination'])}\n"
        for one in records
    ]
    lines += [
        f"not recorded: {one['packets']} packets of {_rule(one)} on {one['host']}\n"
        for one in without
    ]
    return "".join(lines)


def _rule(one: Json) -> str:
    return f"{one['tenant']}:{one['policy']}:{one['rule']}"


def _end(end: Json) -> str:
    where = place(end["address"], end["port"])
    names = "/".join(end[name] for name in _NAMES if end[name])
    return f"{where} ({names})" if names else where
