"""`netctl aci-gw`: settings of the ACI gateway."""

import click

from netctl.commandline import Command, CommandGroup
from netctl.commands import flags
from netctl.commands.objects.settings import info_command
from netctl.connection import MasterConnection

_KEY = "aciGw"
_LINES = (
    ("Path bindings: ", "pathBindings"),
    ("Node bindings: ", "nodeBindings"),
    ("Physical domain: ", "physicalDomain"),
    ("Enforce policies: ", "enforcePolicies"),
    ("Include Common-Tenant: ", "includeCommonTenant"),
)

aci_gw = CommandGroup("aci-gw", help="ACI Gateway information")


@click.command("inspect", cls=Command, help="Inspect aci gateway operational information")
@flags.inspection
@click.pass_obj
def _inspect(master: MasterConnection) -> None:
    master.show_object(master.client().inspect("aciGws", _KEY))


@click.command("set", cls=Command, help="Set aci-gw parameters", words=None)
@click.option(
    "-p",
    "--path-bindings",
    default="",
    help="Blank or  Comma separated paths of the form topology/pod-1/paths-101/pathep-[eth1/14]",
)
@click.option(
    "-n",
    "--node-bindings",
    default="",
    help="Blank or  Comma separated nodes of the form topology/pod-1/node-101",
)
@click.option("-d", "--phys-dom", default="", help="ACI physical domain name (e.g. containerDom)")
@click.option(
    "-e",
    "--enforce-policies",
    default="yes",
    show_default=True,
    help="Should security policies be enforced (yes,no)",
)
@click.option(
    "-i",
    "--include-common-tenant",
    default="no",
    show_default=True,
    help="Should gateway look up objects in common tenant as well(yes,no)",
)
@flags.what_if
@click.pass_obj
def _set(
    master: MasterConnection,
    *,
    path_bindings: str,
    node_bindings: str,
    phys_dom: str,
    enforce_policies: str,
    include_common_tenant: str,
) -> None:
    # All settings are written, so the stored ones need not be read first.
    body = {
        "name": _KEY,
        "pathBindings": path_bindings,
        "nodeBindings": node_bindings,
        "physicalDomain": phys_dom,
        "enforcePolicies": enforce_policies,
        "includeCommonTenant": include_common_tenant,
    }
    master.client().write("aciGws", _KEY, body)


aci_gw.add(info_command("Show aci gateway information", "aciGws", _LINES))
aci_gw.add(_inspect)
aci_gw.add(_set)
