"""vxlan networks, routed: every host is the router of all of its pods (contivVxlanBridge).

Inside a VRF packets are forwarded by address alone: table 7 rewrites the MACs and sends to a port
or into a tunnel. Packets to an unknown address go to the host through `contivh0`, with the pod's
private address as source (table 8); their replies come back through table 2. In table 2 the
original has nothing else.
"""

# Every match of an address has its VRF beside it: tenants' addresses overlap. The one place without
# a VRF is the host's private network, where each pod has an address that is unique on the host
# (`nat_ip`). So the NAT of tables 8 and 2 is one to one and keeps no state.
#
# But for fragments: where an address is set, the userspace datapath takes two bytes of a later
# fragment for the checksum of UDP or TCP, and changes them (Open vSwitch 3.1). Connection tracking
# translates the whole packet, so fragments go through it, to the same addresses. A fragment that it
# does not translate, because it is too short or its packet incomplete, is dropped.
#
# Errors of ICMP quote a packet, and no action sets an address in there: the agent does
# (`ofnet.packetin`).

from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    DROP,
    TO_CONTROLLER,
    Conntrack,
    Instructions,
    Load,
    Nat,
    Output,
    SetField,
)
from ofnet.openflow.fields import FRAGMENT_ANY, VRF
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines import (
    fragments,
    host_access,
    host_paths,
    ingress_group,
    neighbours,
    pod_guard,
    service_nat,
    source_guard,
    stages,
    tunnel_probes,
)
from ofnet.pipelines.pipeline import Pipeline
from ofnet.tables import Mode, Priority, TableId, fragment_zone_of
from ofnet.world import HostPort, LocalEndpoint, Network, RemoteEndpoint, Vtep, World


def _start(world: World) -> Iterator[Flow]:
    yield from stages.misses(Mode.VROUTER)
    yield from stages.dns_interception(world)
    yield from fragments.flows()
    yield from tunnel_probes.flows()
    yield stages.multicast_source_drop()
    if not world.guard:
        yield ingress_group.unknown_sources()
    yield stages.arp_to_controller(requests_only=False)
    yield neighbours.unanswered()
    yield neighbours.advertisement(stages.ROUTER_MAC)


def _vtep(vtep: Vtep, _world: World) -> Iterator[Flow]:
    yield stages.dns_exemption(ObjectKind.VTEP, vtep.ofport)


def _network(network: Network, world: World) -> Iterator[Flow]:
    gateways = stages.gateways(network)
    yield from neighbours.answers(
        ObjectKind.NETWORK, VRF.put(network.vrf), gateways, stages.ROUTER_MAC
    )
    if not network.vni:
        return
    arrived = ingress_group.ingress_instructions(network.vrf)
    for vtep in world.vteps.values():
        match = Match(in_port=vtep.ofport, tunnel_id=network.vni)
        yield Flow(ObjectKind.NETWORK, TableId.VLAN, Priority.MATCH, match, arrived)


def _local(endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    if network is None:
        return
    yield from stages.port_input(endpoint, network.vrf)
    to_port = Instructions(
        actions=(
            SetField("eth_src", stages.ROUTER_MAC),
            SetField("eth_dst", endpoint.mac),
            Output(endpoint.ofport),
        )
    )
    for address in stages.addresses(endpoint):
        to = stages.destination(address, network.vrf)
        yield Flow(ObjectKind.LOCAL, TableId.IP, Priority.MATCH, to, to_port)
        yield stages.destination_group(ObjectKind.LOCAL, to, endpoint)
    yield from _neighbours(ObjectKind.LOCAL, endpoint, network.vrf)
    yield from neighbours.arp_requests(endpoint, network.vrf, guard=world.guard)
    yield from neighbours.solicitations(endpoint, network.vrf)
    if world.guard:
        yield from source_guard.flows(endpoint, layer2=False, arp=False)
    if world.host_port is not None and endpoint.nat_ip is not None:
        yield from _host_nat(endpoint, endpoint.nat_ip, network.vrf, world.host_port)


def _remote(endpoint: RemoteEndpoint, world: World) -> Iterator[Flow]:
    network = world.networks.get(endpoint.network)
    vtep = world.vteps.get(endpoint.host)
    if network is None or vtep is None or not network.vni:
        return
    to_tunnel = _to_tunnel(network.vni, vtep.ofport)
    for address in stages.addresses(endpoint):
        to = stages.destination(address, network.vrf)
        yield Flow(ObjectKind.REMOTE, TableId.IP, Priority.MATCH, to, to_tunnel)
        yield stages.destination_group(ObjectKind.REMOTE, to, endpoint)
    yield from ingress_group.source_groups(
        endpoint, network.vrf, vtep=vtep if world.guard else None
    )
    yield from _neighbours(ObjectKind.REMOTE, endpoint, network.vrf)


def _neighbours(
    owner: ObjectKind, endpoint: LocalEndpoint | RemoteEndpoint, vrf: int
) -> Iterator[Flow]:
    addresses = stages.addresses(endpoint)
    return neighbours.answers(owner, VRF.put(vrf), addresses, stages.ROUTER_MAC)


@lru_cache(maxsize=4096)
def _to_tunnel(vni: int, ofport: int) -> Instructions:
    # cached, because all endpoints of a network on one host share it
    return Instructions(
        actions=(
            SetField("tunnel_id", vni),
            SetField("eth_dst", stages.ROUTER_MAC),
            Output(ofport),
        )
    )


def _host_port(world: World) -> Iterator[Flow]:
    port = world.host_port
    if port is None:
        return
    yield from host_paths.entrance(ObjectKind.HOST_PORT, port)
    from_host = Match(in_port=port.ofport)
    # a packet of the host to an unknown address must not come back to it through table 8
    yield Flow(ObjectKind.HOST_PORT, TableId.IP, Priority.PORT, from_host, DROP)
    to_private = Match(eth_type=oxm.ETH_IPV4, ipv4_dst=port.subnet)
    yield Flow(ObjectKind.HOST_PORT, TableId.HOST_SNAT, Priority.ABOVE_MATCH, to_private, DROP)
    for kind in service_nat.ERRORS4:
        error: MatchFields = {"in_port": port.ofport, **stages.to_address(port.subnet)}
        error |= {"ip_proto": oxm.PROTO_ICMP, "icmp_type": kind}
        where = TableId.INGRESS_GROUP, Priority.EXEMPT
        yield Flow(ObjectKind.HOST_PORT, *where, Match(**error), TO_CONTROLLER)


def _host_nat(
    endpoint: LocalEndpoint, private: IPv4Address, vrf: int, port: HostPort
) -> Iterator[Flow]:
    yield Flow(
        ObjectKind.LOCAL,
        TableId.HOST_SNAT,
        Priority.MATCH,
        Match(in_port=endpoint.ofport, eth_type=oxm.ETH_IPV4),
        Instructions(
            actions=(
                SetField("eth_dst", port.mac),
                SetField("ipv4_src", private),
                Output(port.ofport),
            )
        ),
    )
    yield Flow(
        ObjectKind.LOCAL,
        TableId.INGRESS_GROUP,
        Priority.MATCH,
        Match(in_port=port.ofport, eth_type=oxm.ETH_IPV4, ipv4_dst=private),
        Instructions(
            actions=(SetField("eth_dst", endpoint.mac), SetField("ipv4_dst", endpoint.ip)),
            metadata=VRF.put(vrf),
            goto=TableId.SRV_PROXY_SNAT,
        ),
    )
    yield from _fragment_nat(endpoint, private, vrf, port)


def _fragment_nat(
    endpoint: LocalEndpoint, private: IPv4Address, vrf: int, port: HostPort
) -> Iterator[Flow]:
    zone = fragment_zone_of(vrf)
    fragment: MatchFields = {"eth_type": oxm.ETH_IPV4, "ip_frag": FRAGMENT_ANY}
    sent: MatchFields = {**fragment, "in_port": endpoint.ofport, "ipv4_src": endpoint.ip}
    out = Conntrack(TableId.HOST_SNAT, zone, commit=True, nat=Nat("src", private))
    yield _of_pod(TableId.HOST_SNAT, Priority.EXEMPT, sent, Instructions((out,)))
    yield _of_pod(TableId.HOST_SNAT, Priority.UNTRANSLATED, {**sent, "ct_zone": zone}, DROP)
    arrived: MatchFields = {**fragment, "in_port": port.ofport, "ipv4_dst": private}
    into = Conntrack(TableId.SRV_PROXY_SNAT, zone, commit=True, nat=Nat("dst", endpoint.ip))
    to_pod = Instructions((SetField("eth_dst", endpoint.mac), Load(VRF, vrf), into))
    yield _of_pod(TableId.INGRESS_GROUP, Priority.ABOVE_MATCH, arrived, to_pod)


def _of_pod(
    table: TableId, priority: Priority, fields: MatchFields, instructions: Instructions
) -> Flow:
    return Flow(ObjectKind.LOCAL, table, priority, Match(**fields), instructions)


PIPELINE = Pipeline(
    mode=Mode.VROUTER,
    start=_start,
    host_port=_host_port,
    vtep=_vtep,
    network=_network,
    local=_local,
    remote=_remote,
    management=pod_guard.within_vrfs,
    access=host_access.flows,
)
