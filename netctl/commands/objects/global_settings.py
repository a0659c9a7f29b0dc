"""`netctl global`: settings of the whole cluster."""

import click

from netctl.commandline import Command, CommandGroup
from netctl.commands import flags
from netctl.commands.objects.settings import info_command
from netctl.connection import MasterConnection

_KEY = "global"
_LINES = (
    ("Fabric mode: ", "networkInfraType"),
    ("Forward mode: ", "fwdMode"),
    ("ARP mode: ", "arpMode"),
    ("Vlan Range: ", "vlans"),
    ("Vxlan range: ", "vxlans"),
    ("Private subnet: ", "pvtSubnet"),
)

global_settings = CommandGroup("global", help="Global information")


@click.command("inspect", cls=Command, help="Inspect Global Operational Information")
@flags.inspection
@click.pass_obj
def _inspect(master: MasterConnection) -> None:
    master.show_object(master.client().inspect("globals", _KEY))


@click.command("set", cls=Command, help="Set global parameters", words=None)
@click.option("-f", "--fabric-mode", default="", help="Fabric mode (aci, aci-opflex or default)")
@click.option("-v", "--vlan-range", default="", help="Allowed Vlan id range")
@click.option("-x", "--vxlan-range", default="", help="Allowed Vxlan VNID range")
@click.option("-b", "--fwd-mode", default="", help="forwarding mode (bridge,routing)")
@click.option("-a", "--arp-mode", default="", help="arp mode (proxy,flood)")
@click.option(
    "-s", "--private-subnet", default="", help="Select a /16 private subnet for host access"
)
@flags.what_if
@click.pass_obj
def _set(
    master: MasterConnection,
    *,
    fabric_mode: str,
    vlan_range: str,
    vxlan_range: str,
    fwd_mode: str,
    arp_mode: str,
    private_subnet: str,
) -> None:
    given = {
        "networkInfraType": fabric_mode,
        "vlans": vlan_range,
        "vxlans": vxlan_range,
        "fwdMode": fwd_mode,
        "arpMode": arp_mode,
        "pvtSubnet": private_subnet,
    }
    client = master.client()
    current = client.read("globals", _KEY)
    client.write("globals", _KEY, current | {name: value for name, value in given.items() if value})


global_settings.add(info_command("Show global information", "globals", _LINES))
global_settings.add(_inspect)
global_settings.add(_set)
