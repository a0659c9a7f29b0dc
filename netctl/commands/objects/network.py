"""`netctl network`: subnets with an encapsulation."""

import click

from netctl.commandline import Command, CommandGroup, misuse
from netctl.commands import flags
from netctl.commands.objects.addresses import is_ipv4, is_ipv6
from netctl.commands.objects.tenancy import TenantResource
from netctl.connection import MasterConnection
from netctl.render import Json, ListFormat, Row, text

_NAME_REQUIRED = "Network name required"


def _row(found: Json) -> Row:
    return (
        text(found, "tenantName"),
        text(found, "networkName"),
        text(found, "nwType"),
        text(found, "encap"),
        str(found.get("pktTag", 0)),
        text(found, "subnet"),
        text(found, "gateway"),
        text(found, "ipv6Subnet"),
        text(found, "ipv6Gateway"),
        text(found, "cfgdTag"),
    )


_RESOURCE = TenantResource(
    plural="networks",
    word="network",
    name_required=_NAME_REQUIRED,
    list_format=ListFormat(
        header=(
            "Tenant",
            "Network",
            "Nw Type",
            "Encap type",
            "Packet tag",
            "Subnet",
            "Gateway",
            "IPv6Subnet",
            "IPv6Gateway",
            "Cfgd Tag ",
        ),
        rule=(
            "------",
            "-------",
            "-------",
            "----------",
            "----------",
            "-------",
            "------",
            "----------",
            "-----------",
            "---------",
        ),
        name="networkName",
        row=_row,
        wide=(("Granted tag", "grantedTag"), ("Endpoints", "numEndpoints")),
    ),
    state=lambda oper: {
        "grantedTag": oper.get("pktTag", ""),
        "numEndpoints": oper.get("numEndpoints", 0),
    },
)

network = CommandGroup("network", help="Network manipulation tools")


@click.command(
    "create", cls=Command, help="Create a network", words=("network",), wrong_words=_NAME_REQUIRED
)
@flags.tenant
@click.option(
    "-n", "--nw-type", default="data", show_default=True, help="Network Type (infra or data)"
)
@click.option(
    "-e", "--encap", default="vxlan", show_default=True, help="Encap type (vlan or vxlan)"
)
@click.option(
    "-p",
    "--pkt-tag",
    type=flags.INTEGER,
    default=0,
    show_default=True,
    help="Packet tag (Vlan ID/VNI)",
)
@click.option("-s", "--subnet", default="", help="Subnet CIDR - REQUIRED, or one of IPv6")
@click.option("-g", "--gateway", default="", help="Gateway")
@click.option("-s6", "--subnetv6", default="", help="IPv6 Subnet CIDR")
@click.option("-g6", "--gatewayv6", default="", help="IPv6 Gateway")
@click.option("--first-family", default="", help="Family of a pod's first address: ipv4 or ipv6")
@click.option("-tag", "--nw-tag", default="", help="Configured Network Tag")
@flags.exclude
@flags.what_if
@flags.if_absent
@click.pass_obj
def _create(
    master: MasterConnection,
    *,
    tenant: str,
    network: str,
    nw_type: str,
    encap: str,
    pkt_tag: int,
    subnet: str,
    gateway: str,
    subnetv6: str,
    gatewayv6: str,
    first_family: str,
    nw_tag: str,
    exclude: tuple[str, ...],
) -> None:
    if not (subnet or subnetv6):
        raise misuse("Subnet is required")
    if gateway and not is_ipv4(gateway):
        raise misuse("Invalid gateway - Enter in A.B.C.D format")
    if gatewayv6 and not is_ipv6(gatewayv6):
        raise misuse("Invalid IPv6 gateway ")
    body = {
        "tenantName": tenant,
        "networkName": network,
        "nwType": nw_type,
        "encap": encap,
        "pktTag": pkt_tag,
        "subnet": subnet,
        "gateway": gateway,
        "ipv6Subnet": subnetv6,
        "ipv6Gateway": gatewayv6,
        **({"firstFamily": first_family} if first_family else {}),
        "cfgdTag": nw_tag,
        **({"exclude": exclude} if exclude else {}),
    }
    master.create("networks", f"{tenant}:{network}", body, f"Creating network {tenant}:{network}")


network.add(_RESOURCE.lister("List networks"), "list")
network.add(_RESOURCE.inspector("Inspect a Network"))
network.add(_RESOURCE.remover("Delete a network", saying="Deleting network"), "delete")
network.add(_create)
network.add(_RESOURCE.excluder("Change which addresses of a network nobody is given"))
