"""`netctl group`: endpoint groups of a network."""

import click

from netctl.commandline import Command, CommandGroup
from netctl.commands import flags
from netctl.commands.objects.tenancy import TenantResource
from netctl.connection import MasterConnection
from netctl.render import ListFormat, text

_NAME_REQUIRED = "EndpointGroup name required"
_RESOURCE = TenantResource(
    plural="endpointGroups",
    word="group",
    name_required=_NAME_REQUIRED,
    list_format=ListFormat(
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
@flags.exclude
@flags.what_if
@flags.if_absent
@click.pass_obj
def _create(
    master: MasterConnection,
    *,
    tenant: str,
    network: str,
    group: str,
    policy: tuple[str, ...],
    networkprofile: str,
    external_contract: tuple[str, ...],
    ip_pool: str,
    epg_tag: str,
    exclude: tuple[str, ...],
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
        **({"exclude": exclude} if exclude else {}),
    }
    master.create(
        "endpointGroups", f"{tenant}:{group}", body, f"Creating EndpointGroup {tenant}:{group}"
    )


group.add(_create)
group.add(_RESOURCE.excluder("Change which addresses endpoints of a group are not given"))
group.add(_RESOURCE.inspector("Inspect a EndpointGroup"))
group.add(_RESOURCE.remover("Delete an endpoint group"), "delete")
group.add(_RESOURCE.lister("List endpoint groups"), "list")
