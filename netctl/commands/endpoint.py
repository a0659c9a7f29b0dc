"""`netctl endpoint`: the endpoints of networks."""

from typing import Final

import click

from netctl.commandline import Callback, Command, CommandGroup
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.render import ListFormat, indented, text

_COLUMNS = ("Tenant", "Network", "Group", "Host", "Addresses", "MAC", "Container", "Name")

_FORMAT = ListFormat(
    header=_COLUMNS,
    rule=tuple("-" * len(column) for column in _COLUMNS),
    name="key",
    row=lambda found: (
        *(text(found, name) for name in ("tenant", "network", "group", "host", "addresses", "mac")),
        text(found, "container")[:_SHORT_ID],
        text(found, "containerName") or text(found, "interface"),
    ),
)
_SHORT_ID: Final = 12

_BY: Final[dict[str, tuple[str, str]]] = {
    "network": ("-n", "On a network"),
    "group": ("-g", "In a group"),
    "host": ("-H", "On a host"),
    "container": ("-c", "Of a container, by its whole id"),
    "address": ("-i", "With this address, or one in this prefix"),
}
"""Option -> its short form and what it restricts the list to; the query parameters' names."""

endpoint = CommandGroup("endpoint", help="Endpoint Inspection")


def _narrowed(command: Callback) -> Callback:
    for name, (short, words) in reversed(_BY.items()):
        command = click.option(short, f"--{name}", default="", help=words)(command)
    return command


@click.command("ls", cls=Command, help="List endpoints")
@flags.tenant
@flags.all_items
@_narrowed
@click.option(
    "-l", "--label", multiple=True, help="With a label: key or key=value; may be repeated"
)
@flags.as_json
@flags.quiet
@click.pass_obj
def _list(
    master: MasterConnection,
    /,
    *,
    tenant: str,
    all_items: bool,
    label: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    **by: str,
) -> None:
    by["tenant"] = "" if all_items else tenant
    asked = [(name, value) for name, value in by.items() if value]
    found = list(master.client().endpoints([*asked, *(("label", one) for one in label)]))
    click.echo(_FORMAT.show(found, as_json=as_json, quiet=quiet), nl=False)


@click.command(
    "inspect",
    cls=Command,
    help="Inspect an Endpoint",
    words=("epid",),
    wrong_words="Endpoint name required",
)
@click.pass_obj
def _inspect(master: MasterConnection, epid: str) -> None:
    found = master.client().inspect("endpoints", epid)
    # The server echoes the requested id (of an endpoint or a container); the original hides it.
    shown = {name: value for name, value in found.get("Oper", {}).items() if name != "key"}
    click.echo(indented(found | {"Oper": shown}), nl=False)


endpoint.add(_list, "list")
endpoint.add(_inspect)
