"""What a packet sent to the controller leads to: counters and at most one packet out. Pure.

Who is known is answered by the switch (`ofnet.pipelines.neighbours`). Here come the questions it
has no answer for, and those that no pod asks in its own name. Bridged networks ask on for an
unknown address beyond this host, as the original does; routed ones leave it unanswered. The host's
own questions are answered with the router's MAC, whatever they are for.

Intercepted DNS is sent on untouched (VLAN 4093 through the tables) as long as nothing here can
answer it. Counter names are the original's; those ending in `-ERROR` are its error counters.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from ofnet import oxm, packets
from ofnet.actions import PORT_CONTROLLER, PORT_TABLE, Action, Output, SetField, tag
from ofnet.changes import Kind
from ofnet.directory import Behind, Directory
from ofnet.packets import Arp
from ofnet.pipelines.stages import DNS_PORT, DNS_RETURN_VLAN, ROUTER_MAC
from ofnet.tables import Mode
from ofnet.ways_out import way_out
from ofnet.wire import PacketIn
from ofnet.world import LocalEndpoint, Network, World

_NOBODY: Final = IPv4Address(0)
_BRIDGED: Final = frozenset({Mode.VLAN, Mode.VXLAN})
_FROM_OUTSIDE: Final[dict[Kind | None, str]] = {
    Kind.UPLINKS: "ArpReqUnknownDestFromUplink",
    Kind.VTEP: "ArpReqUnknownDestFromVtep",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketOut:
    """A frame and what the switch shall do with it, as if it had come in on `in_port`."""

    data: bytes
    actions: tuple[Action, ...]
    in_port: int = PORT_CONTROLLER


@dataclass(frozen=True, slots=True)
class Reaction:
    """The counters a packet bumps and what is sent."""

    counters: tuple[str, ...] = ()
    send: PacketOut | None = None


def react(packet: PacketIn, mode: Mode, directory: Directory, world: World) -> Reaction:
    """Return what a packet leads to; a packet nobody understands leads to nothing."""
    kind = packets.ether_type(packet.data)
    if kind == oxm.ETH_ARP:
        return _arp(packet, mode, directory, world)
    if kind == oxm.ETH_IPV4 and packets.is_udp_to(packet.data, DNS_PORT):
        return _dns(packet, mode, directory.behind(packet.in_port), world)
    return Reaction()


def _arp(packet: PacketIn, mode: Mode, directory: Directory, world: World) -> Reaction:
    request = packets.parse_arp(packet.data)
    if request is None:
        return Reaction()
    if request.operation != packets.ARP_REQUEST:
        return Reaction(("ArpPktRcvd", "ArpRespRcvd"))
    counter, out = _asked(packet, request, mode, directory, world)
    return Reaction(("ArpPktRcvd", "ArpReqRcvd", counter), out)


def _asked(
    packet: PacketIn, request: Arp, mode: Mode, directory: Directory, world: World
) -> tuple[str, PacketOut | None]:
    """Return how a question is counted, and what follows."""
    if request.sender_ip in {_NOBODY, request.target_ip}:
        # a duplicate-address probe or an announcement: an answer would deny the asker its own
        return "ArpProbe", None
    match directory.behind(packet.in_port):
        case Behind(Kind.HOST_PORT):
            reply = packets.arp_reply(request, ROUTER_MAC)
            return "ArpReqRespSent", PacketOut(data=reply, actions=(Output(packet.in_port),))
        case Behind(Kind.LOCAL, LocalEndpoint() as asker, Network() as network):
            if world.guard and not _is_own(request, asker):
                return "ArpReqSpoofed", None
            if directory.knows(network.vrf, request.target_ip) or mode not in _BRIDGED:
                return "ArpReqUnknownDest", None
            return _asked_on(packet, asker, network, mode, world)
        case behind:
            kind = behind.kind if behind is not None else None
            return _FROM_OUTSIDE.get(kind, "ArpReqInvalidPortVlan"), None


def _is_own(request: Arp, asker: LocalEndpoint) -> bool:
    return request.sender_ip == asker.ip and request.sender_mac.lower() == asker.mac.lower()


def _asked_on(
    packet: PacketIn, asker: LocalEndpoint, network: Network, mode: Mode, world: World
) -> tuple[str, PacketOut | None]:
    """Have whoever is beyond this host hear a question for an address nobody here knows."""
    if mode is Mode.VXLAN:
        outputs = tuple(Output(vtep.ofport) for vtep in world.vteps.values())
        marked: tuple[Action, ...] = (SetField("tunnel_id", network.vni),)
    else:
        uplink = way_out(world.uplinks, asker.mac)
        outputs = (Output(uplink.ofport),) if uplink is not None else ()
        marked = tag(network.vlan)
    if not outputs:
        return "ArpReqUnknownDest", None
    actions = (*marked, *outputs)
    return "ArpReqReinject", PacketOut(data=packet.data, actions=actions, in_port=packet.in_port)


def _dns(packet: PacketIn, mode: Mode, behind: Behind | None, world: World) -> Reaction:
    if behind is not None and behind.kind is Kind.VTEP:
        return Reaction(("dnsPktVtep-ERROR",))
    if mode in {Mode.VLAN, Mode.VLROUTER} and packets.is_tagged(packet.data):
        return Reaction(("dnsPktUplink-ERROR",))
    if world.guard and not _is_from(packet.data, behind):
        return Reaction(("dnsPktSpoofed-ERROR",))
    again = PacketOut(
        data=packets.tagged(packet.data, DNS_RETURN_VLAN),
        actions=(Output(PORT_TABLE),),
        in_port=packet.in_port,
    )
    return Reaction(("dnsPktForward",), again)


def _is_from(frame: bytes, behind: Behind | None) -> bool:
    """Tell whether a pod sent a frame in its own name."""
    if behind is None or behind.endpoint is None:
        return False
    pod = behind.endpoint
    return packets.source(frame) == (pod.mac.lower(), pod.ip)
