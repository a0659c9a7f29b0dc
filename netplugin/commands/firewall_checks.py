"""The checks of `netplugin preflight` for firewalls of the host that drop what an agent needs.

In come the agent's settings; the checks read rules of iptables and tables of nftables. What the
host forwards for pods the agent has accepted by rules of its own (`netplugin.bridges.host_access`),
but for firewalls in tables of their own. Next is `netplugin.commands.findings`.
"""

import re
from collections.abc import Iterable
from typing import Final

from netplugin.bridges import host_access
from netplugin.commands.findings import Note
from netplugin.kernel import iptables
from netplugin.kernel.foreign_chains import FIREWALLD, in_the_way
from netplugin.kernel.iptables import Chain
from netplugin.settings import Settings
from netplugin.world.port_names import HOST_LINKS

INPUT: Final = Chain(table="filter", name="INPUT")
REMEDY: Final = (
    "let other hosts reach UDP 4789 (--vxlan-port), netmaster and other agents the ports of "
    "--rest-address and --vxlan-rpc-port; what this host forwards the agent accepts by itself"
)

_REFUSAL: Final = re.compile(
    r"-P INPUT DROP$|-A INPUT (-m comment --comment \S+ )?-j (DROP|REJECT)"
)


async def firewall(wanted: Settings) -> str | Note:
    """Check that no firewall drops what pods send by this host, or tunnels from other hosts."""
    for chain in await in_the_way("forward", HOST_LINKS):
        return Note(host_access.forward_fault(chain))
    port = wanted.vxlan_port
    listed = (await iptables.rules(INPUT)).splitlines()
    for chain in await in_the_way("input", (str(port),)):
        how = ""
        if chain.table == FIREWALLD:
            how = f": firewall-cmd --permanent --add-port={port}/udp && firewall-cmd --reload"
        return Note(f"table {chain.family} {chain.table} may drop tunnels (UDP {port}){how}")
    if refuses_tunnels(listed, port):
        return Note(
            f"iptables drops what no rule of INPUT accepts, and none names tunnels (UDP {port})"
        )
    return "no firewall drops what pods and tunnels need"


def refuses_tunnels(listed: Iterable[str], port: int) -> bool:
    """Return whether the chain INPUT refuses what none of its rules names, and none a port."""
    lines = [*listed]
    named = any(re.search(rf"--dports? \S*\b{port}\b", line) for line in lines)
    return not named and any(_REFUSAL.match(line) for line in lines)
