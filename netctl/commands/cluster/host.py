"""`netctl host`: the hosts of the cluster: their state, drain and removal."""

import time
from typing import TYPE_CHECKING, Final

import click

from daemons.waiting import waiting
from netctl.commandline import Command, CommandGroup, misuse, switch
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.failure import BEHIND, CommandFailed
from netctl.render import Json, ListFormat, moment, text

if TYPE_CHECKING:
    from contivmodel.client_sync import RestClient

POLL_INTERVAL: Final = 0.2
"""Seconds between two requests while waiting."""

_NAME_REQUIRED: Final = "Host name required"

_COLUMNS = (
    *("Name", "Address", "VTEP", "Version", "Agent"),
    *("Applied", "Drained", "Endpoints", "Errors"),
)

_FORMAT = ListFormat(
    header=_COLUMNS,
    rule=tuple("-" * len(column) for column in _COLUMNS),
    name="label",
    row=lambda found: (
        text(found, "label"),
        text(found, "controlIP"),
        ",".join(filter(None, (text(found, "vtepIP"), text(found, "vtepIP6")))),
        _version(found),
        _agent(found),
        _yes_or_no(found, "applied"),
        _yes_or_no(found, "drained"),
        text(found, "endpoints"),
        str(len(found.get("errors", ()))),
    ),
)

host = CommandGroup("host", help="Hosts of the cluster")


@click.command("ls", cls=Command, help="List hosts")
@flags.listing
@click.pass_obj
def _list(master: MasterConnection) -> None:
    found = master.client().hosts()
    master.show_list(found, _FORMAT)


@click.command(
    "inspect", cls=Command, help="Inspect a host", words=("host",), wrong_words=_NAME_REQUIRED
)
@flags.inspection
@click.pass_obj
def _inspect(master: MasterConnection, host: str) -> None:
    master.show_object(master.client().host(host))


@click.command("applied", cls=Command, help="Say whether hosts have applied all that was changed")
@click.option(
    "-w", "--wait", type=float, default=0.0, show_default=True, help="Seconds to wait until they do"
)
@click.pass_obj
def _applied(master: MasterConnection, *, wait: float) -> None:
    if not wait >= 0:
        raise misuse("Seconds to wait must not be negative")
    with waiting():
        found = wait_until_applied(master.client(), wait)
    late = [host for host in found if not host.get("applied")]
    click.echo(f"applied on {len(found) - len(late)} of {len(found)} hosts")
    for host in late:
        click.echo(f"{text(host, 'label')}: {_reason(host)}")
    if not _all_applied(found):
        raise CommandFailed("", BEHIND)


@click.command(
    "drain",
    cls=Command,
    help="Give a host no new endpoints; those it has stay",
    words=("host",),
    wrong_words=_NAME_REQUIRED,
)
@switch("--undo", help_text="Let the host have new endpoints again")
@click.pass_obj
def _drain(master: MasterConnection, host: str, *, undo: bool) -> None:
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
def _remove(master: MasterConnection, host: str, *, force: bool) -> None:
    click.echo(f"Deleting host {host}")
    master.client().remove_host(host, force=force)


def wait_until_applied(
    client: "RestClient", wait: float, *, interval: float = POLL_INTERVAL
) -> list[Json]:
    """Return the hosts once all have applied all changes, at the latest after `wait` seconds.

    While no agent is registered one may be starting: it is waited for.
    """
    end = time.monotonic() + wait
    while True:
        found = client.hosts()
        settled = any(host.get("registered") for host in found) and _all_applied(found)
        if settled or time.monotonic() >= end:
            return found
        time.sleep(interval)


def _all_applied(hosts: list[Json]) -> bool:
    """Return whether all hosts with a registered agent have applied all changes."""
    # A host without an agent cannot apply anything; to wait for it would never end.
    return all(host.get("applied") for host in hosts if host.get("registered"))


def _reason(found: Json) -> str:
    return "; ".join([text(found, "behind"), *map(str, found.get("errors", ()))])


def _agent(found: Json) -> str:
    if found.get("registered"):
        return "registered"
    return f"none since {moment(found, 'missingSince')}" if "missingSince" in found else "none"


def _version(found: Json) -> str:
    master = text(found, "masterVersion")
    return f"{text(found, 'version')} (netmaster {master})" if master else text(found, "version")


def _yes_or_no(found: Json, name: str) -> str:
    return "yes" if found.get(name) else "no"


host.add(_list, "list")
host.add(_inspect)
host.add(_applied)
host.add(_drain)
host.add(_remove, "delete")
