"""The check of `netplugin preflight` for a second speaker of ARP on the tunnels' bridge.

In come the agent's settings; the check reads the bridge's ports from OVSDB, and MAC addresses and
`arp_ignore` from the kernel. Next is `netplugin.commands.findings`.
"""

# With the userspace datapath the address of --vtep-ip is on a bridge, and a card is the bridge's
# port. The kernel receives the card's packets too. By default it answers ARP requests that arrive
# at any card for any address of the host, so that a request for the bridge's address has two
# answers: the bridge's MAC, and the card's. A peer that keeps the card's sends its tunnel packets
# there, and Open vSwitch decapsulates only what is sent to its bridge's MAC. The kernel's datapath
# takes packets from the card before the kernel sees them.

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.errors import HostError
from netplugin.commands.switch_state import switch_state
from netplugin.kernel.netns import KernelLinks
from netplugin.ovsdb import PortRow
from netplugin.settings import AgentSettings

ARP_REMEDY: Final = (
    "sysctl net.ipv4.conf.CARD.arp_ignore=1, also after a reboot; or give the bridge the card's "
    "MAC: ovs-vsctl set bridge BRIDGE other-config:hwaddr=MAC"
)

_CONF: Final = Path("/proc/sys/net/ipv4/conf")


@dataclass(frozen=True, slots=True)
class BridgeCard:
    """A card of a bridge: its MAC, and the `arp_ignore` in force for it (ip-sysctl)."""

    name: str
    mac: str
    arp_ignore: int


def arp_fault(bridge: str, mac: str, cards: Iterable[BridgeCard]) -> str | None:
    """Return why peers may send tunnel packets to a card instead of the bridge; None if not."""
    for card in cards:
        if not card.arp_ignore and card.mac != mac:
            return (
                f"card {card.name} of bridge {bridge} answers ARP for the bridge's address with "
                f"its own MAC {card.mac}, since its arp_ignore is 0: Open vSwitch drops the tunnel "
                f"packets that peers then send there; the bridge has {mac}"
            )
    return None


async def neighbours(wanted: AgentSettings) -> str:
    """Check that only the bridge answers ARP for the tunnels' address. Raises HostError."""
    with closing(KernelLinks()) as links:
        if await links.has_kernel_datapath():
            return "the kernel's datapath takes packets before the kernel answers ARP"
        four = next((one for one in wanted.vtep_ips if one.version == 4), None)
        if four is None:
            return "the kernel answers neighbour discovery only for addresses of the link it is on"
        holder = await links.holder(four)
        ports = (await switch_state(wanted)).ports
        if holder not in ports:
            return f"{four} is on {holder}, which is no bridge"
        names = devices(ports[holder])
        # What is no device of the kernel, as a port of DPDK, does not speak ARP.
        own, *found = await links.cards([holder, *(name for name in names if _settings(name))])
    cards = [BridgeCard(card.name, card.mac, arp_ignore(card.name)) for card in found]
    if fault := arp_fault(holder, own.mac, cards):
        raise HostError(fault)
    return f"only bridge {holder} answers ARP for {four}"


def devices(ports: Iterable[PortRow]) -> list[str]:
    """Return the devices of a bridge's ports that Open vSwitch did not make itself."""
    return sorted(
        name
        for port in ports
        if not port.type
        for name in ([member.name for member in port.members] or [port.name])
    )


def arp_ignore(card: str, conf: Path = _CONF) -> int:
    """Return the `arp_ignore` in force: the larger one of the card's and of all (ip-sysctl)."""
    return max(
        int((conf / name / "arp_ignore").read_text(encoding="ascii")) for name in ("all", card)
    )


def _settings(card: str) -> bool:
    return (_CONF / card).is_dir()
