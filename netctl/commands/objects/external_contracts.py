"""`netctl external-contracts`: contracts of the ACI fabric that groups provide or consume."""

import click

from netctl.commandline import Command, CommandGroup, switch
from netctl.commands import flags
from netctl.commands.objects.tenancy import list_of_tenant
from netctl.connection import MasterConnection
from netctl.failure import HELP, CommandFailed
from netctl.render import ListFormat, bracketed, text

_NAME_REQUIRED = "Contracts group name required"
_FORMAT = ListFormat(
    header=("Tenant", "Name", "", "Type", "", "Contracts"),
    rule=("------", "------", "", "------", "", "-------"),
    name="contractsGroupName",
    # One cell less than the header, as in the original.
    row=lambda found: (
        text(found, "tenantName"),
        text(found, "contractsGroupName"),
        "",
        text(found, "contractsType"),
        bracketed(found, "contracts"),
    ),
)

external_contracts = CommandGroup("external-contracts", help="External contracts")


@click.command("ls", cls=Command, help="List external contracts")
@flags.all_items
@flags.listing
@flags.tenant
@click.pass_obj
def _list(master: MasterConnection, tenant: str, *, all_items: bool) -> None:
    found = list_of_tenant(master.client(), "extContractsGroups", tenant, all_items=all_items)
    master.show_list(found, _FORMAT)


@click.command(
    "rm",
    cls=Command,
    help="Delete external contracts",
    words=("external-contracts",),
    wrong_words=_NAME_REQUIRED,
)
@flags.tenant
@flags.what_if
@click.pass_obj
def _remove(master: MasterConnection, tenant: str, external_contracts: str) -> None:
    master.say(f"Deleting external contracts group {external_contracts} in tenant {tenant}")
    master.client().delete("extContractsGroups", f"{tenant}:{external_contracts}")


@click.command(
    "create",
    cls=Command,
    help="Create external contracts",
    words=("external-contracts",),
    wrong_words=_NAME_REQUIRED,
)
@flags.tenant
@switch("-c", "--consumed", help_text="External contracts type - consumed")
@switch("-p", "--provided", help_text="External contracts type - provided")
@click.option("-a", "--contract", multiple=True, help="Contract; may be given several times")
@flags.what_if
@flags.if_absent
@click.pass_obj
def _create(
    master: MasterConnection,
    *,
    tenant: str,
    external_contracts: str,
    consumed: bool,
    provided: bool,
    contract: tuple[str, ...],
) -> None:
    if provided and consumed:
        raise CommandFailed("Cannot use both provided and consumed", HELP)
    if not (provided or consumed):
        raise CommandFailed("Either provided or consumed must be specified", HELP)
    if not contract:
        raise CommandFailed("Contracts not provided", HELP)
    key = f"{tenant}:{external_contracts}"
    body = {
        "tenantName": tenant,
        "contractsGroupName": external_contracts,
        "contractsType": "provided" if provided else "consumed",
        "contracts": contract,
    }
    master.create("extContractsGroups", key, body, f"Creating ExternalContracts {key}")


external_contracts.add(_list, "list")
external_contracts.add(_remove, "delete")
external_contracts.add(_create)
