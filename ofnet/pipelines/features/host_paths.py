"""The host's connections to pods, at their own addresses and past policy.

Kubernetes demands that a node reaches the pods on it whatever the policies are: for probes, logs
and forwarded ports. The host has a route to each of its pods by its port on the pod's bridge
(`netplugin.bridges.host.host_routes`). Table 2 hands what comes in there to the pod and enters the
connection into a zone of connection tracking; table 4 takes the pod's answers out to the host. All
modes have this for the host's own pods; vxlan networks have it for those of other hosts too.

What the host forwards comes by the same port, from other addresses than its own, and meets the
policies first (`ofnet.pipelines.features.host_forwarding`).
"""

# Invariant: past policy go the host's own packets, and answers. Table 4 sends a pod's packet out to
# the host only if the zone knows its connection from the other direction, and only the host's port
# enters connections there. A connection that the pod begins is new in the zone and meets policy and
# the pod guard as before; so does a packet with the tuple of another pod's connection, since the
# flow that takes an answer out names the pod's port.
#
# Which packets of pods may be answers? Those to an address the host uses, and those to an address
# that belongs to no endpoint: the host also forwards connections from outside that keep their
# source (node ports, ports of the host). Connections between endpoints are not looked up.
#
# On the kernel's datapath packets come by the host's port as the host's firewall tracked them, in a
# zone that is not of these tables: they would be taken for looked up, and never be entered. Table 0
# has Open vSwitch forget that (since 2.17.2; others leave it as it is).
#
# What comes by the host's port under the private address of a pod is a pod's packet that the host
# routes back, from another tenant or against a policy: it is dropped. Private addresses of pods are
# the lower half of the private network (`netplugin.world.bridges.port_names`).

# Vlan networks: a pod's request to a service whose provider is its own host leaves by the physical
# network, translated, and the host answers by its route to the pod. So what the host sends passes
# the zone of the pod's services first, where the answer gets the service's address.

# Pods of other hosts (vxlan networks): the host's packets leave by the tunnel with the tunnel's own
# address as source, which the other host accepts from that tunnel alone. It enters them into a
# second zone, so that it can tell for whom an answer to that address is: for the tunnel, or for its
# own stack, which may forward connections of the other host as well. Where tunnels have addresses
# of IPv6 the source of IPv4 is made of them (`ofnet.world.tunnel_source4`), and that of IPv6 of the
# one of IPv4 (`tunnel_source6`). To the other host this one is outside: it forwards under the same
# address, and no policy can tell.

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    AS_COMMITTED,
    DROP,
    Action,
    Conntrack,
    ConntrackCommit,
    Instructions,
    Output,
    PopVlan,
    SetField,
    instructions_by,
)
from ofnet.openflow.fields import (
    CT_INVALID,
    CT_REPLY,
    CT_TRACKED,
    FROM_HOST,
    RX_VTEP,
    VRF,
    CtState,
)
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.features import host_forwarding
from ofnet.pipelines.features.feature import Feature, of_world
from ofnet.pipelines.packet_path import neighbours, stages
from ofnet.tables import Mode, Priority, TableId, vrf_in, zone_of
from ofnet.world import (
    ArpMode,
    HostPort,
    LocalEndpoint,
    Network,
    RemoteEndpoint,
    Vtep,
    World,
    tunnel_source6,
)

ZONES: Final[Mapping[Mode, int]] = {
    Mode.VROUTER: 0xFE01,
    Mode.VXLAN: 0xFE01,
    Mode.VLROUTER: 0xFE02,
    Mode.VLAN: 0xFE02,
}
"""The zone of the host's connections: one per bridge, as both bridges may share a datapath."""

TUNNEL_ZONE: Final = 0xFE03
"""The zone of connections that other hosts open by their tunnels."""

_TUNNELLED: Final = frozenset({Mode.VROUTER, Mode.VXLAN})
_SERVED_BESIDE: Final = frozenset({Mode.VLROUTER, Mode.VLAN})
"""Where a pod's request to a service on its host takes another way than the host's answer."""

_FAMILIES: Final = (oxm.ETH_IPV4, oxm.ETH_IPV6)
_OF_PODS: Final = RX_VTEP.put(0) | FROM_HOST.put(0)
_ARRIVED: Final = RX_VTEP.put(1)
_OWN: Final = FROM_HOST.put(1)
_TRACKED: Final = CtState(CT_TRACKED, CT_TRACKED)
_VALID: Final = CtState(CT_TRACKED, CT_TRACKED | CT_INVALID)
_UNTRACKED: Final = CtState(0, CT_TRACKED)
_ANSWER: Final = CtState(CT_TRACKED | CT_REPLY, CT_TRACKED | CT_REPLY | CT_INVALID)


def entrance(owner: ObjectKind, port: HostPort) -> Iterator[Flow]:
    """Yield the flows that send everything from the host's port to table 2."""
    from_host = Match(in_port=port.ofport)
    yield Flow(owner, TableId.INPUT, Priority.HOST_PORT, from_host, host_forwarding.ENTERED)
    # the MAC of `contivh0` has the pods' prefix, which the DNS interception matches
    yield stages.dns_exemption(owner, port.ofport, host_forwarding.ENTERED)


def host_port(mode: Mode, world: World) -> Iterator[Flow]:
    """Yield the flows of the host's port; none before the host's addresses are known."""
    port = world.host_port
    if port is None or not port.sources:
        return
    yield from entrance(ObjectKind.HOST_PORT, port)
    yield from host_forwarding.own_sources(port)
    yield from host_forwarding.looked_up(port, ZONES[mode], commits_errors=world.commits_errors)
    yield from host_forwarding.entered(mode, ZONES[mode], 0)
    (of_pods, _) = port.subnet.subnets()
    forged = Match(in_port=port.ofport, eth_type=oxm.ETH_IPV4, ipv4_src=of_pods)
    yield _flow(TableId.INGRESS_GROUP, Priority.HOST_FORGED, forged, DROP)
    look_up = Instructions((Conntrack(table=TableId.DST_GRP, zone=ZONES[mode]),))
    of_pods_new: MatchFields = {"metadata": _OF_PODS, "ct_state": _UNTRACKED}
    for source in port.sources:
        to_host: MatchFields = {**of_pods_new, **stages.to_address(source)}
        yield _flow(TableId.DST_GRP, Priority.EXEMPT, Match(**to_host), look_up)
    for eth_type in _FAMILIES:
        elsewhere: MatchFields = {**of_pods_new, "eth_type": eth_type}
        yield _flow(TableId.DST_GRP, Priority.HOST_PATH, Match(**elsewhere), look_up)
    if mode in _TUNNELLED:
        yield from host_forwarding.to_other_hosts(
            port, ZONES[mode], unchanged_nat=world.unchanged_nat
        )
        yield from host_forwarding.by_tunnel(TUNNEL_ZONE)
        yield from host_forwarding.entered(mode, TUNNEL_ZONE, 1)
        yield from _answers_of_others(mode, port)
    if mode is Mode.VXLAN:
        to_gateway = Match(eth_dst=stages.ROUTER_MAC)
        yield _flow(TableId.MAC_DEST, Priority.HOST_PATH, to_gateway, DROP)


def management(mode: Mode, address: IPv4Network | IPv6Network, world: World) -> Iterator[Flow]:
    """Yield the look-up of what pods send to an address of the cluster's management.

    Where all tenants share the physical network's addresses, the flow that marks the address
    (`ofnet.pipelines.features.pod_guard`) is above those of endpoints, and so above the look-up of
    others.
    """
    port = world.host_port
    if mode not in {Mode.VLAN, Mode.VLROUTER} or port is None or not port.sources:
        return
    new: MatchFields = {"metadata": _OF_PODS, "ct_state": _UNTRACKED}
    if isinstance(address, IPv4Network):
        new |= {"eth_type": oxm.ETH_IPV4, "ipv4_dst": oxm.shortest(address)}
    else:
        new |= {"eth_type": oxm.ETH_IPV6, "ipv6_dst": oxm.shortest(address)}
    look_up = Instructions((Conntrack(table=TableId.DST_GRP, zone=ZONES[mode]),))
    yield Flow(ObjectKind.MANAGEMENT, TableId.DST_GRP, Priority.EXEMPT, Match(**new), look_up)


def _answers_of_others(mode: Mode, port: HostPort) -> Iterator[Flow]:
    """Yield the flows of answers to this host that pods of other hosts send by a tunnel."""
    # in answers to what the host forwarded the client is put back for this host
    look_up = Instructions((Conntrack(TableId.INGRESS_GROUP, ZONES[mode], nat=AS_COMMITTED),))
    for arrived in _arrived(port):
        new: MatchFields = {**arrived, "ct_state": _UNTRACKED}
        yield _flow(TableId.INGRESS_GROUP, Priority.EXEMPT, Match(**new), look_up)
    if mode is Mode.VROUTER:
        for eth_type in _FAMILIES:
            known: MatchFields = {"metadata": _ARRIVED, "eth_type": eth_type}
            known |= {"ct_state": _ANSWER, "ct_zone": ZONES[mode]}
            yield _flow(TableId.INGRESS_GROUP, Priority.TO_HOST, Match(**known), _out(mode, port))


def _arrived(port: HostPort) -> Iterator[MatchFields]:
    for source in port.tunnel_sources:
        yield {"metadata": _ARRIVED, **stages.to_address(source)}


def vtep(mode: Mode, vtep: Vtep, world: World) -> Iterator[Flow]:
    """Yield the flows of another host's own packets to pods of this one, and of the answers."""
    port = world.host_port
    if mode not in _TUNNELLED or port is None or not port.sources:
        return
    yield from _of_sender(mode, vtep, vtep.source)
    if any(one.version == 6 for one in port.tunnel_sources):
        yield from _of_sender(mode, vtep, tunnel_source6(vtep.source))


def _of_sender(mode: Mode, vtep: Vtep, sender: IPv4Address | IPv6Address) -> Iterator[Flow]:
    """Yield the flows of what another host sends by its tunnel under an address of its own."""
    for sent, act in host_forwarding.of_sender(vtep.ofport, sender, TUNNEL_ZONE):
        yield Flow(ObjectKind.VTEP, TableId.INGRESS_GROUP, Priority.MATCH, sent, act)
    back: MatchFields = {"metadata": _OF_PODS, **stages.to_address(sender)}
    of_tunnel = Instructions((Conntrack(TableId.DST_GRP, TUNNEL_ZONE),))
    of_host = Instructions((Conntrack(TableId.DST_GRP, ZONES[mode]),))
    again: MatchFields = {**back, "ct_state": _TRACKED, "ct_zone": TUNNEL_ZONE}
    yield _of_vtep(TableId.DST_GRP, Priority.EXEMPT, {**back, "ct_state": _UNTRACKED}, of_tunnel)
    yield _of_vtep(TableId.DST_GRP, Priority.ABOVE_MATCH, again, of_host)
    to_tunnel = Instructions((SetField("eth_dst", stages.ROUTER_MAC), Output(vtep.ofport)))
    yield _of_vtep(TableId.HOST_ANSWERS, Priority.MATCH, stages.to_address(sender), to_tunnel)


def remote(mode: Mode, endpoint: RemoteEndpoint, world: World) -> Iterator[Flow]:
    """Yield the flows from this host to a pod of another one."""
    port, network = world.host_port, world.networks.get(endpoint.network)
    vtep = world.vteps.get(endpoint.host)
    if mode not in _TUNNELLED or port is None or not port.sources or not endpoint.routed:
        return
    if network is None or vtep is None or not network.vni:
        return
    for address in stages.addresses(endpoint):
        if any(one.version == address.version for one in port.tunnel_sources):
            to = _sent_by_host(port.ofport, address.version)(address)
            # the other host routes to the pod, or bridges
            if mode is Mode.VROUTER:
                send = _to_router(network.vni, vtep.ofport)
            else:
                send = _into_tunnel(network.vni, vtep.ofport)(endpoint.mac)
            where = TableId.INGRESS_GROUP, Priority.HOST_PATH
            yield Flow(ObjectKind.REMOTE, *where, to, send)


@lru_cache(maxsize=16)
def _sent_by_host(ofport: int, version: int) -> Callable[[IPv4Address | IPv6Address], Match]:
    return stages.by_address("dst", version, in_port=ofport, metadata=_OWN, ct_state=_VALID)


@lru_cache(maxsize=4096)
def _into_tunnel(vni: int, ofport: int) -> Callable[[str], Instructions]:
    before = (SetField("tunnel_id", vni), SetField("eth_src", stages.ROUTER_MAC))
    return instructions_by(before, "eth_dst", (Output(ofport),))


@lru_cache(maxsize=4096)
def _to_router(vni: int, ofport: int) -> Instructions:
    # cached, because all endpoints of a network on one host share it
    return _into_tunnel(vni, ofport)(stages.ROUTER_MAC)


def network(mode: Mode, network: Network, world: World) -> Iterator[Flow]:
    """Yield the answers for the gateways of a bridged vxlan network, where no endpoint has them.

    A pod answers its host by way of its gateway. The physical network of a vlan has one; behind a
    tunnel there are endpoints alone. What pods then send to this MAC address is dropped in table 9.
    """
    port = world.host_port
    if mode is not Mode.VXLAN or port is None or not port.sources:
        return
    if network.gateway is None and network.gateway6 is None:
        return
    for eth_type in _FAMILIES:
        known: MatchFields = {"metadata": _ARRIVED, "eth_type": eth_type, "vlan_vid": network.vlan}
        known |= {"ct_state": _ANSWER, "ct_zone": ZONES[mode]}
        out = _out(mode, port)
        yield Flow(ObjectKind.NETWORK, TableId.INGRESS_GROUP, Priority.TO_HOST, Match(**known), out)
    pods = VRF.put(network.vrf) | RX_VTEP.put(0)
    if network.gateway is not None and world.arp_mode is ArpMode.PROXY:
        yield neighbours.arp_answer(
            ObjectKind.NETWORK, pods, network.gateway, stages.ROUTER_MAC, Priority.PORT
        )
    if network.gateway6 is not None:
        asked = pods, network.gateway6
        yield neighbours.nd_request(ObjectKind.NETWORK, *asked)
        yield neighbours.nd_answer(ObjectKind.NETWORK, *asked, stages.ROUTER_MAC)


def local(mode: Mode, endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
    """Yield the flows between the host and one of its pods."""
    port, network = world.host_port, world.networks.get(endpoint.network)
    if port is None or not port.sources or network is None:
        return
    yield from _to_pod(mode, endpoint, vrf_in(mode, network.vrf), port)
    yield from host_forwarding.to_pod(mode, endpoint, network, port)
    yield from _answers(mode, endpoint, network.vlan, port)
    if mode in _TUNNELLED and network.vni:
        for address in stages.addresses(endpoint):
            if address in endpoint.routed:
                yield _answer_to_tunnel(mode, endpoint, network, address)


def _to_pod(mode: Mode, endpoint: LocalEndpoint, vrf: int, port: HostPort) -> Iterator[Flow]:
    deliver = Instructions(
        actions=(
            ConntrackCommit(zone=ZONES[mode]),
            SetField("eth_src", stages.ROUTER_MAC),
            SetField("eth_dst", endpoint.mac),
            Output(endpoint.ofport),
        )
    )
    for address in sorted(endpoint.routed, key=str):
        to: MatchFields = {"in_port": port.ofport, "metadata": _OWN}
        to |= stages.to_address(address)
        if mode in _SERVED_BESIDE:
            translate = Conntrack(TableId.INGRESS_GROUP, zone_of(mode, vrf), nat=AS_COMMITTED)
            new: MatchFields = {**to, "ct_state": _UNTRACKED}
            to["ct_state"] = _TRACKED
            yield _of_pod(TableId.INGRESS_GROUP, new, Instructions((translate,)))
        yield _of_pod(TableId.INGRESS_GROUP, to, deliver)


def _answers(mode: Mode, endpoint: LocalEndpoint, vlan: int, port: HostPort) -> Iterator[Flow]:
    tagged: MatchFields = {"vlan_vid": vlan} if mode is Mode.VXLAN else {}
    out = _out(mode, port)
    for eth_type in sorted({stages.to_address(one)["eth_type"] for one in endpoint.routed}):
        answer: MatchFields = {**tagged, "in_port": endpoint.ofport, "eth_type": eth_type}
        answer |= {"ct_state": _ANSWER, "ct_zone": ZONES[mode]}
        yield Flow(ObjectKind.LOCAL, TableId.DST_GRP, Priority.TO_HOST, Match(**answer), out)


def _answer_to_tunnel(
    mode: Mode, endpoint: LocalEndpoint, network: Network, address: IPv4Address | IPv6Address
) -> Flow:
    tagged: MatchFields = {"vlan_vid": network.vlan} if mode is Mode.VXLAN else {}
    family = stages.to_address(address)["eth_type"]
    answer: MatchFields = {**tagged, "in_port": endpoint.ofport, "eth_type": family}
    answer |= {"ct_state": _ANSWER, "ct_zone": TUNNEL_ZONE}
    actions = (*_untagged(mode), SetField("tunnel_id", network.vni))
    onward = Instructions(actions, goto=TableId.HOST_ANSWERS)
    return Flow(ObjectKind.LOCAL, TableId.DST_GRP, Priority.TO_HOST, Match(**answer), onward)


def _out(mode: Mode, port: HostPort) -> Instructions:
    actions = (*_untagged(mode), SetField("eth_dst", port.mac), Output(port.ofport))
    return Instructions(actions)


def _untagged(mode: Mode) -> tuple[Action, ...]:
    # table 1 has put a tag on a packet where networks are VLANs inside the switch
    return (PopVlan(),) if mode is Mode.VXLAN else ()


def _of_pod(table: TableId, fields: MatchFields, instructions: Instructions) -> Flow:
    return Flow(ObjectKind.LOCAL, table, Priority.HOST_PATH, Match(**fields), instructions)


def _of_vtep(
    table: TableId, priority: Priority, fields: MatchFields, instructions: Instructions
) -> Flow:
    return Flow(ObjectKind.VTEP, table, priority, Match(**fields), instructions)


def _flow(table: TableId, priority: Priority, match: Match, instructions: Instructions) -> Flow:
    return Flow(ObjectKind.HOST_PORT, table, priority, match, instructions)


def feature(mode: Mode) -> Feature:
    """Return the flows between the host and pods."""
    return {
        ObjectKind.HOST_PORT: of_world(partial(host_port, mode)),
        ObjectKind.VTEP: partial(vtep, mode),
        ObjectKind.NETWORK: partial(network, mode),
        ObjectKind.LOCAL: partial(local, mode),
        ObjectKind.REMOTE: partial(remote, mode),
        ObjectKind.MANAGEMENT: partial(management, mode),
    }
