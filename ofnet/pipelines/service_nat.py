"""Services: what is sent to their addresses goes to a provider, and comes back under their name.

The same in all four pipelines (`ofnetSvcProxy.go`). A service has what is sent to its ports brought
up (`watch`), until `ofnet.services.proxy` has found a provider for that client; then table 3 puts
the provider in the service's place, before policies look, and table 6 the service in the
provider's place, after them (`nat`).

A client that is its own provider would not take a packet that comes from itself: it gets it from
the service, and its answer to the service comes back to it. Policies do not see that, for it is
nobody else's business.

What a client sends to its provider under that one's own address comes up as well (`direct`), so
that answers to it are not taken for the service's. In the original they are, and reach nobody.
"""

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

_REMEMBERED: Final = 1 << 12
_BACK: Final = Output(PORT_IN_PORT)


def service_mac(address: IPv4Address) -> str:
    """Return the MAC address that stands for a service."""
    return (b"\2\2" + address.packed).hex(":")


def intercept(mode: Mode, service: Service, world: World) -> Iterator[Flow]:
    """Yield the flows that bring up what is for a service, once it has providers.

    What is for none of its ports ends here; the original asks its agent, packet by packet.
    """
    if not service.providers:
        return
    vrf = _vrf(mode, service.vrf) if service.vrf else 0
    to: MatchFields = {"eth_type": oxm.ETH_IPV4, "ipv4_dst": service.address}
    if vrf:
        to["metadata"] = VRF.put(vrf)
    for port in service.ports:
        asked: MatchFields = {**to, "ip_proto": port.protocol, **_to_port(port.protocol, port.port)}
        yield _dnat(ObjectKind.SERVICE, Priority.PORT, asked, TO_CONTROLLER)
    for protocol in {port.protocol for port in service.ports}:
        rest: MatchFields = {**to, "ip_proto": protocol}
        yield _dnat(ObjectKind.SERVICE, Priority.UNLISTED, rest, DROP)
    if world.fwd_mode is FwdMode.ROUTING or world.arp_mode is ArpMode.PROXY:
        mac = service_mac(service.address)
        yield neighbours.arp_answer(ObjectKind.SERVICE, _inside(vrf), service.address, mac)


def nat(mode: Mode, served: Served, _world: World) -> Iterator[Flow]:
    """Yield the flows by which a client and its provider talk, each under the service's name."""
    ends = replace(served, ports=(), connections=(), direct=())
    whole = ((port, 0) for port in served.ports)
    for port, source in (*whole, *served.connections):
        yield from _translated(mode, ends, port, source)
    if served.provider != served.client:
        for port in served.ports:
            asked = _asked_directly(mode, ends, port, 0)
            yield _dnat(ObjectKind.SERVED, Priority.PORT, asked, TO_CONTROLLER)
        for port, source in served.direct:
            yield from _untouched(mode, ends, port, source)


def to_provider(served: Served, port: ServicePort) -> tuple[Action, ...]:
    """Return the actions that send what is for a service to the client's provider."""
    to = (_set("dst", port.protocol, port.provider_port), SetField("ipv4_dst", served.provider))
    if served.provider == served.client:
        return (*_as_service(served), *to, _BACK)
    return (SetField("eth_dst", served.mac), *to) if served.mac else to


@lru_cache(_REMEMBERED)
def _translated(mode: Mode, served: Served, port: ServicePort, source: int) -> tuple[Flow, ...]:
    # with each new connection all others of the client are asked for again
    if served.provider == served.client:
        return tuple(_to_itself(mode, served, port, source))
    return tuple(_pair(mode, served, port, source))


def _pair(mode: Mode, served: Served, port: ServicePort, source: int) -> Iterator[Flow]:
    priority = Priority.ABOVE_MATCH if source else Priority.MATCH
    actions = to_provider(served, port)
    sent = Instructions(actions, goto=TableId.DST_GRP)
    yield _dnat(ObjectKind.SERVED, priority, _asked(mode, served, port, source), sent)
    named = (_set("src", port.protocol, port.port), SetField("ipv4_src", served.address))
    yield _answered(mode, served, port, source, named)


@lru_cache(_REMEMBERED)
def _untouched(mode: Mode, served: Served, port: ServicePort, source: int) -> tuple[Flow, ...]:
    """Return the flows of a connection to the provider itself: its answers keep their name."""
    asked = _asked_directly(mode, served, port, source)
    there = _dnat(ObjectKind.SERVED, Priority.ABOVE_MATCH, asked, goto(TableId.DST_GRP))
    return there, _answered(mode, served, port, source, ())


def _answered(
    mode: Mode, served: Served, port: ServicePort, source: int, actions: tuple[Action, ...]
) -> Flow:
    """Return the flow of what a provider answers, to one of the client's ports or to any."""
    answered: MatchFields = {
        **_talk(mode, served, port),
        "ipv4_src": served.provider,
        "ipv4_dst": served.client,
        **_ports(port.protocol, port.provider_port, source),
    }
    priority = Priority.ABOVE_MATCH if source else Priority.MATCH
    onward = Instructions(actions, goto=TABLES[TableId.SRV_PROXY_SNAT].misses[mode].goto)
    return Flow(ObjectKind.SERVED, TableId.SRV_PROXY_SNAT, priority, Match(**answered), onward)


def _asked_directly(mode: Mode, served: Served, port: ServicePort, source: int) -> MatchFields:
    asked: MatchFields = {
        **_talk(mode, served, port),
        "ipv4_src": served.client,
        "ipv4_dst": served.provider,
        **_ports(port.protocol, source, port.provider_port),
    }
    return asked


def _to_itself(mode: Mode, served: Served, port: ServicePort, source: int) -> Iterator[Flow]:
    """Yield the flows of a client that is its own provider; both its roles are on one port."""
    there, back = Priority.MATCH, Priority.HAIRPIN_REPLY
    if source:
        there = back = Priority.ABOVE_MATCH
    untagged: tuple[Action, ...] = (PopVlan(),) if mode is Mode.VXLAN else ()
    tagged: MatchFields = {"vlan_vid": served.vlan} if untagged else {}
    asked: MatchFields = {**_asked(mode, served, port, source), **tagged}
    sent = Instructions((*untagged, *to_provider(served, port)))
    yield _dnat(ObjectKind.SERVED, there, asked, sent)
    answered: MatchFields = {
        **_talk(mode, served, port),
        **tagged,
        "ipv4_src": served.client,
        "ipv4_dst": served.address,
        **_ports(port.protocol, port.provider_port, source),
    }
    to = (_set("src", port.protocol, port.port), SetField("ipv4_dst", served.client))
    yield _dnat(
        ObjectKind.SERVED,
        back,
        answered,
        Instructions((*untagged, *_as_service(served), *to, _BACK)),
    )


def _asked(mode: Mode, served: Served, port: ServicePort, source: int) -> MatchFields:
    asked: MatchFields = {
        **_talk(mode, served, port),
        "ipv4_src": served.client,
        "ipv4_dst": served.address,
        **_ports(port.protocol, source, port.port),
    }
    return asked


def _as_service(served: Served) -> tuple[Action, ...]:
    """Return the actions that have a client hear from the service."""
    mac = service_mac(served.address)
    sender = (SetField("eth_src", mac), SetField("ipv4_src", served.address))
    return (*sender, SetField("eth_dst", served.mac))


def _talk(mode: Mode, served: Served, port: ServicePort) -> MatchFields:
    return {
        "metadata": VRF.put(_vrf(mode, served.vrf)),
        "eth_type": oxm.ETH_IPV4,
        "ip_proto": port.protocol,
    }


def _vrf(mode: Mode, vrf: int) -> int:
    return FLAT_VRF if mode is Mode.VLROUTER else vrf


def _inside(vrf: int) -> Bits:
    """Return the mark of pods that ask; who is outside has no business with services."""
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
