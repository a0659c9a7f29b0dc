"""Service NAT: translates packets to a service's address to a provider, and the replies back.

The same in all four pipelines (`ofnetSvcProxy.go`). The flows of a service send packets to its
ports to the agent (`intercept`), until `ofnet.services.proxy` has assigned a provider to the
client; then the client's own flows translate them in the switch (`nat`).
"""

# Where the translation stands. Requests are translated in table 3, before policy: policy applies to
# the provider, because the service's address has no group. Replies are translated after policy, in
# table 6, so that policy sees the provider as their source.
#
# Hairpin: a client that is its own provider would drop a packet with its own source address. So
# both directions are translated completely in table 3: the pod sends to the service and receives
# from the service, and the packet goes back to its port. Policy does not apply within one pod.
# A packet from the provider's port to the service's port could be either direction; the higher
# priority makes it a request (HAIRPIN_REPLY is below MATCH).
#
# Direct connections: a client may also connect to its provider's own address. Replies look the same
# as those through the service, so the first packet of each such connection goes to the agent too,
# and gets flows that match the client's port and leave the reply as it is. In the original these
# replies are translated, and the connection fails.

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from ipaddress import IPv4Address
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    DROP,
    PORT_IN_PORT,
    TO_CONTROLLER,
    Action,
    Instructions,
    Output,
    PopVlan,
    SetField,
    goto,
)
from ofnet.openflow.fields import RX_VTEP, VRF, Bits
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines import neighbours
from ofnet.pipelines.stages import FLAT_VRF
from ofnet.tables import TABLES, Mode, Priority, TableId
from ofnet.world import ArpMode, FwdMode, Served, Service, ServicePort, World

_CACHE_SIZE: Final = 1 << 12
_BACK: Final = Output(PORT_IN_PORT)


def service_mac(address: IPv4Address) -> str:
    """Return the MAC address that answers ARP for a service's address."""
    return (b"\2\2" + address.packed).hex(":")


def intercept(mode: Mode, service: Service, world: World) -> Iterator[Flow]:
    """Yield the flows that send packets for a service to the agent, once it has providers.

    Packets to other ports of its address are dropped; the original asks its agent for each.
    """
    if not service.providers:
        return
    vrf = _vrf(mode, service.vrf) if service.vrf else 0
    to: MatchFields = {"eth_type": oxm.ETH_IPV4, "ipv4_dst": service.address}
    if vrf:
        to["metadata"] = VRF.put(vrf)
    for port in service.ports:
        fields: MatchFields = {
            **to,
            "ip_proto": port.protocol,
            **_to_port(port.protocol, port.port),
        }
        yield _dnat(ObjectKind.SERVICE, Priority.PORT, fields, TO_CONTROLLER)
    for protocol in {port.protocol for port in service.ports}:
        rest: MatchFields = {**to, "ip_proto": protocol}
        yield _dnat(ObjectKind.SERVICE, Priority.UNLISTED, rest, DROP)
    if world.fwd_mode is FwdMode.ROUTING or world.arp_mode is ArpMode.PROXY:
        mac = service_mac(service.address)
        yield neighbours.arp_answer(ObjectKind.SERVICE, _inside(vrf), service.address, mac)


def nat(mode: Mode, served: Served, _world: World) -> Iterator[Flow]:
    """Yield the flows that translate between a client and its provider."""
    ends = replace(served, ports=(), connections=(), direct=())
    whole = ((port, 0) for port in served.ports)
    for port, source in (*whole, *served.connections):
        yield from _translated(mode, ends, port, source)
    if served.provider != served.client:
        for port in served.ports:
            request = _direct_request(mode, ends, port, 0)
            yield _dnat(ObjectKind.SERVED, Priority.PORT, request, TO_CONTROLLER)
        for port, source in served.direct:
            yield from _untranslated(mode, ends, port, source)


def to_provider(served: Served, port: ServicePort) -> tuple[Action, ...]:
    """Return the actions that translate a client's packet to its provider."""
    to = (_set("dst", port.protocol, port.provider_port), SetField("ipv4_dst", served.provider))
    if served.provider == served.client:
        return (*_from_service(served), *to, _BACK)
    return (SetField("eth_dst", served.mac), *to) if served.mac else to


@lru_cache(_CACHE_SIZE)
def _translated(mode: Mode, served: Served, port: ServicePort, source: int) -> tuple[Flow, ...]:
    # cached, because each new connection of a client yields the flows of all its others again
    if served.provider == served.client:
        return tuple(_hairpin(mode, served, port, source))
    return tuple(_request_and_reply(mode, served, port, source))


def _request_and_reply(
    mode: Mode, served: Served, port: ServicePort, source: int
) -> Iterator[Flow]:
    priority = Priority.ABOVE_MATCH if source else Priority.MATCH
    actions = to_provider(served, port)
    sent = Instructions(actions, goto=TableId.DST_GRP)
    yield _dnat(ObjectKind.SERVED, priority, _request(mode, served, port, source), sent)
    named = (_set("src", port.protocol, port.port), SetField("ipv4_src", served.address))
    yield _reply_flow(mode, served, port, source, named)


@lru_cache(_CACHE_SIZE)
def _untranslated(mode: Mode, served: Served, port: ServicePort, source: int) -> tuple[Flow, ...]:
    """Return the flows of a direct connection: nothing is translated."""
    request = _direct_request(mode, served, port, source)
    there = _dnat(ObjectKind.SERVED, Priority.ABOVE_MATCH, request, goto(TableId.DST_GRP))
    return there, _reply_flow(mode, served, port, source, ())


def _reply_flow(
    mode: Mode, served: Served, port: ServicePort, source: int, actions: tuple[Action, ...]
) -> Flow:
    """Return the flow of replies from a provider, to one of the client's ports (0: to any)."""
    reply: MatchFields = {
        **_connection(mode, served, port),
        "ipv4_src": served.provider,
        "ipv4_dst": served.client,
        **_ports(port.protocol, port.provider_port, source),
    }
    priority = Priority.ABOVE_MATCH if source else Priority.MATCH
    onward = Instructions(actions, goto=TABLES[TableId.SRV_PROXY_SNAT].misses[mode].goto)
    return Flow(ObjectKind.SERVED, TableId.SRV_PROXY_SNAT, priority, Match(**reply), onward)


def _direct_request(mode: Mode, served: Served, port: ServicePort, source: int) -> MatchFields:
    request: MatchFields = {
        **_connection(mode, served, port),
        "ipv4_src": served.client,
        "ipv4_dst": served.provider,
        **_ports(port.protocol, source, port.provider_port),
    }
    return request


def _hairpin(mode: Mode, served: Served, port: ServicePort, source: int) -> Iterator[Flow]:
    """Yield the flows of a client that is its own provider; both roles are on one port."""
    there, back = Priority.MATCH, Priority.HAIRPIN_REPLY
    if source:
        there = back = Priority.ABOVE_MATCH
    untagged: tuple[Action, ...] = (PopVlan(),) if mode is Mode.VXLAN else ()
    tagged: MatchFields = {"vlan_vid": served.vlan} if untagged else {}
    request: MatchFields = {**_request(mode, served, port, source), **tagged}
    sent = Instructions((*untagged, *to_provider(served, port)))
    yield _dnat(ObjectKind.SERVED, there, request, sent)
    reply: MatchFields = {
        **_connection(mode, served, port),
        **tagged,
        "ipv4_src": served.client,
        "ipv4_dst": served.address,
        **_ports(port.protocol, port.provider_port, source),
    }
    to = (_set("src", port.protocol, port.port), SetField("ipv4_dst", served.client))
    yield _dnat(
        ObjectKind.SERVED,
        back,
        reply,
        Instructions((*untagged, *_from_service(served), *to, _BACK)),
    )


def _request(mode: Mode, served: Served, port: ServicePort, source: int) -> MatchFields:
    request: MatchFields = {
        **_connection(mode, served, port),
        "ipv4_src": served.client,
        "ipv4_dst": served.address,
        **_ports(port.protocol, source, port.port),
    }
    return request


def _from_service(served: Served) -> tuple[Action, ...]:
    """Return the actions that make the service the sender of a packet to the client."""
    mac = service_mac(served.address)
    sender = (SetField("eth_src", mac), SetField("ipv4_src", served.address))
    return (*sender, SetField("eth_dst", served.mac))


def _connection(mode: Mode, served: Served, port: ServicePort) -> MatchFields:
    return {
        "metadata": VRF.put(_vrf(mode, served.vrf)),
        "eth_type": oxm.ETH_IPV4,
        "ip_proto": port.protocol,
    }


def _vrf(mode: Mode, vrf: int) -> int:
    return FLAT_VRF if mode is Mode.VLROUTER else vrf


def _inside(vrf: int) -> Bits:
    """Return the metadata of requests from pods of this host; others cannot use services."""
    here = RX_VTEP.put(0)
    return VRF.put(vrf) | here if vrf else here


def _to_port(protocol: int, port: int) -> MatchFields:
    return {"tcp_dst": port} if protocol == oxm.PROTO_TCP else {"udp_dst": port}


def _from_port(protocol: int, port: int) -> MatchFields:
    return {"tcp_src": port} if protocol == oxm.PROTO_TCP else {"udp_src": port}


def _ports(protocol: int, source: int, destination: int) -> MatchFields:
    """Return the ports of a packet, 0 for any."""
    out: MatchFields = {}
    if source:
        out |= _from_port(protocol, source)
    if destination:
        out |= _to_port(protocol, destination)
    return out


def _set(end: str, protocol: int, port: int) -> SetField:
    return SetField(f"tcp_{end}" if protocol == oxm.PROTO_TCP else f"udp_{end}", port)


def _dnat(
    owner: ObjectKind, priority: Priority, fields: MatchFields, instructions: Instructions
) -> Flow:
    return Flow(owner, TableId.SRV_PROXY_DNAT, priority, Match(**fields), instructions)
