"""`netctl service`: services, a virtual address for endpoints selected by labels."""

import click

from netctl.commandline import Command, CommandGroup
from netctl.commands import flags
from netctl.commands.objects.tenancy import list_of_tenant
from netctl.connection import MasterConnection
from netctl.render import ListFormat, bracketed, text

_NAME_REQUIRED = "Service name required"
_FORMAT = ListFormat(
    header=("ServiceName", "Tenant", "Network", "Selectors"),
    rule=("---------", "--------", "-------", "-------"),
    name="serviceName",
    row=lambda found: (
        text(found, "serviceName"),
        text(found, "tenantName"),
        text(found, "networkName"),
        bracketed(found, "selectors"),
        "",
    ),
)
_DEFAULT_TENANT = "default"
_tenant = click.option("-t", "--tenant", default="", help="service tenant")

service = CommandGroup("service", help="Services: an address for the endpoints that labels select")


@click.command("ls", cls=Command, help="List service objects")
@flags.tenant
@flags.all_items
@flags.listing
@click.pass_obj
def _list(master: MasterConnection, tenant: str, *, all_items: bool) -> None:
    client = master.client()
    found = list_of_tenant(client, "serviceLBs", tenant or _DEFAULT_TENANT, all_items=all_items)
    master.show_list(found, _FORMAT)


@click.command(
    "inspect",
    cls=Command,
    help="Inspect a service",
    words=("servicename",),
    wrong_words="Service group name required",
)
@flags.tenant
@flags.inspection
@click.pass_obj
def _inspect(master: MasterConnection, tenant: str, servicename: str) -> None:
    found = master.client().inspect("serviceLBs", f"{tenant}:{servicename}")
    master.show_object(found)


@click.command(
    "rm",
    cls=Command,
    help="Delete service object",
    words=("servicename",),
    wrong_words=_NAME_REQUIRED,
)
@_tenant
@flags.what_if
@click.pass_obj
def _remove(master: MasterConnection, tenant: str, servicename: str) -> None:
    tenant = tenant or _DEFAULT_TENANT
    master.say(f"Deleting Service  {servicename},{tenant}")
    master.client().delete("serviceLBs", f"{tenant}:{servicename}")


@click.command(
    "create",
    cls=Command,
    help="Create a service",
    words=("servicename",),
    wrong_words=_NAME_REQUIRED,
)
@_tenant
@click.option("-s", "--network", default="", help="service network name")
@click.option(
    "-l",
    "--selector",
    multiple=True,
    help="service selector .Usage: --selector=key1=value1 --selector=key2=value2",
)
@click.option(
    "-p",
    "--port",
    multiple=True,
    help="service/provider Port Usage- --port=svcPort1:provPort1:protocol "
    "--port=svcPort2:provPort2:protocol",
)
@click.option("-ip", "--preferred-ip", default="", help="preferred ip address")
@flags.what_if
@flags.if_absent
@click.pass_obj
def _create(
    master: MasterConnection,
    *,
    tenant: str,
    servicename: str,
    network: str,
    selector: tuple[str, ...],
    port: tuple[str, ...],
    preferred_ip: str,
) -> None:
    tenant = tenant or _DEFAULT_TENANT
    body = {
        "tenantName": tenant,
        "serviceName": servicename,
        "networkName": network,
        "selectors": selector,
        "ports": port,
        "ipAddress": preferred_ip,
    }
    master.create(
        "serviceLBs", f"{tenant}:{servicename}", body, f"Creating ServiceLB {tenant}:{servicename}"
    )


service.add(_list, "list")
service.add(_inspect)
service.add(_remove, "delete")
service.add(_create)
