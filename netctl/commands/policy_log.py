"""`netctl policy log`: what rules with `log` denied and allowed, on all hosts."""

from typing import Final

import click

from netctl.commandline import Command
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.render import Json, indented

SHOWN: Final = 50
_NAMES: Final = ("tenant", "network", "group", "container")


@click.command(
    "log", cls=Command, help="Show what rules with --log denied and allowed, the oldest first"
)
@click.option("-t", "--tenant", default="", help="Of rules of this tenant")
@click.option("-p", "--policy", default="", help="Of the policies of this name")
@click.option("-r", "--rule", default="", help="Of the rules with this id")
@click.option("-a", "--action", default="", help="What they did: allow or deny")
@click.option("-H", "--host", default="", help="On the host with this label")
@click.option(
    "-n", "--last", type=flags.INTEGER, default=SHOWN, show_default=True, help="The last so many"
)
@flags.as_json
@click.pass_obj
def policy_log(master: MasterConnection, /, *, last: int, as_json: bool, **by: str) -> None:
    """Print the last records, then how many packets have none; names silent hosts on stderr."""
    asked = {name: value for name, value in by.items() if value}
    found = master.client().policy_log(asked, last)
    for host, reason in found.get("silent", {}).items():
        click.echo(f"no records of {host}: {reason}", err=True)
    records = found.get("items", [])[::-1]
    without = found.get("unrecorded", [])
    if as_json:
        click.echo(indented({"items": records, "unrecorded": without}), nl=False)
        return
    for one in records:
        click.echo(
            f"{one['at']}  {one['host']}  {one['action']} {_rule(one)}  {one['protocol']}"
            f"  {_end(one['source'])} -> {_end(one['destination'])}"
        )
    for one in without:
        click.echo(f"not recorded: {one['packets']} packets of {_rule(one)} on {one['host']}")


def _rule(one: Json) -> str:
    return f"{one['tenant']}:{one['policy']}:{one['rule']}"


def _end(end: Json) -> str:
    address = end["address"]
    if end["port"]:
        address = f"[{address}]:{end['port']}" if ":" in address else f"{address}:{end['port']}"
    names = "/".join(end[name] for name in _NAMES if end[name])
    return f"{address} ({names})" if names else address
