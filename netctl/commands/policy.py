"""`netctl policy`: policies and their rules. The rules' own commands are in `rule`."""

import click

from netctl.commandline import Command, CommandGroup
from netctl.commands import flags, rule
from netctl.commands.tenancy import of_tenant
from netctl.connection import Master
from netctl.render import Listing, indented, text

_NAME_REQUIRED = "Policy name required"
_LISTING = Listing(
    header=("Tenant", "Policy"),
    rule=("------", "------"),
    name="policyName",
    row=lambda found: (text(found, "tenantName"), text(found, "policyName")),
)

policy = CommandGroup("policy", help="Policy manipulation tools")


@click.command(
    "create", cls=Command, help="Create a new policy", words=("policy",), wrong_words=_NAME_REQUIRED
)
@flags.tenant
@click.pass_obj
def _create(master: Master, tenant: str, policy: str) -> None:
    body = {"tenantName": tenant, "policyName": policy}
    master.client().write("policys", f"{tenant}:{policy}", body)
    click.echo(f"Creating policy {tenant}:{policy}")


@click.command(
    "rm", cls=Command, help="Delete a policy", words=("policy",), wrong_words=_NAME_REQUIRED
)
@flags.tenant
@click.pass_obj
def _remove(master: Master, tenant: str, policy: str) -> None:
    click.echo(f"Deleting policy {tenant}:{policy}")
    master.client().delete("policys", f"{tenant}:{policy}")


@click.command("ls", cls=Command, help="List policies")
@flags.tenant
@flags.all_items
@flags.as_json
@flags.quiet
@click.pass_obj
def _list(master: Master, tenant: str, *, all_items: bool, as_json: bool, quiet: bool) -> None:
    found = of_tenant(master.client(), "policys", tenant, all_items=all_items)
    click.echo(_LISTING.show(found, as_json=as_json, quiet=quiet), nl=False)


@click.command(
    "inspect", cls=Command, help="Inspect a policy", words=("policy",), wrong_words=_NAME_REQUIRED
)
@flags.tenant
@click.pass_obj
def _inspect(master: Master, tenant: str, policy: str) -> None:
    found = master.client().inspect("policys", f"{tenant}:{policy}")
    click.echo(indented(found), nl=False)


policy.add(_create)
policy.add(_remove, "delete")
policy.add(_list, "list")
policy.add(_inspect)
policy.add(rule.list_rules)
policy.add(rule.remove)
policy.add(rule.add)
