"""DNS of pods, where the agent's name service has a port of its own. The same in all pipelines.

The agent sends heartbeats by the port (`netplugin.kernel.packets.heartbeat`): when it ends, however
it ends, the switch takes the port for dead. From then on requests go on to the server they are
addressed to, by flows that were there before. While the agent lives,

* a request by UDP goes to the controller, as without such a port (`ofnet.packets.packetin`); of
  IPv6 those of pods alone that have such an address, from it;
* a connection by TCP goes out of the port, to a network stack that accepts it under any address
  (`netplugin.kernel.links.name_space`). Its source is replaced by an address that tells the pods of
  the bridge apart (`stand_in`), whichever addresses tenants share. Answers are translated back.

Connections that the agent opens in a pod's name are marked by a DSCP and go on to their server.
"""

# Table 0 asks the switch whether the port works (`LoadFirst`) and goes to table 23. There, what is
# to go on gets the mark of a returned request (VLAN 4093) and is looked up in table 0 again, where
# the pod's own flow takes the mark off, if the request has the pod's own addresses. This ends after
# one turn: marked requests of others are dropped (UDP), or have no flow that leads to table 23
# (TCP: the flow that does is made together with the one that takes the mark off, and lies below).
#
# A flow that expires unless it is renewed would do as well, and notice an agent that hangs. But
# each renewal is a change of the flow table, for which the switch checks every flow of its cache.

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ofnet.changes import ObjectKind
from ofnet.flows import Flow
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    DROP,
    NO_PORT,
    TO_CONTROLLER,
    Action,
    Instructions,
    LoadFirst,
    Lookup,
    Output,
    SetField,
    tag,
)
from ofnet.openflow.fields import LIVE_PORT
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.features.feature import Feature, of_world
from ofnet.pipelines.packet_path import stages
from ofnet.tables import Priority, TableId
from ofnet.world import LocalEndpoint, NamePort, World

Address = IPv4Address | IPv6Address

RELAYED_DSCP: Final = 63
"""Marks a connection of the agent in a pod's name. A pod that sets it reaches its server."""

_STAND_INS: Final[Mapping[int, int]] = {
    4: int(IPv4Address("198.18.0.0")),
    6: int(IPv6Address("100::")),
}
"""Addresses that no network uses (RFC 2544, RFC 6666), by the version of IP; they exist between the
switch and the agent alone."""

_RETURN: Final = (*tag(stages.DNS_RETURN_VLAN), Lookup(TableId.INPUT))
_TCP: Final[Mapping[int, MatchFields]] = {
    4: {"eth_type": oxm.ETH_IPV4, "ip_proto": oxm.PROTO_TCP},
    6: {"eth_type": oxm.ETH_IPV6, "ip_proto": oxm.PROTO_TCP},
}
_UDP6: Final[MatchFields] = {"eth_type": oxm.ETH_IPV6, "ip_proto": oxm.PROTO_UDP}


def stand_in(ofport: int, *, judged: bool = False, version: int = 4) -> Address:
    """Return the address by which the agent knows the pod at a port of the bridge.

    It is another one for connections that the tables have judged
    (`ofnet.pipelines.features.cluster_dns`).
    """
    number = _STAND_INS[version] + (ofport & 0xFFFF) + (judged << 16)
    return IPv4Address(number) if version == 4 else IPv6Address(number)


def sender_of(address: Address) -> tuple[int, bool]:
    """Return the port of the bridge of which this is the `stand_in`, and whether it was judged."""
    judged, port = divmod(int(address) - _STAND_INS[address.version], 1 << 16)
    return (port if judged in {0, 1} else NO_PORT), judged == 1


def to_agent(
    endpoint: LocalEndpoint, port: NamePort, *, judged: bool, version: int
) -> tuple[Action, ...]:
    """Return the actions that send a pod's connection to the agent."""
    substitute = stand_in(endpoint.ofport, judged=judged, version=version)
    source = SetField(f"ipv{version}_src", substitute)
    return SetField("eth_dst", port.mac), source, Output(port.ofport)


def back_to(endpoint: LocalEndpoint, own: Address) -> tuple[Action, ...]:
    """Return the actions that make of an answer one to the pod's own address."""
    return SetField("eth_dst", endpoint.mac), SetField(f"ipv{own.version}_dst", own)


def answer_of(
    port: NamePort, endpoint: LocalEndpoint, version: int, *, judged: bool
) -> MatchFields:
    """Return what matches the agent's answers to a pod by TCP."""
    return {
        **_TCP[version],
        **stages.to_address(stand_in(endpoint.ofport, judged=judged, version=version)),
        "in_port": port.ofport,
        "tcp_src": stages.DNS_PORT,
    }


def flows(world: World) -> Iterator[Flow]:
    """Yield the flows of the port itself, and of requests by UDP."""
    port = world.name_port
    if port is None:
        return
    marked: MatchFields = {**stages.DNS_OF_PODS, "vlan_vid": stages.DNS_RETURN_VLAN}
    yield _flow(TableId.INPUT, Priority.MATCH, marked, DROP)
    yield _flow(TableId.INPUT, Priority.NAMES, stages.DNS_OF_PODS, _ask(port))
    yield _flow(TableId.INPUT, Priority.GUARD, {"in_port": port.ofport}, DROP)
    gone: MatchFields = {"metadata": LIVE_PORT.put(NO_PORT)}
    yield _flow(TableId.NAMES, Priority.EXEMPT, gone, Instructions(_RETURN))
    onward = Instructions((SetField("ip_dscp", 0), *_RETURN))
    for connection in _TCP.values():
        relayed: MatchFields = {**connection, "ip_dscp": RELAYED_DSCP}
        yield _flow(TableId.NAMES, Priority.ABOVE_MATCH, relayed, onward)
    datagram: MatchFields = {"eth_type": oxm.ETH_IPV4, "ip_proto": oxm.PROTO_UDP}
    yield _flow(TableId.NAMES, Priority.PORT, datagram, TO_CONTROLLER)


def of_pod(endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
    """Yield the flows of a pod's requests by IPv6, and by TCP; a host's own interface has none."""
    if endpoint.of_host or endpoint.network not in world.networks:
        return
    if endpoint.ip6 is not None:
        yield from _datagrams6(endpoint, endpoint.ip6, world.name_port)
    if world.name_port is not None:
        for address in stages.addresses(endpoint):
            yield from _connections(endpoint, address, world.name_port)


def _datagrams6(
    endpoint: LocalEndpoint, address: IPv6Address, port: NamePort | None
) -> Iterator[Flow]:
    """Yield the flows of a pod's requests by UDP over IPv6, which are there with its address."""
    sent: MatchFields = {"in_port": endpoint.ofport, "eth_src": endpoint.mac}
    own: MatchFields = {**sent, "ipv6_src": address}
    asked = TO_CONTROLLER if port is None else _ask(port)
    request: MatchFields = {**own, **_UDP6, "udp_dst": stages.DNS_PORT}
    yield _of_pod(TableId.INPUT, Priority.NAMES, request, asked)
    yield stages.returned_dns(ObjectKind.LOCAL, own, eth_type=oxm.ETH_IPV6)
    if port is not None:
        from_pod: MatchFields = {**_UDP6, "in_port": endpoint.ofport}
        yield _of_pod(TableId.NAMES, Priority.MATCH, from_pod, TO_CONTROLLER)


def _connections(endpoint: LocalEndpoint, address: Address, port: NamePort) -> Iterator[Flow]:
    version, connection = address.version, _TCP[address.version]
    own: MatchFields = {"in_port": endpoint.ofport, "eth_src": endpoint.mac}
    own |= stages.from_address(address)
    request: MatchFields = {**own, **connection, "tcp_dst": stages.DNS_PORT}
    yield _of_pod(TableId.INPUT, Priority.NAMES, request, _ask(port))
    ethernet = oxm.ETH_IPV4 if version == 4 else oxm.ETH_IPV6
    yield stages.returned_dns(ObjectKind.LOCAL, own, tcp=True, eth_type=ethernet)
    there = to_agent(endpoint, port, judged=False, version=version)
    from_pod: MatchFields = {**connection, "in_port": endpoint.ofport}
    yield _of_pod(TableId.NAMES, Priority.MATCH, from_pod, Instructions(there))
    answer = answer_of(port, endpoint, version, judged=False)
    back = Instructions((*back_to(endpoint, address), Output(endpoint.ofport)))
    yield _of_pod(TableId.INPUT, Priority.MATCH, answer, back)


def _ask(port: NamePort) -> Instructions:
    """Return the instructions that find out whether the port works."""
    return Instructions((LoadFirst((port.ofport,), LIVE_PORT),), goto=TableId.NAMES)


def _flow(
    table: TableId, priority: Priority, fields: MatchFields, instructions: Instructions
) -> Flow:
    return Flow(ObjectKind.NAME_PORT, table, priority, Match(**fields), instructions)


def _of_pod(
    table: TableId, priority: Priority, fields: MatchFields, instructions: Instructions
) -> Flow:
    return Flow(ObjectKind.LOCAL, table, priority, Match(**fields), instructions)


FEATURE: Final[Feature] = {ObjectKind.NAME_PORT: of_world(flows), ObjectKind.LOCAL: of_pod}
