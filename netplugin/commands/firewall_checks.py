"""The check of `netplugin preflight` for firewalls of the host that drop what an agent needs.

In come the agent's settings; the checks read rules of iptables and tables of nftables. What the
host forwards for pods the agent has accepted by rules of its own
(`netplugin.bridges.host.host_access`), but for chains on the way that are not its own. Next is
`netplugin.commands.findings`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from netplugin.bridges.host import forward_check
from netplugin.commands.findings import Note
from netplugin.kernel.firewall import iptables
from netplugin.kernel.firewall.foreign_chains import FIREWALLD, in_the_way
from netplugin.kernel.firewall.foreign_rules import refusals
from netplugin.kernel.firewall.iptables import Chain
from netplugin.settings import AgentSettings
from netplugin.world.bridges.port_names import HOST_LINKS

INPUT: Final = "INPUT"
REMEDY: Final = (
    "let other hosts reach UDP 4789 (--vxlan-port), netmaster and other agents the ports of "
    "--rest-address, --vxlan-rpc-port and --vlan-rpc-port (docs/platforms.md has rules for each "
    "firewall); what this host forwards the agent accepts by itself"
)

_REFUSAL: Final = re.compile(
    r"-P INPUT DROP$|-A INPUT (-m comment --comment \S+ )?-j (DROP|REJECT)"
)
_JUMP: Final = re.compile(r" -[jg] (?!ACCEPT|DROP|REJECT|RETURN|LOG|CONTIV)(\S+)")
_PORTS: Final = re.compile(r" --dports? (\S+)")
_NARROW: Final = re.compile(r" -i lo\b| --ctstate | --state | --icmp")
"""What makes a rule without ports none that accepts a new connection of another host."""


@dataclass(frozen=True, slots=True)
class FirewallPort:
    """A port of this host that others must reach."""

    protocol: str
    number: int

    def __str__(self) -> str:
        return f"{self.protocol.upper()} {self.number}"


def needed(wanted: AgentSettings) -> list[FirewallPort]:
    """Return the ports that other hosts and masters must reach; 0 is none that can be named."""
    numbers = (wanted.rest.port, wanted.vxlan_rpc_port, wanted.vlan_rpc_port)
    ports = [
        FirewallPort("udp", wanted.vxlan_port),
        *(FirewallPort("tcp", number) for number in numbers),
    ]
    return [port for port in ports if port.number]


async def firewall(wanted: AgentSettings) -> str | Note:
    """Check that no firewall drops what pods send by this host, or what other hosts send to it."""
    versions = sorted({one.version for one in (wanted.ctrl_ip, *wanted.vtep_ips)})
    for found in await refusals([*forward_check.ways((), versions)], HOST_LINKS):
        return Note(forward_check.fault(found))
    ports = needed(wanted)
    text = ", ".join(map(str, ports))
    for chain in await in_the_way("input", [str(port.number) for port in ports]):
        how = ""
        if chain.table == FIREWALLD:
            opened = " ".join(f"--add-port={port.number}/{port.protocol}" for port in ports)
            how = f": firewall-cmd --permanent {opened} && firewall-cmd --reload"
        return Note(f"table {chain.family} {chain.table} may drop {text}{how}")
    for version in versions:
        if refused := refused_ports(await _listed(version), ports):
            text = ", ".join(map(str, refused))
            program = "iptables" if version == 4 else "ip6tables"
            return Note(f"{program} drops what no rule of INPUT accepts, and none accepts {text}")
    return "no firewall drops what pods, tunnels and masters need"


async def _listed(version: int) -> list[str]:
    """Return the rules of INPUT and of the chains that it leads to, such as those of ufw."""
    listed: list[str] = []
    waiting, seen = [INPUT], {INPUT}
    while waiting:
        chain = Chain(table="filter", name=waiting.pop(), version=version)
        lines = (await iptables.rules(chain)).splitlines()
        listed += lines
        led = {match[1] for line in lines if (match := _JUMP.search(line))} - seen
        seen |= led
        waiting += sorted(led)
    return listed


def refused_ports(listed: Iterable[str], ports: Iterable[FirewallPort]) -> list[FirewallPort]:
    """Return the ports that no rule accepts, if the chain INPUT refuses what is left at its end."""
    lines = [*listed]
    if not any(_REFUSAL.match(line) for line in lines):
        return []
    accepting = [line for line in lines if " -j ACCEPT" in line]
    return [port for port in ports if not any(_accepts(line, port) for line in accepting)]


def _accepts(line: str, port: FirewallPort) -> bool:
    if " -p " in line and f" -p {port.protocol} " not in line:
        return False
    if (named := _PORTS.search(line)) is None:
        return _NARROW.search(line) is None
    ranges = (part.partition(":")[::2] for part in named[1].split(","))
    return any(int(first) <= port.number <= int(last or first) for first, last in ranges)
