"""`netctl bgp`: the BGP neighbour of each host."""

import click

from netctl.commandline import Command, CommandGroup, misuse
from netctl.commands import flags
from netctl.commands.objects.addresses import (
    is_interface4,
    is_interface6,
    is_ipv4,
    is_ipv6,
)
from netctl.connection import MasterConnection
from netctl.render import Json, ListFormat, text

_NAME_REQUIRED = "Host name required"


def _of_both(found: Json, ipv4: str, ipv6: str) -> str:
    """Return the addresses of both families that an object has, of which one may be missing."""
    return ",".join(filter(None, (text(found, ipv4), text(found, ipv6))))


_FORMAT = ListFormat(
    header=("HostName", "RouterIP", "AS", "Neighbor", "NeighborAS"),
    rule=("---------", "--------", "-------", "--------", "-------"),
    name="hostname",
    row=lambda found: (
        text(found, "hostname"),
        _of_both(found, "routerip", "routerIpv6"),
        text(found, "as"),
        _of_both(found, "neighbor", "neighborIpv6"),
        text(found, "neighbor-as"),
    ),
)

bgp = CommandGroup("bgp", help="router capability configuration")


@click.command("ls", cls=Command, help="List BGP configuration")
@flags.listing
@click.pass_obj
def _list(master: MasterConnection) -> None:
    found = master.client().list_all("Bgps")
    master.show_list(found, _FORMAT)


@click.command(
    "rm",
    cls=Command,
    help="Delete BGP configuration",
    words=("hostname",),
    wrong_words=_NAME_REQUIRED,
)
@flags.what_if
@click.pass_obj
def _remove(master: MasterConnection, hostname: str) -> None:
    master.say(f"Deleting Bgp router config: {hostname}")
    master.client().delete("Bgps", hostname)


@click.command(
    "create",
    cls=Command,
    help="Add BGP configuration.",
    words=("hostname",),
    wrong_words=_NAME_REQUIRED,
)
@click.option("--router-ip", default="", help="BGP my-router ip ")
@click.option("--as", "own_as", default="", help="Self AS id")
@click.option("--neighbor-as", default="", help="BGP neighbor AS id")
@click.option("--neighbor", default="", help="BGP neighbor to be added")
@click.option("--router-ipv6", default="", help="IPv6 address of my-router, with its length")
@click.option("--neighbor-ipv6", default="", help="BGP neighbor of a session by IPv6")
@flags.what_if
@flags.if_absent
@click.pass_obj
def _create(
    master: MasterConnection,
    *,
    hostname: str,
    router_ip: str,
    own_as: str,
    neighbor_as: str,
    neighbor: str,
    router_ipv6: str,
    neighbor_ipv6: str,
) -> None:
    if router_ipv6 and not is_interface6(router_ipv6):
        raise misuse("Wrong CIDR format. Enter in x:x::x/len format")
    if neighbor_ipv6 and not is_ipv6(neighbor_ipv6):
        raise misuse("Wrong IP format. Enter in x:x::x format")
    if not (is_interface4(router_ip) or (router_ipv6 and not router_ip)):
        raise misuse("Wrong CIDR format. Enter in x.x.x.x/len format")
    if not (is_ipv4(neighbor) or (neighbor_ipv6 and not neighbor)):
        raise misuse("Wrong IP format. Enter in x.x.x.x format")
    if not (own_as and neighbor_as):
        raise misuse("Missing attributes")
    body = {
        "hostname": hostname,
        "routerip": router_ip,
        "as": own_as,
        "neighbor": neighbor,
        "neighbor-as": neighbor_as,
        **({"routerIpv6": router_ipv6} if router_ipv6 else {}),
        **({"neighborIpv6": neighbor_ipv6} if neighbor_ipv6 else {}),
    }
    master.create("Bgps", hostname, body)


@click.command(
    "inspect", cls=Command, help="Inspect Bgp", words=("hostname",), wrong_words=_NAME_REQUIRED
)
@flags.inspection
@click.pass_obj
def _inspect(master: MasterConnection, hostname: str) -> None:
    master.show_object(master.client().inspect("Bgps", hostname))


bgp.add(_list, "list")
bgp.add(_remove, "delete")
bgp.add(_create)
bgp.add(_inspect)
