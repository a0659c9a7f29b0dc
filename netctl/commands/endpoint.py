"""`netctl endpoint`: the endpoints of networks."""

import click

from netctl.commandline import Command, CommandGroup
from netctl.connection import MasterConnection
from netctl.render import indented

endpoint = CommandGroup("endpoint", help="Endpoint Inspection")


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


endpoint.add(_inspect)
