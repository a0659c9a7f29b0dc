"""Who has which address: ARP and neighbour discovery answered by the switch itself.

A pod's question leaves table 0 for table 10, which has a flow for every address that can be
answered; what it does not know goes up to the agent. Since no agent is asked for what is known, new
paths work while it is down. (The original's agent answers all ARP, and nothing answers IPv6.)

Left alone are probes for duplicates and announcements: a question with one's own address, or with
none, is not one for somebody else.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    DROP,
    PORT_IN_PORT,
    TO_CONTROLLER,
    Instructions,
    Move,
    Output,
    SetField,
)
from ofnet.openflow.fields import RX_VTEP, VRF, Bits
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines import source_guard
from ofnet.tables import Priority, TableId
from ofnet.world import ArpMode, LocalEndpoint, Network, RemoteEndpoint, World

ARP_REQUEST: Final = 1
ARP_REPLY: Final = 2
TARGET_LINK_LAYER: Final = 2
"""The kind of option that carries the MAC address in an advertisement."""

SOLICITED_OVERRIDE: Final = 0x60000000

_TO_ASKER: Final = Move("eth_src", "eth_dst")
_REPLY: Final = SetField("arp_op", ARP_REPLY)
_ASKERS_MAC: Final = Move("arp_sha", "arp_tha")
_ASKERS_ADDRESS: Final = Move("arp_spa", "arp_tpa")
_BACK: Final = Output(PORT_IN_PORT)
"""What answers to all have in common, once: there are as many answers as endpoints."""

_NOBODY4: Final = IPv4Address(0)
_NOBODY6: Final = IPv6Address("::")


def unanswered() -> Flow:
    """Return the flow that has the agent decide about what the switch cannot answer."""
    return Flow(ObjectKind.PIPELINE, TableId.NEIGHBOURS, Priority.MISS, Match(), TO_CONTROLLER)


def advertisement(mac: str) -> Flow:
    """Return the flow that completes and sends an answer to an IPv6 question."""
    match = Match(eth_type=oxm.ETH_IPV6, ip_proto=oxm.PROTO_ICMP6, icmpv6_type=oxm.ND_ADVERT)
    send = Instructions((SetField("nd_tll", mac), Output(PORT_IN_PORT)))
    return Flow(ObjectKind.PIPELINE, TableId.NEIGHBOUR_REPLY, Priority.MATCH, match, send)


def arp_requests(endpoint: LocalEndpoint, vrf: int, *, guard: bool) -> Iterator[Flow]:
    """Yield what becomes of a pod's ARP requests; guarded, of those in its own name alone."""
    request: MatchFields = {
        "in_port": endpoint.ofport,
        "eth_type": oxm.ETH_ARP,
        "arp_op": ARP_REQUEST,
    }
    asked, own = request, endpoint.ip
    if guard:
        asked = {**request, "eth_src": endpoint.mac, "arp_sha": endpoint.mac, "arp_spa": own}
    announced: MatchFields = {**request, "arp_spa": own, "arp_tpa": own}
    probed: MatchFields = {**request, "arp_spa": _NOBODY4}
    yield _input(ObjectKind.LOCAL, Priority.QUESTION, Match(**asked), _ask(VRF.put(vrf)))
    yield _input(ObjectKind.LOCAL, Priority.ANNOUNCEMENT, Match(**announced), DROP)
    yield _input(ObjectKind.LOCAL, Priority.ANNOUNCEMENT, Match(**probed), DROP)


def solicitations(endpoint: LocalEndpoint, vrf: int) -> Iterator[Flow]:
    """Yield what becomes of a pod's neighbour solicitations."""
    if endpoint.ip6 is None:
        return
    asked = Match(
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
        ipv6_src=_NOBODY6,
    )
    yield _input(ObjectKind.LOCAL, Priority.QUESTION, asked, _ask(VRF.put(vrf)))
    yield _input(ObjectKind.LOCAL, Priority.ANNOUNCEMENT, probed, DROP)


def uplink_arp_requests(owner: ObjectKind, ofport: int, vlan: int, vrf: int) -> Flow:
    """Return the flow for ARP requests that come in on a VLAN of an uplink."""
    asked = Match(in_port=ofport, vlan_vid=vlan, eth_type=oxm.ETH_ARP, arp_op=ARP_REQUEST)
    return _input(owner, Priority.QUESTION, asked, _ask(VRF.put(vrf) | RX_VTEP.put(1)))


def lookup(owner: ObjectKind, asked: Match, asker: Bits) -> Flow:
    """Return the flow that has a question answered as to whom `asker` marks."""
    return _input(owner, Priority.QUESTION, asked, _ask(asker))


def arp_answer(owner: ObjectKind, asker: Bits, address: IPv4Address, mac: str) -> Flow:
    """Return the flow that tells the MAC of an IPv4 address to whom `asker` marks."""
    match = Match(metadata=asker, eth_type=oxm.ETH_ARP, arp_tpa=address)
    reply = Instructions(
        (
            _TO_ASKER,
            SetField("eth_src", mac),
            _REPLY,
            _ASKERS_MAC,
            _ASKERS_ADDRESS,
            SetField("arp_sha", mac),
            SetField("arp_spa", address),
            _BACK,
        )
    )
    return Flow(owner, TableId.NEIGHBOURS, Priority.MATCH, match, reply)


def nd_answer(owner: ObjectKind, asker: Bits, address: IPv6Address, mac: str) -> Flow:
    """Return the flow that begins the answer for an IPv6 address; `advertisement` ends it."""
    match = Match(
        metadata=asker,
        eth_type=oxm.ETH_IPV6,
        ip_proto=oxm.PROTO_ICMP6,
        icmpv6_type=oxm.ND_SOLICIT,
        nd_target=address,
    )
    reply = Instructions(
        (
            _TO_ASKER,
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


def answers(
    owner: ObjectKind, asker: Bits, addresses: Iterator[IPv4Address | IPv6Address], mac: str
) -> Iterator[Flow]:
    """Yield the flows that tell one MAC for each of the addresses."""
    for address in addresses:
        if isinstance(address, IPv4Address):
            yield arp_answer(owner, asker, address, mac)
        else:
            yield nd_answer(owner, asker, address, mac)


def bridged(
    endpoint: LocalEndpoint | RemoteEndpoint, network: Network, world: World
) -> Iterator[Flow]:
    """Yield how an endpoint of a bridged network is asked for, and asks, as itself.

    Whoever is outside hears of the endpoints of this host alone, of others from theirs. IPv6
    neighbours find each other by multicast.
    """
    local = isinstance(endpoint, LocalEndpoint)
    proxied = world.arp_mode is ArpMode.PROXY
    if proxied:
        # one match for both kinds: of an address known here and elsewhere a single MAC is told
        inside = VRF.put(network.vrf) | RX_VTEP.put(0)
        owner = ObjectKind.LOCAL if local else ObjectKind.REMOTE
        yield arp_answer(owner, inside, endpoint.ip, endpoint.mac)
    if isinstance(endpoint, LocalEndpoint):
        if proxied:
            yield from arp_requests(endpoint, network.vrf, guard=world.guard)
        if proxied and world.uplinks:
            outside = VRF.put(network.vrf) | RX_VTEP.put(1)
            yield arp_answer(ObjectKind.LOCAL, outside, endpoint.ip, endpoint.mac)
        if world.guard:
            yield from source_guard.flows(endpoint, layer2=True, arp=not proxied)


def _ask(marks: Bits) -> Instructions:
    return Instructions(metadata=marks, goto=TableId.NEIGHBOURS)


def _input(owner: ObjectKind, priority: Priority, match: Match, instructions: Instructions) -> Flow:
    return Flow(owner, TableId.INPUT, priority, match, instructions)
