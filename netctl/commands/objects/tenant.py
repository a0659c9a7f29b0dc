"""`netctl tenant`: namespaces for networks and groups."""

import click

from netctl.commandline import Command, CommandGroup
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.render import ListFormat, text

_NAME_REQUIRED = "Tenant name required"
_FORMAT = ListFormat(
    header=("Name", ""),
    rule=("------", ""),
    name="tenantName",
    row=lambda found: (text(found, "tenantName"), ""),
)

tenant = CommandGroup("tenant", help="Tenant manipulation tools")


@click.command("ls", cls=Command, help="List tenants")
@flags.listing
@click.pass_obj
def _list(master: MasterConnection) -> None:
    found = master.client().list_all("tenants")
    master.show_list(found, _FORMAT)


@click.command(
    "rm", cls=Command, help="Delete a tenant", words=("tenant",), wrong_words=_NAME_REQUIRED
)
@flags.what_if
@click.pass_obj
def _remove(master: MasterConnection, tenant: str) -> None:
    master.say(f"Deleting tenant {tenant}")
    master.client().delete("tenants", tenant)


@click.command(
    "create", cls=Command, help="Create a tenant", words=("tenant",), wrong_words=_NAME_REQUIRED
)
@click.option(
    "--network-prefix",
    multiple=True,
    help="Prefix in which its operators may create networks; may be repeated",
)
@click.option(
    "--address-quota", type=int, default=0, help="Addresses that its networks may have, 0 for any"
)
@flags.what_if
@flags.if_absent
@click.pass_obj
def _create(
    master: MasterConnection, tenant: str, *, network_prefix: tuple[str, ...], address_quota: int
) -> None:
    limits: dict[str, object] = {}
    if network_prefix:
        limits["networkPrefixes"] = list(network_prefix)
    if address_quota:
        limits["addressQuota"] = address_quota
    master.create("tenants", tenant, {"tenantName": tenant, **limits}, f"Creating tenant: {tenant}")


@click.command(
    "inspect", cls=Command, help="Inspect a tenant", words=("tenant",), wrong_words=_NAME_REQUIRED
)
@flags.inspection
@click.pass_obj
def _inspect(master: MasterConnection, tenant: str) -> None:
    master.show_object(master.client().inspect("tenants", tenant))


tenant.add(_list, "list")
tenant.add(_remove, "delete")
tenant.add(_create)
tenant.add(_inspect)
