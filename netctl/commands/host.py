"""`netctl host`: hosts that get no new endpoints, and hosts that are gone."""

import click

from netctl.commandline import Command, CommandGroup, switch
from netctl.connection import Master

_NAME_REQUIRED = "Host name required"

host = CommandGroup("host", help="Hosts of the cluster")


@click.command(
    "drain",
    cls=Command,
    help="Give a host no new endpoints; those it has stay",
    words=("host",),
    wrong_words=_NAME_REQUIRED,
)
@switch("--undo", help_text="Let the host have new endpoints again")
@click.pass_obj
def _drain(master: Master, host: str, *, undo: bool) -> None:
    found = master.client().drain_host(host, undo=undo)
    state = "drained" if found.get("drained") else "not drained"
    click.echo(f"Host {host} is {state}, it has {found.get('endpoints', 0)} endpoints")


@click.command(
    "rm",
    cls=Command,
    help="Remove a host that is gone for good",
    words=("host",),
    wrong_words=_NAME_REQUIRED,
)
@switch(
    "-f", "--force", help_text="Even if its agent runs; its endpoints and their addresses go too"
)
@click.pass_obj
def _remove(master: Master, host: str, *, force: bool) -> None:
    click.echo(f"Deleting host {host}")
    master.client().remove_host(host, force=force)


host.add(_drain)
host.add(_remove, "delete")
