"""Neighbours: ARP and IPv6 neighbour discovery (ND), answered by the switch itself.

A pod's request goes from table 0 to table 10, which has a flow for every address that can be
answered; other requests go to the agent (`ofnet.packets.packetin`). The original's agent answers
all ARP, and nothing answers IPv6.
"""

# Why in the switch: pods resolve known neighbours while the agent is down or restarting, and a
# burst of requests costs the agent nothing. An answer is made of the request in place: fields are
# moved from sender to target, the answer is written over the sender, and the frame goes back to
# its port. OpenFlow cannot rewrite an ND message in one table, because the fields that may be set
# depend on its ICMPv6 type: table 10 changes the type, table 11 adds the link-layer option.
#
# The kernel's datapath has no "ND extension": it sets neither the flags of an ND message nor the
# kind of its option, and Open vSwitch refuses flows that do. No other actions turn a solicitation
# into an advertisement: its flags are zero, and its option is of kind 1 where an answer has kind 2,
# so that a receiver would find no MAC address in it (RFC 4861 §7.2.5). There the switch still
# judges the request, chooses the answer and rewrites the addresses, but table 11 sends this to the
# agent (`completed_by_agent`), which makes the message and returns it to the port
# (`ofnet.packets.packetin`). The agent chooses nothing, so both ways have the same answers.
#
# Metadata identifies the requester (VRF, and RX_VTEP for one beyond this host). The same address
# may so have different answers: pods learn a pod's or the router's MAC, the physical network learns
# local endpoints alone, because a remote endpoint is answered by its own host.
#
# Address conflict probes (sender 0.0.0.0 or ::) and announcements (sender equal to target) are
# dropped in table 0: an answer to a pod's request for its own address means a conflict to it.

from collections.abc import Callable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    DROP,
    PORT_CONTROLLER,
    PORT_IN_PORT,
    TO_CONTROLLER,
    Action,
    Instructions,
    Move,
    Output,
    PopVlan,
    SetField,
    goto,
    instructions_by,
)
from ofnet.openflow.fields import RX_VTEP, VRF, Bits
from ofnet.openflow.match import Match, MatchFields, matches_by
from ofnet.openflow.packets import SOLICITED_OVERRIDE
from ofnet.pipelines.packet_path import source_guard
from ofnet.tables import Priority, TableId
from ofnet.world import ArpMode, LocalEndpoint, Network, RemoteEndpoint, World

ARP_REQUEST: Final = 1
ARP_REPLY: Final = 2
TARGET_LINK_LAYER: Final = 2
"""The kind of option that carries the MAC address in an advertisement."""

_TO_REQUESTER: Final = Move("eth_src", "eth_dst")
_REPLY: Final = SetField("arp_op", ARP_REPLY)
_REQUESTERS_MAC: Final = Move("arp_sha", "arp_tha")
_REQUESTERS_ADDRESS: Final = Move("arp_spa", "arp_tpa")
_BACK: Final = Output(PORT_IN_PORT)
"""The parts that all answers share, made once: there are as many answers as endpoints."""

_ADVERTISEMENT: Final = Match(
    eth_type=oxm.ETH_IPV6, ip_proto=oxm.PROTO_ICMP6, icmpv6_type=oxm.ND_ADVERT
)
_UNSPECIFIED4: Final = IPv4Address(0)
_UNSPECIFIED6: Final = IPv6Address("::")
_NO_MAC: Final = "00:00:00:00:00:00"


def unanswered() -> Flow:
    """Return the flow that sends requests without an answer to the agent."""
    return Flow(ObjectKind.PIPELINE, TableId.NEIGHBOURS, Priority.MISS, Match(), TO_CONTROLLER)


def advertisement(mac: str) -> Flow:
    """Return the flow that completes and sends an ND answer."""
    send = Instructions((SetField("nd_tll", mac), Output(PORT_IN_PORT)))
    return Flow(ObjectKind.PIPELINE, TableId.NEIGHBOUR_REPLY, Priority.MATCH, _ADVERTISEMENT, send)


def advertisement_beyond_host(owner: ObjectKind, requester: Bits, mac: str) -> Flow:
    """Return the flow that does so with another MAC address for requesters with this metadata."""
    match = _ADVERTISEMENT.but(metadata=requester)
    send = Instructions((SetField("nd_tll", mac), Output(PORT_IN_PORT)))
    return Flow(owner, TableId.NEIGHBOUR_REPLY, Priority.ABOVE_MATCH, match, send)


def advertisement_on_vlan(vlan: int, mac: str) -> Flow:
    """Return the flow that does so for pods whose network is a VLAN inside the switch."""
    match = _ADVERTISEMENT.but(vlan_vid=vlan)
    send = Instructions((SetField("nd_tll", mac), PopVlan(), Output(PORT_IN_PORT)))
    return Flow(ObjectKind.NETWORK, TableId.NEIGHBOUR_REPLY, Priority.MATCH, match, send)


def arp_requests(endpoint: LocalEndpoint, vrf: int, *, guard: bool) -> Iterator[Flow]:
    """Yield the flows for a pod's ARP requests; guarded, only for those from its own address."""
    if endpoint.ip is None:
        return
    request: MatchFields = {
        "in_port": endpoint.ofport,
        "eth_type": oxm.ETH_ARP,
        "arp_op": ARP_REQUEST,
    }
    matched, own = request, endpoint.ip
    if guard:
        matched = {**request, "eth_src": endpoint.mac, "arp_sha": endpoint.mac, "arp_spa": own}
    announced: MatchFields = {**request, "arp_spa": own, "arp_tpa": own}
    probed: MatchFields = {**request, "arp_spa": _UNSPECIFIED4}
    yield _input(ObjectKind.LOCAL, Priority.REQUEST, Match(**matched), _look_up(VRF.put(vrf)))
    yield _input(ObjectKind.LOCAL, Priority.ANNOUNCEMENT, Match(**announced), DROP)
    yield _input(ObjectKind.LOCAL, Priority.ANNOUNCEMENT, Match(**probed), DROP)


def solicitations(endpoint: LocalEndpoint, vrf: int) -> Iterator[Flow]:
    """Yield the flows for a pod's neighbour solicitations."""
    if endpoint.ip6 is None:
        return
    request = Match(
        in_port=endpoint.ofport,
        eth_type=oxm.ETH_IPV6,
        ip_proto=oxm.PROTO_ICMP6,
        icmpv6_type=oxm.ND_SOLICIT,
        eth_src=endpoint.mac,
    )
    probed = Match(
        in_port=endpoint.ofport,
        eth_type=oxm.ETH_IPV6,
        ip_proto=oxm.PROTO_ICMP6,
        icmpv6_type=oxm.ND_SOLICIT,
        ipv6_src=_UNSPECIFIED6,
    )
    yield _input(ObjectKind.LOCAL, Priority.REQUEST, request, _look_up(VRF.put(vrf)))
    yield _input(ObjectKind.LOCAL, Priority.ANNOUNCEMENT, probed, DROP)


def uplink_arp_requests(owner: ObjectKind, ofport: int, vlan: int, vrf: int) -> Flow:
    """Return the flow for ARP requests that come in on a VLAN of an uplink."""
    request = Match(in_port=ofport, vlan_vid=vlan, eth_type=oxm.ETH_ARP, arp_op=ARP_REQUEST)
    return _input(owner, Priority.REQUEST, request, _look_up(VRF.put(vrf) | RX_VTEP.put(1)))


def lookup(owner: ObjectKind, request: Match, requester: Bits) -> Flow:
    """Return the flow that has a request answered for the requester's metadata."""
    return _input(owner, Priority.REQUEST, request, _look_up(requester))


def arp_answer(
    owner: ObjectKind,
    requester: Bits,
    address: IPv4Address,
    mac: str,
    priority: Priority = Priority.MATCH,
) -> Flow:
    """Return the flow that answers ARP for an address to requesters with this metadata."""
    # Packed as a whole: most callers have a MAC of its own for each address (`_arp_reply`).
    reply = Instructions((*_answering(mac), SetField("arp_spa", address), _BACK))
    return Flow(owner, TableId.NEIGHBOURS, priority, _arp_question(requester)(address), reply)


@lru_cache(maxsize=1024)
def _arp_question(requester: Bits) -> Callable[[IPv4Address], Match]:
    return matches_by("arp_tpa", metadata=requester, eth_type=oxm.ETH_ARP)


@lru_cache(maxsize=1024)
def _arp_reply(mac: str) -> Callable[[IPv4Address], Instructions]:
    return instructions_by(_answering(mac), "arp_spa", (_BACK,))


def _answering(mac: str) -> tuple[Action, ...]:
    """Return what makes an answer of a request, but for the address that is answered for."""
    return (
        _TO_REQUESTER,
        SetField("eth_src", mac),
        _REPLY,
        _REQUESTERS_MAC,
        _REQUESTERS_ADDRESS,
        SetField("arp_sha", mac),
    )


def nd_answer(owner: ObjectKind, requester: Bits, address: IPv6Address, mac: str) -> Flow:
    """Return the flow that begins an ND answer for an address; `advertisement` completes it."""
    match = Match(
        metadata=requester,
        eth_type=oxm.ETH_IPV6,
        ip_proto=oxm.PROTO_ICMP6,
        icmpv6_type=oxm.ND_SOLICIT,
        nd_target=address,
    )
    reply = Instructions(
        (
            _TO_REQUESTER,
            SetField("eth_src", mac),
            Move("ipv6_src", "ipv6_dst"),
            SetField("ipv6_src", address),
            SetField("nd_options_type", TARGET_LINK_LAYER),
            SetField("nd_reserved", SOLICITED_OVERRIDE),
            SetField("icmpv6_type", oxm.ND_ADVERT),
        ),
        goto=TableId.NEIGHBOUR_REPLY,
    )
    return Flow(owner, TableId.NEIGHBOURS, Priority.MATCH, match, reply)


_MADE_BY_AGENT: Final = frozenset({"nd_options_type", "nd_reserved", "icmpv6_type", "nd_tll"})
"""The fields of an advertisement that the agent writes where the datapath cannot."""


def extension_probe() -> Flow:
    """Return a flow that a switch takes exactly if its datapath has the ND extension."""
    return nd_answer(ObjectKind.PIPELINE, VRF.put(0), _UNSPECIFIED6, _NO_MAC)


def completed_by_agent(flow: Flow) -> Flow:
    """Return what a datapath without the ND extension does in place of a flow.

    The answer's sender keeps its MAC and its address, by which the agent knows what to advertise. A
    flow that takes no part in ND answers stays as it is.
    """
    done = flow.instructions
    if done.names.isdisjoint(_MADE_BY_AGENT):
        return flow
    left = tuple(one for one in done.actions if one.name not in _MADE_BY_AGENT)
    if flow.table == TableId.NEIGHBOURS:
        onward = Instructions(left, goto=done.goto)
        return Flow(flow.owner, flow.table, flow.priority, flow.match, onward)
    begun = flow.match.but(icmpv6_type=oxm.ND_SOLICIT)
    to_agent = Instructions((*(one for one in left if one != _BACK), Output(PORT_CONTROLLER)))
    return Flow(flow.owner, flow.table, flow.priority, begun, to_agent)


def nd_request(owner: ObjectKind, requester: Bits, address: IPv6Address) -> Flow:
    """Return the flow that has the switch asked for an address on a bridged network."""
    match = Match(
        metadata=requester,
        eth_type=oxm.ETH_IPV6,
        ip_proto=oxm.PROTO_ICMP6,
        icmpv6_type=oxm.ND_SOLICIT,
        nd_target=address,
    )
    return Flow(owner, TableId.SRV_PROXY_DNAT, Priority.MATCH, match, goto(TableId.NEIGHBOURS))


def answers(
    owner: ObjectKind, requester: Bits, addresses: Iterator[IPv4Address | IPv6Address], mac: str
) -> Iterator[Flow]:
    """Yield the flows that answer with one MAC for each of the addresses."""
    question, reply = _arp_question(requester), _arp_reply(mac)
    for address in addresses:
        if isinstance(address, IPv4Address):
            where = TableId.NEIGHBOURS, Priority.MATCH
            yield Flow(owner, *where, question(address), reply(address))
        else:
            yield nd_answer(owner, requester, address, mac)


def bridged(
    endpoint: LocalEndpoint | RemoteEndpoint, network: Network, world: World
) -> Iterator[Flow]:
    """Yield the neighbour flows of an endpoint on a bridged network, which answer with its own MAC.

    The physical network is answered for the endpoints of this host alone. IPv6 neighbours find each
    other by multicast.
    """
    local = isinstance(endpoint, LocalEndpoint)
    proxied = world.arp_mode is ArpMode.PROXY
    if proxied and endpoint.ip is not None:
        # local and remote share one match: ownership leaves one answer for an address known twice
        inside = VRF.put(network.vrf) | RX_VTEP.put(0)
        owner = ObjectKind.LOCAL if local else ObjectKind.REMOTE
        yield arp_answer(owner, inside, endpoint.ip, endpoint.mac)
    if isinstance(endpoint, LocalEndpoint):
        if proxied:
            yield from arp_requests(endpoint, network.vrf, guard=world.guard)
        if proxied and world.uplinks and endpoint.ip is not None:
            outside = VRF.put(network.vrf) | RX_VTEP.put(1)
            yield arp_answer(ObjectKind.LOCAL, outside, endpoint.ip, endpoint.mac)
        if world.guard:
            yield from source_guard.flows(endpoint, layer2=True, arp=not proxied)


def _look_up(marks: Bits) -> Instructions:
    return Instructions(metadata=marks, goto=TableId.NEIGHBOURS)


def _input(owner: ObjectKind, priority: Priority, match: Match, instructions: Instructions) -> Flow:
    return Flow(owner, TableId.INPUT, priority, match, instructions)
