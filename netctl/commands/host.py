"""`netctl host`: the hosts of the cluster, and which of them have applied all that was changed."""

import time
from typing import Final

import click

from contivmodel.client_sync import Json, RestClient
from netctl.commandline import Command, CommandGroup, misuse
from netctl.commands import flags
from netctl.connection import Master
from netctl.failure import BEHIND, CommandFailed
from netctl.render import Listing, indented, text

LOOK_EVERY: Final = 0.2
"""Seconds between two looks while waiting."""

_LISTING = Listing(
    header=("Name", "Address", "VTEP", "Version", "Agent", "Applied", "Endpoints", "Errors"),
    rule=("----", "-------", "----", "-------", "-----", "-------", "---------", "------"),
    name="label",
    row=lambda found: (
        text(found, "label"),
        text(found, "controlIP"),
        text(found, "vtepIP"),
        text(found, "version"),
        "registered" if found.get("registered") else "none",
        "yes" if found.get("applied") else "no",
        text(found, "endpoints"),
        str(len(found.get("errors", ()))),
    ),
)

host = CommandGroup("host", help="Hosts and what they have applied")


@click.command("ls", cls=Command, help="List hosts")
@flags.as_json
@flags.quiet
@click.pass_obj
def _list(master: Master, *, as_json: bool, quiet: bool) -> None:
    found = master.client().hosts()
    click.echo(_LISTING.show(found, as_json=as_json, quiet=quiet), nl=False)


@click.command(
    "inspect", cls=Command, help="Inspect a host", words=("host",), wrong_words="Host name required"
)
@click.pass_obj
def _inspect(master: Master, host: str) -> None:
    click.echo(indented(master.client().host(host)), nl=False)


@click.command("applied", cls=Command, help="Say whether hosts have applied all that was changed")
@click.option(
    "-w", "--wait", type=float, default=0.0, show_default=True, help="Seconds to wait until they do"
)
@click.pass_obj
def _applied(master: Master, *, wait: float) -> None:
    if not wait >= 0:
        raise misuse("Seconds to wait must not be negative")
    found = _settled(master.client(), wait)
    late = [host for host in found if not host.get("applied")]
    click.echo(f"applied on {len(found) - len(late)} of {len(found)} hosts")
    for host in late:
        click.echo(f"{text(host, 'label')}: {_reason(host)}")
    if not _all_applied(found):
        raise CommandFailed("", BEHIND)


def _settled(client: RestClient, wait: float) -> list[Json]:
    """Return the hosts once all have applied everything, or as they are after that time."""
    end = time.monotonic() + wait
    while not _all_applied(found := client.hosts()) and time.monotonic() < end:
        time.sleep(LOOK_EVERY)
    return found


def _all_applied(hosts: list[Json]) -> bool:
    """Say whether every host whose agent is registered has applied everything."""
    return all(host.get("applied") for host in hosts if host.get("registered"))


def _reason(found: Json) -> str:
    return "; ".join([text(found, "behind"), *map(str, found.get("errors", ()))])


host.add(_list, "list")
host.add(_inspect)
host.add(_applied)
