"""`netctl group`: endpoint groups of a network."""

import click

from netctl.commandline import Command, CommandGroup
from netctl.commands import flags
from netctl.commands.tenancy import of_tenant
from netctl.connection import Master
from netctl.render import Listing, indented, text

_NAME_REQUIRED = "EndpointGroup name required"
_LISTING = Listing(
    header=("Tenant", "Group", "Network", "IP Pool", "CfgdTag", "Policies", "Network profile"),
    rule=("------", "-----", "-------", "-------", "-------", "--------", "---------------"),
    name="groupName",
    row=lambda found: (
        text(found, "tenantName"),
        text(found, "groupName"),
        text(found, "networkName"),
        text(found, "ipPool"),
        text(found, "cfgdTag"),
        text(found, "policies"),
        text(found, "netProfile"),
    ),
)

group = CommandGroup("group", help="Endpoint Group manipulation tools")


@click.command(
    "create",
    cls=Command,
    help="Create an endpoint group",
    words=("network", "group"),
    wrong_words="Network and group name required",
)
@flags.tenant
@click.option("-p", "--policy", multiple=True, help="Policy; may be given several times")
@click.option("-n", "--networkprofile", default="", help="network profile")
@click.option(
    "-e",
    "--external-contract",
    multiple=True,
    help="External contract; may be given several times",
)
@click.option("-r", "--ip-pool", default="", help="IP Address range, example 10.36.0.1-10.36.0.10")
@click.option("-tag", "--epg-tag", default="", help="Configured Group Tag")
@click.pass_obj
def _create(
    master: Master,
    *,
    tenant: str,
    network: str,
    group: str,
    policy: tuple[str, ...],
    networkprofile: str,
    external_contract: tuple[str, ...],
    ip_pool: str,
    epg_tag: str,
) -> None:
    body = {
        "tenantName": tenant,
        "networkName": network,
        "groupName": group,
        "policies": policy,
        "netProfile": networkprofile,
        "extContractsGrps": external_contract,
        "ipPool": ip_pool,
        "cfgdTag": epg_tag,
    }
    master.client().write("endpointGroups", f"{tenant}:{group}", body)
    click.echo(f"Creating EndpointGroup {tenant}:{group}")


@click.command(
    "inspect",
    cls=Command,
    help="Inspect a EndpointGroup",
    words=("group",),
    wrong_words=_NAME_REQUIRED,
)
@flags.tenant
@click.pass_obj
def _inspect(master: Master, tenant: str, group: str) -> None:
    found = master.client().inspect("endpointGroups", f"{tenant}:{group}")
    click.echo(indented(found), nl=False)


@click.command(
    "rm", cls=Command, help="Delete an endpoint group", words=("group",), wrong_words=_NAME_REQUIRED
)
@flags.tenant
@click.pass_obj
def _remove(master: Master, tenant: str, group: str) -> None:
    master.client().delete("endpointGroups", f"{tenant}:{group}")


@click.command("ls", cls=Command, help="List endpoint groups")
@flags.tenant
@flags.all_items
@flags.as_json
@flags.quiet
@click.pass_obj
def _list(master: Master, tenant: str, *, all_items: bool, as_json: bool, quiet: bool) -> None:
    found = of_tenant(master.client(), "endpointGroups", tenant, all_items=all_items)
    click.echo(_LISTING.show(found, as_json=as_json, quiet=quiet), nl=False)


group.add(_create)
group.add(_inspect)
group.add(_remove, "delete")
group.add(_list, "list")
