"""The stages that pipelines share: DNS and ARP interception, port input, destination groups.

The flows are the original's (docs/original/ofnet-pipelines.md §3-6).
"""

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, Literal, Unpack

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    DROP,
    TO_CONTROLLER,
    Action,
    ConntrackClear,
    Instructions,
    PopVlan,
    SetField,
    goto,
)
from ofnet.openflow.fields import (
    DESTINATION_GROUP,
    FROM_HOST,
    MANAGEMENT,
    SOURCE_GROUP,
    VRF,
    Bits,
)
from ofnet.openflow.match import Match, MatchFields, matches_by
from ofnet.openflow.meters import Meter
from ofnet.tables import TABLES, Mode, Priority, TableId
from ofnet.world import LocalEndpoint, Network, RemoteEndpoint, Uplink, World

ROUTER_MAC: Final = "00:00:11:11:11:11"
"""The distributed router's address on every host."""

DNS_PORT: Final = 53
DNS_RETURN_VLAN: Final = 4093
"""Marks an intercepted DNS packet that the agent returns to the tables."""

Where = IPv4Address | IPv6Address | IPv4Network | IPv6Network

POD_MACS: Final = "02:02:00:00:00:00/ff:ff:00:00:00:00"
DNS_OF_PODS: Final[MatchFields] = {
    "eth_type": oxm.ETH_IPV4,
    "ip_proto": oxm.PROTO_UDP,
    "eth_src": POD_MACS,
    "udp_dst": DNS_PORT,
}
_MULTICAST_MACS: Final = "01:00:00:00:00:00/01:00:00:00:00:00"


def misses(mode: Mode) -> Iterator[Flow]:
    """Yield the miss flow of each of the mode's tables."""
    for table in TABLES.values():
        if mode in table.misses:
            yield Flow(ObjectKind.PIPELINE, table.id, Priority.MISS, Match(), table.misses[mode])


def dns_interception(world: World) -> Iterator[Flow]:
    """Yield the flows that send the pods' DNS requests to the agent, and pass the returned ones.

    With the guard on, a returned request passes by a flow of its pod's guard (`source_guard`). With
    a port of the name service, requests take the way by `ofnet.pipelines.features.name_port`.
    """
    # The mark of a returned request is a VLAN tag, which a pod can write itself. Unguarded, such a
    # packet reaches the real DNS server directly, which does no harm. Guarded, it must also
    # have the pod's own addresses, or the mark would be a way around the guard.
    if world.name_port is None:
        request = Match(**DNS_OF_PODS)
        yield Flow(ObjectKind.PIPELINE, TableId.INPUT, Priority.MATCH, request, TO_CONTROLLER)
    if not world.guard:
        yield returned_dns(ObjectKind.PIPELINE, {"eth_src": POD_MACS})


def returned_dns(
    owner: ObjectKind, sender: MatchFields, *, tcp: bool = False, eth_type: int = oxm.ETH_IPV4
) -> Flow:
    """Return the flow that passes DNS requests returned by the agent, or past it."""
    fields: MatchFields = {**sender, "vlan_vid": DNS_RETURN_VLAN, "eth_type": eth_type}
    if tcp:
        fields |= {"ip_proto": oxm.PROTO_TCP, "tcp_dst": DNS_PORT}
    else:
        fields |= {"ip_proto": oxm.PROTO_UDP, "udp_dst": DNS_PORT}
    onward = Instructions(actions=(PopVlan(),), goto=TableId.VLAN)
    return Flow(owner, TableId.INPUT, Priority.ABOVE_MATCH, Match(**fields), onward)


def multicast_source_drop() -> Flow:
    """Return the flow that drops frames with a multicast source MAC, ARP included."""
    grouped = Match(eth_src=_MULTICAST_MACS)
    return Flow(ObjectKind.PIPELINE, TableId.INPUT, Priority.ABOVE_MATCH, grouped, DROP)


def arp_to_controller(*, requests_only: bool) -> Flow:
    """Return the flow that sends ARP to the agent."""
    match = Match(eth_type=oxm.ETH_ARP)
    if requests_only:
        match = Match(eth_type=oxm.ETH_ARP, arp_op=1)
    return Flow(ObjectKind.PIPELINE, TableId.INPUT, Priority.MATCH, match, TO_CONTROLLER)


def dns_exemption(owner: ObjectKind, ofport: int, onward: Instructions | None = None) -> Flow:
    """Return the flow that exempts DNS from a port without a pod from the interception."""
    match = Match(in_port=ofport, eth_type=oxm.ETH_IPV4, ip_proto=oxm.PROTO_UDP, udp_dst=DNS_PORT)
    return Flow(owner, TableId.INPUT, Priority.EXEMPT, match, onward or goto(TableId.VLAN))


def uplink_input(uplink: Uplink, arrived: Instructions) -> Iterator[Flow]:
    """Yield the flows of an uplink; `arrived` is for packets on no network's VLAN."""
    yield dns_exemption(ObjectKind.UPLINKS, uplink.ofport)
    match = Match(in_port=uplink.ofport)
    yield Flow(ObjectKind.UPLINKS, TableId.VLAN, Priority.MATCH, match, arrived)


def port_input(
    endpoint: LocalEndpoint, vrf: int, *, tagging: tuple[Action, ...] = ()
) -> Iterator[Flow]:
    """Yield the flows that limit a pod's packets, and set their VRF, source group and DSCP."""
    meter = Meter.of_port(endpoint.ofport, endpoint.rate, endpoint.burst)
    marks = VRF.put(vrf)
    if endpoint.group_id:
        marks |= SOURCE_GROUP.put(endpoint.group_id)
    if endpoint.of_host:
        marks |= FROM_HOST.put(1)
        # as what comes by the host's own port (`ofnet.pipelines.features.host_paths`)
        tagging = (ConntrackClear(), *tagging)
    yield into_tables(ObjectKind.LOCAL, endpoint.ofport, marks, tagging=tagging, meter=meter)
    if not endpoint.dscp:
        return
    actions = (SetField("ip_dscp", endpoint.dscp), *tagging)
    for eth_type in (oxm.ETH_IPV4, oxm.ETH_IPV6):
        yield Flow(
            ObjectKind.LOCAL,
            TableId.VLAN,
            Priority.MATCH,
            Match(in_port=endpoint.ofport, eth_type=eth_type),
            Instructions(actions, marks, TableId.SRV_PROXY_DNAT, meter),
        )


def into_tables(
    owner: ObjectKind,
    ofport: int,
    marks: Bits,
    *,
    tagging: tuple[Action, ...] = (),
    meter: Meter | None = None,
) -> Flow:
    """Return the flow that sets the metadata of packets from a port of this host."""
    onward = Instructions(tagging, marks, TableId.SRV_PROXY_DNAT, meter)
    return Flow(owner, TableId.VLAN, Priority.PORT, Match(in_port=ofport), onward)


def destination(address: IPv4Address | IPv6Address, vrf: int) -> Match:
    """Return the match of packets to an address within a VRF."""
    return _destinations(vrf, address.version)(address)


@cache
def _destinations(vrf: int, version: int) -> Callable[[IPv4Address | IPv6Address], Match]:
    return by_address("dst", version, metadata=VRF.put(vrf))


def by_address(
    end: Literal["src", "dst"], version: int, **others: Unpack[MatchFields]
) -> Callable[[IPv4Address | IPv6Address], Match]:
    """Return what makes matches of packets from or to an address each, all else the same."""
    others["eth_type"] = oxm.ETH_IPV4 if version == 4 else oxm.ETH_IPV6
    return matches_by(f"ipv{version}_{end}", **others)


def to_address(address: Where) -> MatchFields:
    """Return the match of packets to an address or network in any VRF."""
    if isinstance(address, IPv4Address | IPv4Network):
        return {"eth_type": oxm.ETH_IPV4, "ipv4_dst": address}
    return {"eth_type": oxm.ETH_IPV6, "ipv6_dst": address}


def from_address(address: Where) -> MatchFields:
    """Return the match of packets from an address or network in any VRF."""
    if isinstance(address, IPv4Address | IPv4Network):
        return {"eth_type": oxm.ETH_IPV4, "ipv4_src": address}
    return {"eth_type": oxm.ETH_IPV6, "ipv6_src": address}


def addresses(
    endpoint: LocalEndpoint | RemoteEndpoint,
) -> Iterator[IPv4Address | IPv6Address]:
    """Yield the one or two addresses of an endpoint."""
    if endpoint.ip is not None:
        yield endpoint.ip
    if endpoint.ip6 is not None:
        yield endpoint.ip6


def gateways(network: Network) -> Iterator[IPv4Address | IPv6Address]:
    """Yield the addresses of a network's gateways, if it has any."""
    if network.gateway is not None:
        yield network.gateway
    if network.gateway6 is not None:
        yield network.gateway6


def destination_groups(
    owner: ObjectKind, endpoint: LocalEndpoint | RemoteEndpoint, vrf: int
) -> Iterator[Flow]:
    """Yield the flows that set an endpoint's group as the destination group of packets to it."""
    for address in addresses(endpoint):
        yield destination_group(owner, destination(address, vrf), endpoint)


def destination_group(
    owner: ObjectKind, to: Match, endpoint: LocalEndpoint | RemoteEndpoint
) -> Flow:
    """Return the flow that marks packets to an address of an endpoint by its group."""
    marks = _group_marks(endpoint.group_id, of_host=endpoint.of_host)
    return Flow(owner, TableId.DST_GRP, Priority.MATCH, to, marks)


@lru_cache(maxsize=4096)
def _group_marks(group_id: int, *, of_host: bool) -> Instructions:
    marks = DESTINATION_GROUP.put(group_id)
    if of_host:
        marks |= MANAGEMENT.put(1)
    return Instructions(metadata=marks, goto=TableId.POLICY)
