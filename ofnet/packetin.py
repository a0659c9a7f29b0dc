"""What a packet sent to the controller leads to: counters and at most one packet out. Pure.

Who is known is answered by the switch (`ofnet.pipelines.neighbours`). Here come the questions it
has no answer for, and those that no pod asks in its own name. Bridged networks ask on for an
unknown address beyond this host, as the original does; routed ones leave it unanswered. What comes
from beyond a bridged network's host is answered for the pods of this host alone. The host's own
questions are answered with the router's MAC, whatever they are for.

Intercepted DNS is answered by `ofnet.names`, or sent on untouched (VLAN 4093 through the tables).
Counter names are the original's; those ending in `-ERROR` are its error counters.
"""

from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from typing import Final

from ofnet import names
from ofnet.changes import ObjectKind
from ofnet.channel.wire import PacketIn
from ofnet.directory import Behind, Directory
from ofnet.names import Resolver
from ofnet.openflow import oxm, packets
from ofnet.openflow.actions import (
    PORT_CONTROLLER,
    PORT_TABLE,
    Action,
    Output,
    PacketAction,
    SetField,
    tag,
)
from ofnet.openflow.packets import Arp
from ofnet.pipelines.stages import DNS_PORT, DNS_RETURN_VLAN, ROUTER_MAC
from ofnet.tables import Mode
from ofnet.uplink_choice import way_out
from ofnet.world import LocalEndpoint, Network, RemoteEndpoint, World

_NOBODY: Final = IPv4Address(0)
_BRIDGED: Final = frozenset({Mode.VLAN, Mode.VXLAN})


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketOut:
    """A frame and what the switch shall do with it, as if it had come in on `in_port`."""

    data: bytes
    actions: tuple[PacketAction, ...]
    in_port: int = PORT_CONTROLLER


@dataclass(frozen=True, slots=True)
class Reaction:
    """The counters a packet bumps and what is sent."""

    counters: tuple[str, ...] = ()
    send: PacketOut | None = None
    heard: Arp | None = None
    """What somebody beyond the uplink said of itself, of whom a route may lead to."""


def react(
    packet: PacketIn,
    mode: Mode,
    directory: Directory,
    world: World,
    resolve: Resolver = names.nobody,
) -> Reaction:
    """Return what a packet leads to; a packet nobody understands leads to nothing."""
    kind = packets.ether_type(packet.data)
    if kind == oxm.ETH_ARP:
        return _arp(packet, mode, directory, world)
    if kind == oxm.ETH_IPV4 and packets.is_udp_to(packet.data, DNS_PORT):
        behind = directory.behind(packet.in_port)
        return _refusal(packet, mode, behind, world) or _dns(packet, behind, resolve)
    return Reaction()


@dataclass(frozen=True, slots=True)
class _Question:
    """An ARP request, and what there is to answer it from."""

    packet: PacketIn
    arp: Arp
    mode: Mode
    directory: Directory
    world: World


_Answer = tuple[str, PacketOut | None]
"""How a question is counted, and what follows."""


def _arp(packet: PacketIn, mode: Mode, directory: Directory, world: World) -> Reaction:
    request = packets.parse_arp(packet.data)
    if request is None:
        return Reaction()
    heard = request if _from_router_network(packet, directory, world) else None
    if request.operation != packets.ARP_REQUEST:
        return Reaction(("ArpPktRcvd", "ArpRespRcvd"), heard=heard)
    counter, out = _asked(_Question(packet, request, mode, directory, world))
    return Reaction(("ArpPktRcvd", "ArpReqRcvd", counter), out, heard)


def _from_router_network(packet: PacketIn, directory: Directory, world: World) -> bool:
    """Tell whether a packet came from where the BGP peer is: in by an uplink, without a tag."""
    behind = directory.behind(packet.in_port)
    outside = behind is not None and behind.kind is ObjectKind.UPLINKS
    return outside and world.router is not None and not packets.is_tagged(packet.data)


def _asked(question: _Question) -> _Answer:
    packet, request = question.packet, question.arp
    if request.sender_ip in {_NOBODY, request.target_ip}:
        # a duplicate-address probe or an announcement: an answer would deny the asker its own
        return "ArpProbe", None
    match question.directory.behind(packet.in_port):
        case Behind(ObjectKind.HOST_PORT):
            reply = packets.arp_reply(request, ROUTER_MAC)
            return "ArpReqRespSent", PacketOut(data=reply, actions=(Output(packet.in_port),))
        case Behind(ObjectKind.LOCAL, LocalEndpoint() as pod, Network() as network):
            return _asked_by(pod, network, question)
        case Behind(ObjectKind.UPLINKS | ObjectKind.VTEP) if question.mode in _BRIDGED:
            return _asked_from_outside(question)
        case Behind(ObjectKind.UPLINKS | ObjectKind.ROUTER):
            return "ArpReqUnknownDest", None
        case _:
            return "ArpReqInvalidPortVlan", None


def _asked_by(pod: LocalEndpoint, network: Network, question: _Question) -> _Answer:
    """Have whoever is beyond this host hear a pod's question for an address nobody here knows."""
    mode, request = question.mode, question.arp
    if question.world.guard and not _is_own(request, pod):
        return "ArpReqSpoofed", None
    known = question.directory.knows(network.vrf, request.target_ip)
    outputs = _ways_out(pod, mode, question.world)
    if known or not outputs:
        return "ArpReqUnknownDest", None
    # a group that a fabric gives a VLAN of its own is on that outside
    own = replace(network, vlan=pod.group_vlan or network.vlan)
    actions = (*_marks(own, mode), *outputs)
    packet = question.packet
    return "ArpReqReinject", PacketOut(data=packet.data, actions=actions, in_port=packet.in_port)


def _is_own(request: Arp, asker: LocalEndpoint) -> bool:
    return request.sender_ip == asker.ip and request.sender_mac.lower() == asker.mac.lower()


def _asked_from_outside(question: _Question) -> _Answer:
    """Count a question from beyond this host as the original does, and answer for a pod here.

    (`vlanBridge.go`, `vxlanBridge.go`: `processArp`. There no frame of a tunnel finds its network,
    for it is looked for by a tag that such frames do not have.)
    """
    packet, request, directory = question.packet, question.arp, question.directory
    network = _network(packet, question.mode, question.world)
    if network is None:
        return "ArpReqInvalidPortVlan", None
    outside = "Vtep" if question.mode is Mode.VXLAN else "Uplink"
    match directory.endpoint(network.vrf, request.target_ip):
        case LocalEndpoint() as wanted:
            reply = packets.arp_reply(request, wanted.mac)
            back = (*_marks(network, question.mode), Output(packet.in_port))
            return "ArpReqRespSent", PacketOut(data=reply, actions=back)
        case RemoteEndpoint():
            return f"ArpReqNonLocalDestFrom{outside}", None
        case None if directory.knows(network.vrf, request.sender_ip):
            return f"ArpReqUnknownDestFrom{outside}", None
        case None:
            return "ArpRequestUnknownSrcDst", None


def _network(packet: PacketIn, mode: Mode, world: World) -> Network | None:
    """Return the network whose VNI or VLAN a packet from outside bears."""
    vxlan = mode is Mode.VXLAN
    mark = packet.tunnel_id if vxlan else packets.vlan(packet.data)
    known = world.networks.values() if mark else ()
    return next((one for one in known if mark == (one.vni if vxlan else one.vlan)), None)


def _ways_out(asker: LocalEndpoint, mode: Mode, world: World) -> tuple[Output, ...]:
    """Return what sends a question to all who are beyond this host; nothing does if it routes."""
    match mode:
        case Mode.VXLAN:
            return tuple(Output(vtep.ofport) for vtep in world.vteps.values())
        case Mode.VLAN:
            uplink = way_out(world.uplinks, asker.mac)
            return (Output(uplink.ofport),) if uplink is not None else ()
        case _:
            return ()


def _marks(network: Network, mode: Mode) -> tuple[Action, ...]:
    """Return the actions that put a packet on a bridged network beyond this host."""
    return (SetField("tunnel_id", network.vni),) if mode is Mode.VXLAN else tag(network.vlan)


def _refusal(packet: PacketIn, mode: Mode, behind: Behind | None, world: World) -> Reaction | None:
    """Return what is done about a DNS request that is no pod's own; None if it is."""
    if behind is not None and behind.kind is ObjectKind.VTEP:
        return Reaction(("dnsPktVtep-ERROR",))
    if mode in {Mode.VLAN, Mode.VLROUTER} and packets.is_tagged(packet.data):
        return Reaction(("dnsPktUplink-ERROR",))
    if world.guard and not _is_from(packet.data, behind):
        return Reaction(("dnsPktSpoofed-ERROR",))
    return None


def _dns(packet: PacketIn, behind: Behind | None, resolve: Resolver) -> Reaction:
    answer = names.answer(packet.data, behind, resolve)
    if answer.frame is not None:
        back = PacketOut(data=answer.frame, actions=(Output(packet.in_port),))
        return Reaction(answer.counters, back)
    again = PacketOut(
        data=packets.tagged(packet.data, DNS_RETURN_VLAN),
        actions=(Output(PORT_TABLE),),
        in_port=packet.in_port,
    )
    return Reaction((*answer.counters, "dnsPktForward"), again)


def _is_from(frame: bytes, behind: Behind | None) -> bool:
    """Tell whether a pod sent a frame in its own name."""
    if behind is None or behind.endpoint is None:
        return False
    pod = behind.endpoint
    return packets.source(frame) == (pod.mac.lower(), pod.ip)
