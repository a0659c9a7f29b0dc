"""What a packet sent to the controller leads to: counters and at most one packet back. Pure.

Routing answers ARP from the World: the router's MAC stands for every address of the asker's VRF.
Intercepted DNS is sent on untouched (VLAN 4093 through the tables) as long as nothing here can
answer it. Counter names are the original's; those ending in `-ERROR` are its error counters.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from ofnet import oxm, packets
from ofnet.actions import PORT_CONTROLLER, PORT_TABLE
from ofnet.changes import Kind
from ofnet.directory import Directory
from ofnet.pipelines.stages import DNS_PORT, DNS_RETURN_VLAN, ROUTER_MAC
from ofnet.tables import Mode
from ofnet.wire import PacketIn

_NOBODY: Final = IPv4Address(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketOut:
    """A frame to send out of a port, as if it had come in on `in_port`."""

    data: bytes
    port: int
    in_port: int = PORT_CONTROLLER


@dataclass(frozen=True, slots=True)
class Reaction:
    """The counters a packet bumps and what is sent."""

    counters: tuple[str, ...] = ()
    send: PacketOut | None = None


def react(packet: PacketIn, mode: Mode, directory: Directory) -> Reaction:
    """Return what a packet leads to; a packet nobody understands leads to nothing."""
    kind = packets.ether_type(packet.data)
    if kind == oxm.ETH_ARP:
        return _arp(packet, mode, directory)
    if kind == oxm.ETH_IPV4 and packets.is_udp_to(packet.data, DNS_PORT):
        return _dns(packet, mode, directory)
    return Reaction()


def _arp(packet: PacketIn, mode: Mode, directory: Directory) -> Reaction:
    request = packets.parse_arp(packet.data)
    if request is None:
        return Reaction()
    if request.operation != packets.ARP_REQUEST:
        return Reaction(("ArpPktRcvd", "ArpRespRcvd"))
    counted = ("ArpPktRcvd", "ArpReqRcvd")
    if mode is not Mode.VROUTER:
        unknown = "ArpReqUnknownDest" if mode is Mode.VLROUTER else "ArpRequestUnknownSrcDst"
        return Reaction((*counted, unknown))
    if request.sender_ip in {_NOBODY, request.target_ip}:
        # a duplicate-address probe or an announcement: an answer would deny the asker its own
        return Reaction((*counted, "ArpProbe"))
    refusal = _refusal(request.target_ip, packet.in_port, directory)
    if refusal is not None:
        return Reaction((*counted, refusal))
    reply = PacketOut(data=packets.arp_reply(request, ROUTER_MAC), port=packet.in_port)
    return Reaction((*counted, "ArpReqRespSent"), reply)


def _refusal(target: IPv4Address, in_port: int, directory: Directory) -> str | None:
    match directory.port(in_port):
        case Kind.HOST_PORT, _:
            return None
        case Kind.LOCAL, vrf:
            return None if directory.knows(vrf, target) else "ArpReqUnknownDest"
        case _:
            return "ArpReqInvalidPortVlan"


def _dns(packet: PacketIn, mode: Mode, directory: Directory) -> Reaction:
    port = directory.port(packet.in_port)
    if port is not None and port[0] is Kind.VTEP:
        return Reaction(("dnsPktVtep-ERROR",))
    if mode in {Mode.VLAN, Mode.VLROUTER} and packets.is_tagged(packet.data):
        return Reaction(("dnsPktUplink-ERROR",))
    again = PacketOut(
        data=packets.tagged(packet.data, DNS_RETURN_VLAN),
        port=PORT_TABLE,
        in_port=packet.in_port,
    )
    return Reaction(("dnsPktForward",), again)
