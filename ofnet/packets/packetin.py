"""Handles packets sent to the controller: counters and at most one packet out. Pure.

ARP. The switch answers requests for known addresses itself
(`ofnet.pipelines.packet_path.neighbours`); only requests without an answer come here. On bridged
networks a pod's request for an unknown address is sent on beyond this host, as in the original; on
routed networks it stays unanswered. A request from beyond this host is answered for this host's
pods alone. The host's own requests are answered with the router's MAC, for any address.

ND. Where the datapath cannot make a neighbour advertisement, the switch chooses the answer and the
agent completes it (`ofnet.pipelines.packet_path.neighbours`). Advertisements come from the BGP
peer's network alone: answers to this host's own requests.

ICMP. Pods of routed vxlan networks leave their host under private addresses. An error from there
quotes a packet of the private address, which neither the pod nor the translation of services knows:
it is sent on with the pod's own one.

DNS. Intercepted requests are answered by `ofnet.packets.dns_answers`, or sent through the tables
untouched (on VLAN 4093). Counter names are the original's; those ending in `-ERROR` are its error
counters.
"""

# What pods can make the agent do. Every frame here was built by a pod or arrived from the network,
# so it is parsed as untrusted input and leads to at most one packet out. No look-up scans the
# endpoints. No frame changes state, with one exception outside this module: ARP and ND from the BGP
# peer's network (`neighbour`), which only an uplink delivers. With the source guard on, an ARP or
# DNS request in another pod's name is counted and dropped. An address conflict probe and an
# announcement get no answer, because an answer would make the pod give up its own address.

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.channel.wire import PacketIn
from ofnet.openflow import oxm, packets
from ofnet.openflow.actions import (
    PORT_CONTROLLER,
    PORT_TABLE,
    Action,
    Load,
    Lookup,
    Output,
    PacketAction,
    SetField,
    tag,
)
from ofnet.openflow.fields import VRF
from ofnet.openflow.packets import Arp, Neighbour
from ofnet.packets import dns_answers
from ofnet.packets.directory import Directory, PortAttachment
from ofnet.packets.dns_answers import Deferred, NameVerdict, Resolver
from ofnet.packets.uplink_choice import choose_uplink
from ofnet.pipelines.features import cluster_dns
from ofnet.pipelines.packet_path.stages import DNS_PORT, DNS_RETURN_VLAN, ROUTER_MAC
from ofnet.tables import Mode, TableId
from ofnet.world import LocalEndpoint, Network, RemoteEndpoint, World

_UNSPECIFIED: Final = IPv4Address(0)
_BRIDGED: Final = frozenset({Mode.VLAN, Mode.VXLAN})


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketOut:
    """A frame and its actions; the switch treats it as received on `in_port`."""

    data: bytes
    actions: tuple[PacketAction, ...]
    in_port: int = PORT_CONTROLLER


FORGED: Final = frozenset({"ArpReqSpoofed", "dnsPktSpoofed-ERROR"})
"""The counters of what an endpoint asks in another's name."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """The counters a packet increments and what is sent."""

    counters: tuple[str, ...] = ()
    send: PacketOut | None = None
    neighbour: Neighbour | None = None
    """A machine on the BGP peer's network, which may be the next hop of a route."""

    later: Callable[[Callable[[PacketOut], object]], None] | None = None
    """Sends an answer that takes time: to be called once, with what sends a packet."""


def react(
    packet: PacketIn,
    mode: Mode,
    directory: Directory,
    world: World,
    resolve: Resolver = dns_answers.no_resolver,
) -> Reaction:
    """Return the reaction to a packet; an unknown or broken one leads to nothing."""
    if packet.table == TableId.INGRESS_GROUP:
        return _error(packet, directory, world)
    if packet.table == TableId.NEIGHBOUR_REPLY:
        return _complete_advertisement(packet)
    kind = packets.ether_type(packet.data)
    if kind == oxm.ETH_ARP:
        return _arp(packet, mode, directory, world)
    if kind == oxm.ETH_IPV6 and _from_router_network(packet, directory, world):
        return Reaction(neighbour=packets.parse_advertisement(packet.data))
    if kind in {oxm.ETH_IPV4, oxm.ETH_IPV6} and packets.is_udp_to(packet.data, DNS_PORT):
        attachment = directory.attachment(packet.in_port)
        rejected = _reject_dns(packet, mode, attachment, world)
        return rejected or _dns(packet, attachment, resolve)
    return Reaction()


@dataclass(frozen=True, slots=True)
class _ArpRequest:
    """An ARP request, and the state from which it is answered."""

    packet: PacketIn
    arp: Arp
    mode: Mode
    directory: Directory
    world: World


_Answer = tuple[str, PacketOut | None]
"""The counter of a request, and the packet out if there is one."""


def _arp(packet: PacketIn, mode: Mode, directory: Directory, world: World) -> Reaction:
    request = packets.parse_arp(packet.data)
    if request is None:
        return Reaction()
    neighbour = None
    if _from_router_network(packet, directory, world):
        neighbour = Neighbour(address=request.sender_ip, mac=request.sender_mac)
    if request.operation != packets.ARP_REQUEST:
        return Reaction(("ArpPktRcvd", "ArpRespRcvd"), neighbour=neighbour)
    counter, out = _answer(_ArpRequest(packet, request, mode, directory, world))
    return Reaction(("ArpPktRcvd", "ArpReqRcvd", counter), out, neighbour=neighbour)


def _from_router_network(packet: PacketIn, directory: Directory, world: World) -> bool:
    """Return whether a packet came from the BGP peer's network: by an uplink, without a tag."""
    attachment = directory.attachment(packet.in_port)
    outside = attachment is not None and attachment.kind is ObjectKind.UPLINKS
    return outside and world.router is not None and not packets.is_tagged(packet.data)


def _answer(request: _ArpRequest) -> _Answer:
    packet, arp = request.packet, request.arp
    if arp.sender_ip in {_UNSPECIFIED, arp.target_ip}:
        # an address conflict probe or an announcement
        return "ArpProbe", None
    match request.directory.attachment(packet.in_port):
        case PortAttachment(ObjectKind.HOST_PORT):
            reply = packets.arp_reply(arp, ROUTER_MAC)
            return "ArpReqRespSent", PacketOut(data=reply, actions=(Output(packet.in_port),))
        case PortAttachment(ObjectKind.LOCAL, LocalEndpoint() as pod, Network() as network):
            return _answer_pod(pod, network, request)
        case PortAttachment(ObjectKind.UPLINKS | ObjectKind.VTEP) if request.mode in _BRIDGED:
            return _answer_outside(request)
        case PortAttachment(ObjectKind.UPLINKS | ObjectKind.ROUTER):
            return "ArpReqUnknownDest", None
        case _:
            return "ArpReqInvalidPortVlan", None


def _answer_pod(pod: LocalEndpoint, network: Network, request: _ArpRequest) -> _Answer:
    """Send a pod's request for an unknown address on, beyond this host."""
    mode, arp = request.mode, request.arp
    if request.world.guard and not _is_own(arp, pod):
        return "ArpReqSpoofed", None
    known = request.directory.knows(network.vrf, arp.target_ip)
    outputs = _outputs_beyond_host(pod, mode, request.world)
    if known or not outputs:
        return "ArpReqUnknownDest", None
    # the physical network has a group on its own VLAN, if an ACI fabric gave it one
    own = replace(network, vlan=pod.group_vlan or network.vlan)
    actions = (*_marks(own, mode), *outputs)
    packet = request.packet
    return "ArpReqReinject", PacketOut(data=packet.data, actions=actions, in_port=packet.in_port)


def _is_own(arp: Arp, sender: LocalEndpoint) -> bool:
    return arp.sender_ip == sender.ip and arp.sender_mac.lower() == sender.mac.lower()


def _answer_outside(request: _ArpRequest) -> _Answer:
    """Count a request from beyond this host as the original does; answer it for a pod here.

    (`vlanBridge.go`, `vxlanBridge.go`: `processArp`. The original looks up the network of a
    tunnel's frame by a tag that such frames do not have, and so never finds it.)
    """
    packet, arp, directory = request.packet, request.arp, request.directory
    network = _network(packet, request.mode, request.world)
    if network is None:
        return "ArpReqInvalidPortVlan", None
    outside = "Vtep" if request.mode is Mode.VXLAN else "Uplink"
    match directory.endpoint(network.vrf, arp.target_ip):
        case LocalEndpoint() as wanted:
            reply = packets.arp_reply(arp, wanted.mac)
            back = (*_marks(network, request.mode), Output(packet.in_port))
            return "ArpReqRespSent", PacketOut(data=reply, actions=back)
        case RemoteEndpoint():
            return f"ArpReqNonLocalDestFrom{outside}", None
        case None if directory.knows(network.vrf, arp.sender_ip):
            return f"ArpReqUnknownDestFrom{outside}", None
        case None:
            return "ArpRequestUnknownSrcDst", None


def _network(packet: PacketIn, mode: Mode, world: World) -> Network | None:
    """Return the network of a packet from beyond this host, by its VNI or VLAN."""
    vxlan = mode is Mode.VXLAN
    mark = packet.tunnel_id if vxlan else packets.vlan(packet.data)
    known = world.networks.values() if mark else ()
    return next((one for one in known if mark == (one.vni if vxlan else one.vlan)), None)


def _outputs_beyond_host(sender: LocalEndpoint, mode: Mode, world: World) -> tuple[Output, ...]:
    """Return the outputs to all other hosts and the physical network; none in routing modes."""
    match mode:
        case Mode.VXLAN:
            return tuple(Output(vtep.ofport) for vtep in world.vteps.values())
        case Mode.VLAN:
            uplink = choose_uplink(world.uplinks, sender.mac)
            return (Output(uplink.ofport),) if uplink is not None else ()
        case _:
            return ()


def _marks(network: Network, mode: Mode) -> tuple[Action, ...]:
    """Return the actions that put a packet on a bridged network beyond this host."""
    return (SetField("tunnel_id", network.vni),) if mode is Mode.VXLAN else tag(network.vlan)


def _complete_advertisement(packet: PacketIn) -> Reaction:
    """Return the ND answer that the switch has chosen to the port that asked."""
    answer = packets.advertisement(packet.data)
    if answer is None:
        return Reaction(("NdReqRcvd", "NdReqInvalid-ERROR"))
    return Reaction(("NdReqRcvd", "NdReqRespSent"), _back(packet, answer))


def _error(packet: PacketIn, directory: Directory, world: World) -> Reaction:
    """Send an error about what a pod sent by its host on to the pod, in the words it knows."""
    quoted = packets.quoted_sender(packet.data)
    pod = directory.behind(quoted) if quoted is not None else None
    network = world.networks.get(pod.network) if pod is not None else None
    own = _of_family(pod, quoted)
    if own is None or network is None or _is_of_pod(packet.data, world):
        return Reaction(("IcmpErrorInvalid-ERROR",))
    onward = PacketOut(
        data=packets.error_about(packet.data, own),
        actions=(Load(VRF, network.vrf), Lookup(TableId.SRV_PROXY_SNAT)),
        in_port=packet.in_port,
    )
    return Reaction(("IcmpErrorForward",), onward)


def _of_family(
    pod: LocalEndpoint | None, quoted: IPv4Address | IPv6Address | None
) -> IPv4Address | IPv6Address | None:
    """Return the address of a pod's own that is of the family of the one that was quoted."""
    if pod is None:
        return None
    return pod.ip6 if isinstance(quoted, IPv6Address) else pod.ip


def _is_of_pod(frame: bytes, world: World) -> bool:
    """Return whether the host routes back what a pod sent (`features.host_paths`)."""
    return world.host_port is None or world.host_port.of_pods(packets.source(frame)[1])


def _reject_dns(
    packet: PacketIn, mode: Mode, attachment: PortAttachment | None, world: World
) -> Reaction | None:
    """Return the reaction to a DNS request that no pod of this host sent; None for a pod's own."""
    if attachment is not None and attachment.kind is ObjectKind.VTEP:
        return Reaction(("dnsPktVtep-ERROR",))
    if mode in {Mode.VLAN, Mode.VLROUTER} and packets.is_tagged(packet.data):
        return Reaction(("dnsPktUplink-ERROR",))
    if world.guard and not _is_from(packet.data, attachment):
        return Reaction(("dnsPktSpoofed-ERROR",))
    return None


def _dns(packet: PacketIn, attachment: PortAttachment | None, resolve: Resolver) -> Reaction:
    answer = dns_answers.answer(
        packet.data, attachment, resolve, judged=packet.table in cluster_dns.ENDS
    )
    match answer.outcome:
        case bytes(frame):
            return Reaction(answer.counters, _back(packet, frame))
        case Deferred() as deferred:
            return Reaction(answer.counters, later=partial(_send_later, packet, deferred))
        case NameVerdict.DROP:
            return Reaction(answer.counters)
        case NameVerdict.FORWARD:
            return _forward(packet, answer.counters)


def _back(packet: PacketIn, frame: bytes) -> PacketOut:
    return PacketOut(data=frame, actions=(Output(packet.in_port),))


def _send_later(packet: PacketIn, answer: Deferred, send: Callable[[PacketOut], object]) -> None:
    def reply(frame: bytes) -> None:
        send(_back(packet, frame))

    answer.ask(reply)


def _forward(packet: PacketIn, counters: tuple[str, ...]) -> Reaction:
    """Return the request to the tables, on its way to the server it is for."""
    again = PacketOut(
        data=packets.tagged(packet.data, DNS_RETURN_VLAN),
        actions=(Output(PORT_TABLE),),
        in_port=packet.in_port,
    )
    return Reaction((*counters, "dnsPktForward"), again)


def _is_from(frame: bytes, attachment: PortAttachment | None) -> bool:
    """Return whether a frame has the MAC and the address of the pod at its port."""
    if attachment is None or attachment.endpoint is None:
        return False
    pod = attachment.endpoint
    mac, address = packets.source(frame)
    return mac == pod.mac.lower() and address in {pod.ip, pod.ip6}
