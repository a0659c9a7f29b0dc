"""`netctl netprofile`: bandwidth, DSCP and burst for groups."""

import re

import click

from netctl.commandline import Command, CommandGroup
from netctl.commands import flags
from netctl.commands.objects.tenancy import TenantResource
from netctl.connection import MasterConnection
from netctl.render import Json, ListFormat, Row, text

_NAME_REQUIRED = "Net profile name required"
_UNITS = (("g", "Gbps"), ("m", "Mbps"), ("k", "Kbps"))


def _row(found: Json) -> Row:
    names = (text(found, "profileName"), text(found, "tenantName"))
    dscp = str(found.get("DSCP", 0))
    bandwidth = text(found, "bandwidth")
    if not bandwidth:
        return (*names, "", dscp)
    return (*names, _shortened(bandwidth), dscp, str(found.get("burst", 0)))


def _shortened(bandwidth: str) -> str:
    number = re.search(r"[0-9]+", bandwidth)
    unit = next((unit for letter, unit in _UNITS if letter in bandwidth.lower()), "")
    return f"{number[0] if number else ''}{unit}"


_RESOURCE = TenantResource(
    plural="netprofiles",
    word="netprofile",
    name_required=_NAME_REQUIRED,
    list_format=ListFormat(
        header=("Name", "Tenant", "Bandwidth", "DSCP", "burst size"),
        rule=("------", "------", "---------", "--------", "----------"),
        name="profileName",
        row=_row,
    ),
)

netprofile = CommandGroup("netprofile", help="Network profile manipulation tools")


@click.command(
    "create",
    cls=Command,
    help="Create a network profile",
    words=("netprofile",),
    wrong_words=_NAME_REQUIRED,
)
@flags.tenant
@click.option("-b", "--bandwidth", default="", help="Bandwidth (e.g., 10 kbps, 100 mbps, 1gbps)")
@click.option("-d", "--dscp", type=flags.INTEGER, default=0, show_default=True, help="DSCP")
@click.option(
    "-s",
    "--burst",
    type=flags.INTEGER,
    default=0,
    show_default=True,
    help="burst size(Must be in kilobytes)",
)
@flags.what_if
@flags.if_absent
@click.pass_obj
def _create(
    master: MasterConnection, *, tenant: str, netprofile: str, bandwidth: str, dscp: int, burst: int
) -> None:
    body = {
        "tenantName": tenant,
        "profileName": netprofile,
        "bandwidth": bandwidth,
        "DSCP": dscp,
        "burst": burst,
    }
    master.create(
        "netprofiles", f"{tenant}:{netprofile}", body, f"Creating netprofile {tenant}:{netprofile}"
    )


netprofile.add(_create)
netprofile.add(_RESOURCE.remover("Delete a network profile"), "delete")
netprofile.add(_RESOURCE.lister("List network profile"), "list")
netprofile.add(_RESOURCE.inspector("inspect network profile"))
