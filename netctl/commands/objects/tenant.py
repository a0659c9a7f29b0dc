"""`netctl tenant`: namespaces for networks and groups."""

import click

from netctl.commandline import Callback, Command, CommandGroup
from netctl.commands import flags
from netctl.connection import MasterConnection
from netctl.render import ListFormat, table, text

_NAME_REQUIRED = "Tenant name required"
_FIELDS = {
    "networks": "networkQuota",
    "groups": "groupQuota",
    "policies": "policyQuota",
    "rules": "ruleQuota",
    "endpoints": "endpointQuota",
    "addresses_in_use": "usedAddressQuota",
}
"""Fields of a tenant by the flags that set them."""
_FORMAT = ListFormat(
    header=("Name", ""),
    rule=("------", ""),
    name="tenantName",
    row=lambda found: (text(found, "tenantName"), ""),
)

tenant = CommandGroup("tenant", help="Tenant manipulation tools")


def _quota_flags(command: Callback) -> Callback:
    """Add a flag for each quota."""
    for name in reversed(_FIELDS):
        words = name.replace("_", " ")
        option = click.option(
            f"--{name.replace('_', '-')}",
            name,
            type=int,
            help=f"How many {words} it may have, 0 for any number",
        )
        command = option(command)
    return command


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
@_quota_flags
@flags.what_if
@flags.if_absent
@click.pass_obj
def _create(
    master: MasterConnection,
    /,
    tenant: str,
    *,
    network_prefix: tuple[str, ...],
    address_quota: int,
    **quotas: int | None,
) -> None:
    limits: dict[str, object] = {_FIELDS[name]: value for name, value in quotas.items() if value}
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


@click.command(
    "quota",
    cls=Command,
    help="Change how much a tenant may have, or show what it has and may have",
    words=("tenant",),
    wrong_words=_NAME_REQUIRED,
)
@_quota_flags
@flags.data
@flags.what_if
@click.pass_obj
def _quota(master: MasterConnection, /, tenant: str, **quotas: int | None) -> None:
    changed = {_FIELDS[name]: value for name, value in quotas.items() if value is not None}
    if changed:
        master.client().change("tenants", tenant, changed)
        return
    oper = master.client().inspect("tenants", tenant).get("Oper", {})
    found = oper.get("quotas", {})
    head = [("Of", "Used", "Allowed"), ("--", "----", "-------")]
    rows = [(what, str(one["used"]), str(one["allowed"])) for what, one in found.items()]
    master.show_data(found, lambda: table([*head, *rows]))


tenant.add(_quota)
tenant.add(_list, "list")
tenant.add(_remove, "delete")
tenant.add(_create)
tenant.add(_inspect)
