"""`netctl endpoint`: the endpoints of networks."""

from fnmatch import fnmatchcase
from typing import Final

import click

from netctl.commandline import Callback, Command, CommandGroup
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.render import ListFormat, pod_name, text

_COLUMNS = ("Tenant", "Network", "Group", "Host", "Addresses", "MAC", "Container", "Name")

_FORMAT = ListFormat(
    header=_COLUMNS,
    rule=tuple("-" * len(column) for column in _COLUMNS),
    name="key",
    row=lambda found: (
        *(text(found, name) for name in ("tenant", "network", "group", "host", "addresses", "mac")),
        text(found, "container")[:_SHORT_ID],
        pod_name(found) or text(found, "interface"),
    ),
    wide=(("Interface", "interface"), ("Labels", "labels"), ("VTEP", "vtep"), ("Key", "key")),
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
@click.option(
    "-p", "--pod", default="", help="Of pods of this name: POD or NAMESPACE/POD, as shop/web-*"
)
@flags.listing
@click.pass_obj
def _list(
    master: MasterConnection,
    /,
    *,
    tenant: str,
    all_items: bool,
    label: tuple[str, ...],
    pod: str,
    **by: str,
) -> None:
    by["tenant"] = "" if all_items else tenant
    asked = [(name, value) for name, value in by.items() if value]
    found = list(master.client().endpoints([*asked, *(("label", one) for one in label)]))
    if pod:
        wanted = pod if "/" in pod else f"*/{pod}"
        names = ((one, pod_name(one)) for one in found)
        found = [
            one for one, name in names if fnmatchcase(name if "/" in name else f"/{name}", wanted)
        ]
    master.show_list(found, _FORMAT)


@click.command(
    "inspect",
    cls=Command,
    help="Inspect an Endpoint",
    words=("epid",),
    wrong_words="Endpoint name required",
)
@flags.inspection
@click.pass_obj
def _inspect(master: MasterConnection, epid: str) -> None:
    found = master.client().inspect("endpoints", epid)
    # The server echoes the requested id (of an endpoint or a container); the original hides it.
    shown = {name: value for name, value in found.get("Oper", {}).items() if name != "key"}
    master.show_object(found | {"Oper": shown})


endpoint.add(_list, "list")
endpoint.add(_inspect)
