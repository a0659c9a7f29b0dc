"""Service NAT: the switch chooses a provider for each connection, and translates it both ways.

The same in all four pipelines. A service's flows send packets to its ports through connection
tracking; a new connection goes to a group, in which the switch chooses a provider (ADR 21). Answers
are translated after policy. Ports without a provider go to the agent, which refuses
(`ofnet.services.refusal`).
"""

# Where the translation stands. Requests are translated in tables 3 and 12, before policy: policy
# applies to the provider, because the service's address has no group. Answers are translated after
# policy, in table 6, so that policy sees the provider as their source.
#
# Connection tracking knows each connection by its first packet, in a zone for each VRF and bridge.
# What is established is translated in table 3 and passes table 12; a group decides about the first
# packet alone, so that a provider that comes moves nobody.
#
# Direct connections, to a provider's own address, are tracked in the same zone. A client may use
# one port of its own for a connection to the service and for one to the provider. Their answers
# look the same; tracking both makes the switch give one of them another port. Some releases end
# at that (`ofnet.datapath`): there direct connections are tracked as they are, so that the switch
# changes the port of the later one only if that is the one to the service.
#
# Hairpin: a client that is its own provider would drop a packet with its own source address. It
# gets the packet from the service's address instead. Its answer, to the service, is to a port that
# the service does not have: there table 3 puts the client at both ends again, and tracking tells
# whether it is an answer. Policy does not apply within one pod.
#
# A fragment does not tell its port, and addresses set on later ones damage them in the userspace
# datapath (`ofnet.pipelines.vrouter`). So datagrams get the service's address as their source by
# tracking, in a zone for hairpins, and fragments to a service are looked up there first: one that
# is an answer gets the client at both ends again.
#
# Clients may be held to some addresses (Kubernetes' loadBalancerSourceRanges). What others send
# meets the flow for ports that the service does not have, which drops it.
#
# Errors of ICMP quote a packet of the connection they are about. Tracking knows it, and translates
# both: those to the client where answers are translated, those to the provider where requests are.
# The latter commit what is committed already: without that the kernel's datapath (net/openvswitch/
# conntrack.c, ovs_ct_nat) leaves what is related to a connection, in its own direction, as it is.

from collections.abc import Iterable, Iterator
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from ofnet import digests
from ofnet.changes import ObjectKind
from ofnet.flows import Flow, cookie_of_kind
from ofnet.openflow import oxm
from ofnet.openflow.actions import (
    AS_COMMITTED,
    DROP,
    PORT_IN_PORT,
    TO_CONTROLLER,
    Action,
    Bucket,
    Conntrack,
    Deal,
    Instructions,
    Learn,
    Lookup,
    Move,
    Nat,
    Output,
    PopVlan,
    SelectGroup,
    SetField,
    goto,
)
from ofnet.openflow.fields import (
    CT_ESTABLISHED,
    CT_INVALID,
    CT_NEW,
    CT_RELATED,
    CT_REPLY,
    CT_TRACKED,
    FRAGMENT_ANY,
    FRAGMENT_LATER,
    RX_VTEP,
    VRF,
    Bits,
    CtState,
)
from ofnet.openflow.match import Match, MatchFields
from ofnet.pipelines.features.feature import Feature
from ofnet.pipelines.packet_path import neighbours, stages
from ofnet.tables import Mode, Priority, TableId, hairpin_zone_of, vrf_in, zone_of
from ofnet.translations import Translated
from ofnet.world import (
    ArpMode,
    FwdMode,
    LocalEndpoint,
    Network,
    Provider,
    RemoteEndpoint,
    Service,
    ServicePort,
    World,
)

MAX_PROVIDERS: Final = 512
"""Providers of a port that get connections; a group-mod has room for some hundred more."""

HASHES: Final = 256
"""Values of a packet's hash that Open vSwitch deals out among the buckets of a group, at most."""

MAX_AFFINITY: Final = 0xFFFF
"""Seconds: OpenFlow's limit of a time-out. Longer affinities end after this time."""

_NEW: Final = CtState(CT_TRACKED | CT_NEW, CT_TRACKED | CT_NEW | CT_INVALID)
_VALID: Final = CtState(CT_TRACKED, CT_TRACKED | CT_INVALID)
_INVALID: Final = CtState(CT_TRACKED | CT_INVALID, CT_TRACKED | CT_INVALID)
_REPLY_STATE: Final = CT_TRACKED | CT_ESTABLISHED | CT_REPLY
_UNTRACKED: Final = CtState(0, CT_TRACKED)
_TRACKED: Final = CtState(CT_TRACKED, CT_TRACKED)
_ANSWERING: Final = CtState(_REPLY_STATE, _REPLY_STATE | CT_INVALID)

ERRORS4: Final = (3, 11, 12)
ERRORS6: Final = (1, 2, 3, 4)
"""Types of ICMP that quote a packet: unreachable, too long, expired, wrong."""

_RELATED: Final = CtState(
    CT_TRACKED | CT_RELATED | CT_REPLY, CT_TRACKED | CT_RELATED | CT_REPLY | CT_INVALID
)
_DISTINCT: Final = Nat("src")
_BACK: Final = Output(PORT_IN_PORT)
_TO_SENDER: Final = (Move("eth_src", "eth_dst"), SetField("eth_src", stages.ROUTER_MAC))

Address = IPv4Address | IPv6Address
Block = IPv4Network | IPv6Network


def service_mac(address: Address) -> str:
    """Return the MAC address that answers for a service's address."""
    return (b"\2\2" + address.packed[-4:]).hex(":")


def start(mode: Mode) -> Iterator[Flow]:
    """Yield the flows that all services share."""
    invalid = Match(ct_state=_INVALID)
    yield Flow(ObjectKind.PIPELINE, TableId.SERVICES, Priority.MATCH, invalid, DROP)
    if mode is Mode.VLAN:
        yield neighbours.advertisement(stages.ROUTER_MAC)
    if mode is not Mode.VXLAN:
        back = Instructions((_BACK,))
        answer = Match(ct_state=_ANSWERING)
        yield Flow(ObjectKind.PIPELINE, TableId.HAIRPIN, Priority.MATCH, answer, back)


def of_network(mode: Mode, network: Network) -> Iterator[Flow]:
    """Yield the flows that all services share for the pods of a network."""
    vrf = vrf_in(mode, network.vrf)
    yield from _errors(mode, vrf)
    tagged: MatchFields = {"vlan_vid": network.vlan} if mode is Mode.VXLAN else {}
    asked: MatchFields = {**tagged, "ct_state": _VALID, "ct_zone": hairpin_zone_of(mode, vrf)}
    back = Instructions((*_untagged(mode), _BACK))
    yield Flow(ObjectKind.NETWORK, TableId.HAIRPIN, Priority.MATCH, Match(**asked), back)
    if mode is Mode.VXLAN:
        answer: MatchFields = {**tagged, "ct_state": _ANSWERING}
        yield Flow(ObjectKind.NETWORK, TableId.HAIRPIN, Priority.MATCH, Match(**answer), back)
        yield neighbours.advertisement_on_vlan(network.vlan, stages.ROUTER_MAC)


def _errors(mode: Mode, vrf: int) -> Iterator[Flow]:
    """Yield the flows of errors of ICMP about what clients in a VRF sent."""
    onward = TableId.IP if mode in {Mode.VROUTER, Mode.VLROUTER} else TableId.MAC_DEST
    zone = zone_of(mode, vrf)
    translate = Conntrack(onward, zone, nat=AS_COMMITTED)
    for kind in ERRORS4:
        error: MatchFields = {"ip_proto": oxm.PROTO_ICMP, "icmp_type": kind}
        error |= {"metadata": VRF.put(vrf), "eth_type": oxm.ETH_IPV4}
        yield _error(Priority.PORT, error, Instructions((translate,)))
    six: MatchFields = {"metadata": VRF.put(vrf), "eth_type": oxm.ETH_IPV6}
    six |= {"ip_proto": oxm.PROTO_ICMP6}
    look_up = Instructions((Conntrack(TableId.SRV_PROXY_SNAT, zone),))
    for kind in ERRORS6:
        yield _error(Priority.PORT, {**six, "icmpv6_type": kind}, look_up)
    # Open vSwitch 3.1 changes other bytes as well when it sets the sender of such an error, unless
    # that is what it shall be already
    known: MatchFields = {**six, "ct_zone": zone}
    of_client: MatchFields = {**known, "ct_state": _RELATED}
    named = Move("ct_ipv6_dst", "ipv6_src")
    yield _error(Priority.MATCH, known, goto(onward))
    yield _error(Priority.ABOVE_MATCH, of_client, Instructions((named, translate)))


def _error(priority: Priority, fields: MatchFields, instructions: Instructions) -> Flow:
    return Flow(ObjectKind.NETWORK, TableId.SRV_PROXY_SNAT, priority, Match(**fields), instructions)


def _of_endpoint(
    mode: Mode, endpoint: LocalEndpoint | RemoteEndpoint, world: World
) -> Iterator[Flow]:
    """Yield the flows of an endpoint as a provider of services."""
    if endpoint.network in world.networks:
        yield from beside(endpoint, world)
        if isinstance(endpoint, LocalEndpoint):
            yield from own_provider(mode, endpoint, world)


def flows(mode: Mode, service: Service, world: World) -> Iterator[Flow]:
    """Yield the flows of a service, in the VRF of each tenant whose pods may be its clients."""
    for vrf in sorted(_client_vrfs(mode, service, world)):
        yield from _TenantFlows(mode, service, vrf, world).flows()
    yield from _neighbours(mode, service, world)


def kept(mode: Mode, service: Service, world: World) -> Iterator[Translated]:
    """Yield the connections of a service that providers keep although they get no new ones."""
    for vrf in _client_vrfs(mode, service, world):
        tenant = _TenantFlows(mode, service, vrf, world)
        for port in service.ports:
            for one in tenant.reachable(port.draining):
                ends = (port.protocol, one.address, one.port)
                yield Translated(zone_of(mode, vrf), *ends, service.address, port.port)


def own_provider(mode: Mode, endpoint: LocalEndpoint, world: World) -> Iterator[Flow]:
    """Yield the flows for a pod that gets itself as the provider of a service."""
    network = world.networks[endpoint.network]
    vrf = vrf_in(mode, network.vrf)
    tagged: MatchFields = {"vlan_vid": network.vlan} if mode is Mode.VXLAN else {}
    for address in stages.addresses(endpoint):
        to_itself: MatchFields = {
            "ct_state": _VALID,
            "metadata": VRF.put(vrf),
            **tagged,
            **stages.from_address(address),
            **stages.to_address(address),
        }
        v4 = isinstance(address, IPv4Address)
        named = Move("ct_nw_dst", "ipv4_src") if v4 else Move("ct_ipv6_dst", "ipv6_src")
        back = Instructions((*_untagged(mode), named, *_TO_SENDER, _BACK))
        yield Flow(ObjectKind.LOCAL, TableId.SERVICES, Priority.MATCH, Match(**to_itself), back)
        asked = Instructions(_TO_SENDER, goto=TableId.HAIRPIN_SOURCE)
        for protocol in sorted({oxm.PROTO_UDP, _later(address.version)}):
            datagram: MatchFields = {**to_itself, "ip_proto": protocol}
            yield Flow(
                ObjectKind.LOCAL, TableId.SERVICES, Priority.ABOVE_MATCH, Match(**datagram), asked
            )
        answer: MatchFields = {
            "metadata": VRF.put(vrf),
            "ct_zone": hairpin_zone_of(mode, vrf),
            **stages.from_address(address),
            **stages.to_address(address),
        }
        tracked = Conntrack(TableId.HAIRPIN, zone_of(mode, vrf), nat=AS_COMMITTED)
        answered = Instructions((*_TO_SENDER, tracked))
        yield Flow(
            ObjectKind.LOCAL, TableId.SRV_PROXY_DNAT, Priority.MATCH, Match(**answer), answered
        )


def beside(endpoint: LocalEndpoint | RemoteEndpoint, world: World) -> Iterator[Flow]:
    """Yield the flows that give packets the MAC of a provider on their client's network.

    Where endpoints are routed the router sets it. A client has asked for the service's MAC, or sent
    to its gateway, which also reaches providers on other networks.
    """
    if world.fwd_mode is FwdMode.ROUTING:
        return
    network = world.networks[endpoint.network]
    owner = ObjectKind.LOCAL if isinstance(endpoint, LocalEndpoint) else ObjectKind.REMOTE
    onward = Instructions((SetField("eth_dst", endpoint.mac), Lookup(TableId.DST_GRP)))
    for address in stages.addresses(endpoint):
        for block in _blocks(network, address.version):
            sent: MatchFields = {
                "ct_state": _VALID,
                "metadata": VRF.put(network.vrf),
                **stages.from_address(oxm.shortest(block)),
                **stages.to_address(address),
            }
            yield Flow(owner, TableId.SERVICES, Priority.PORT, Match(**sent), onward)


class _TenantFlows:
    """The flows of one service for the clients in one VRF."""

    def __init__(self, mode: Mode, service: Service, vrf: int, world: World) -> None:
        self._mode = mode
        self._service = service
        self._world = world
        self._vrf = vrf
        self._zone = zone_of(mode, vrf)
        self._in_vrf: MatchFields = {"metadata": VRF.put(vrf)}
        self._to: MatchFields = {**self._in_vrf, **stages.to_address(service.address)}
        self._tracked = Instructions((Conntrack(TableId.SERVICES, self._zone, nat=AS_COMMITTED),))
        v4 = isinstance(service.address, IPv4Address)
        self._icmp = oxm.PROTO_ICMP if v4 else oxm.PROTO_ICMP6

    def flows(self) -> Iterator[Flow]:
        """Yield all of them."""
        for port in self._service.ports:
            providers = self.reachable(port.providers)
            if providers:
                yield from self._port(port, providers)
            else:
                refused: MatchFields = {**self._to, **_to_port(port.protocol, port.port)}
                yield self._dnat(Priority.PORT, refused, TO_CONTROLLER)
            for provider in self.reachable(port.draining):
                yield from self._provider(port.protocol, provider)
        protocols = sorted({port.protocol for port in self._service.ports})
        for protocol in protocols:
            yield self._unlisted(protocol)
        if protocols:
            yield self._dnat(Priority.MATCH, {**self._to, "ip_proto": self._icmp}, self._tracked)
            if self._world.commits_errors:
                yield from self._errors()
        itself = {one.address for port in self._service.ports for one in port.providers}
        if oxm.PROTO_UDP in protocols and self._service.address not in itself:
            yield self._own_client()

    def _errors(self) -> Iterator[Flow]:
        """Yield the flows of errors about what a provider sent."""
        v4 = self._icmp == oxm.PROTO_ICMP
        tracked = Conntrack(TableId.SERVICES, self._zone, commit=True, nat=AS_COMMITTED)
        for kind in ERRORS4 if v4 else ERRORS6:
            error: MatchFields = {**self._to, "ip_proto": self._icmp}
            error |= {"icmp_type": kind} if v4 else {"icmpv6_type": kind}
            yield self._dnat(Priority.ABOVE_MATCH, error, Instructions((tracked,)))

    def reachable(self, providers: Iterable[Provider]) -> list[Provider]:
        """Return those of some providers that clients in the VRF may get, in their order."""
        flat = self._mode is Mode.VLROUTER
        version = self._service.address.version
        found = (
            one
            for one in sorted(providers)
            if one.address.version == version and (flat or one.vrf in {0, self._vrf})
        )
        return list(found)[:MAX_PROVIDERS]

    def _port(self, port: ServicePort, providers: list[Provider]) -> Iterator[Flow]:
        for of_client in self._of_clients():
            request: MatchFields = {**of_client, **_to_port(port.protocol, port.port)}
            yield self._dnat(Priority.MATCH, request, self._tracked)
        if port.protocol == oxm.PROTO_UDP:
            yield from self._pieces()
            if sum(one.protocol == oxm.PROTO_UDP for one in self._service.ports) == 1:
                yield from self._first_in_pieces(providers)
        yield from self._choice(port, providers)
        for provider in providers:
            yield from self._provider(port.protocol, provider)

    def _pieces(self) -> Iterator[Flow]:
        """Yield the flows for fragments of datagrams: what is no answer of a pod to itself."""
        zone = hairpin_zone_of(self._mode, self._vrf)
        look_up = Instructions((Conntrack(TableId.SRV_PROXY_DNAT, zone, nat=AS_COMMITTED),))
        for piece in _fragments(self._service.address.version):
            to: MatchFields = {**self._to, **piece}
            yield self._dnat(Priority.ABOVE_MATCH, {**to, "ct_state": _UNTRACKED}, look_up)
            for of_client in self._of_clients():
                tracked: MatchFields = {**of_client, **piece, "ct_state": _TRACKED}
                yield self._dnat(Priority.ABOVE_MATCH, tracked, self._tracked)

    def _of_clients(self) -> Iterator[MatchFields]:
        """Yield the matches of what those send to the service who may be its clients."""
        if not self._service.clients:
            yield self._to
        for block in self._service.clients:
            yield {**self._to, **stages.from_address(oxm.shortest(block))}

    def _choice(self, port: ServicePort, providers: list[Provider]) -> Iterator[Flow]:
        """Yield the flows that send a new connection to one of the providers."""
        own = bool(self._service.vrf)
        new: MatchFields = {
            **self._to,
            "ct_state": _NEW,
            "ip_proto": port.protocol,
            "ct_nw_proto": port.protocol,
            "ct_tp_dst": port.port,
        }
        priority = Priority.MATCH if own else Priority.SHARED
        near = Priority.ABOVE_MATCH if own else Priority.SHARED_BESIDE
        yield from self._any_of(priority, new, providers)
        for block, beside in self._beside(providers):
            yield from self._any_of(
                near, {**new, **stages.from_address(oxm.shortest(block))}, beside
            )

    def _beside(self, providers: list[Provider]) -> Iterator[tuple[Block, list[Provider]]]:
        """Yield the providers on each network that has some, with the blocks of its addresses.

        A bridge forwards within the client's own network alone, so providers there are preferred.
        To reach any other one, the physical network has to route.
        """
        if self._world.fwd_mode is FwdMode.ROUTING:
            return
        version = self._service.address.version
        for network in self._world.networks.values():
            if network.vrf == self._vrf:
                blocks = list(_blocks(network, version))
                own = [one for one in providers if _is_in(one.address, blocks)]
                if own and len(own) < len(providers):
                    yield from ((block, own) for block in blocks)

    def _any_of(
        self, priority: Priority, new: MatchFields, providers: list[Provider]
    ) -> Iterator[Flow]:
        if self._service.affinity or new["ip_proto"] == oxm.PROTO_UDP:
            # A group of OpenFlow 1.3 chooses without the ports of UDP in the userspace datapath:
            # every query of a client would go to one provider. Nor can it ask first what the switch
            # has learned of the client, as affinity needs.
            yield from self._dealt(priority, new, providers)
            return
        buckets = tuple(
            Bucket(weight, (self._commit(new, provider),))
            for provider, shares in zip(providers, weights_of(len(providers)), strict=True)
            for weight in shares
        )
        yield self._flow(TableId.SERVICES, priority, new, Instructions((SelectGroup(buckets),)))

    def _dealt(
        self, priority: Priority, new: MatchFields, providers: list[Provider]
    ) -> Iterator[Flow]:
        deal = Deal(len(providers))
        remembered = (Lookup(TableId.AFFINITY),) if self._service.affinity else ()
        first = Instructions((deal, *remembered), goto=TableId.CHOICE)
        yield self._flow(TableId.SERVICES, priority, new, first)
        for number, provider in enumerate(providers):
            chosen = self._chosen(new, provider)
            dealt: MatchFields = {**new, "reg0": number}
            yield self._flow(TableId.CHOICE, priority, dealt, chosen)
            if self._service.affinity:
                known: MatchFields = {**new, "reg1": _number(provider)}
                yield self._flow(TableId.CHOICE, Priority.EXEMPT, known, chosen)

    def _first_in_pieces(self, providers: list[Provider]) -> Iterator[Flow]:
        """Yield the flows for later fragments of a connection's first datagram."""
        # The userspace datapath does not tell their ports, so the service must have one port alone.
        # All fragments wait in connection tracking, and go where the last of them is sent.
        protocol = _later(self._service.address.version)
        later: MatchFields = {**self._to, "ct_state": _NEW, "ip_proto": protocol}
        later["ip_frag"] = FRAGMENT_LATER
        yield from self._dealt(Priority.UNLISTED, later, providers)

    def _commit(self, new: MatchFields, provider: Provider) -> Conntrack:
        asked = self._service.address, new.get("ct_tp_dst", provider.port)
        if (provider.address, provider.port) == asked:
            # A translation that changes nothing ends some switches (`ofnet.datapath`), and the
            # packet would come to the flow that has chosen again and again.
            return Conntrack(TableId.DST_GRP, self._zone, commit=True)
        nat = Nat("dst", provider.address, provider.port)
        return Conntrack(TableId.SERVICES, self._zone, commit=True, nat=nat)

    def _chosen(self, new: MatchFields, provider: Provider) -> Instructions:
        """Return what sends a new connection to its provider; with affinity, remembers it."""
        # The flow that the switch learns names the provider by a digest. One whose provider has
        # gone finds no flow in CHOICE, and the number that was dealt decides. That number depends
        # on the connection, so that a client is not led to the same provider after its time.
        commit = self._commit(new, provider)
        if not self._service.affinity:
            return Instructions((commit,))
        # A later fragment tells no port. It has a flow of its own, and learns both: whichever
        # fragment the switch sees first chooses for the other one.
        protocol, port = new["ip_proto"], new.get("ct_tp_dst", 0)
        asked = {(protocol, port)}
        datagrams = [one.port for one in self._service.ports if one.protocol == oxm.PROTO_UDP]
        if protocol != oxm.PROTO_TCP and len(datagrams) == 1:
            asked = {(oxm.PROTO_UDP, datagrams[0]), (_later(self._service.address.version), 0)}
        learned = (self._learn(new["eth_type"], *one, provider) for one in sorted(asked))
        return Instructions((*learned, commit))

    def _learn(self, eth_type: int, protocol: int, port: int, provider: Provider) -> Learn:
        return Learn(
            TableId.AFFINITY,
            Priority.MATCH,
            cookie_of_kind(ObjectKind.AFFINITY),
            min(self._service.affinity, MAX_AFFINITY),
            eth_type,
            protocol,
            port,
            _number(provider),
        )

    def _provider(self, protocol: int, provider: Provider) -> Iterator[Flow]:
        """Yield the flows of a provider's answers, and of connections to its own address."""
        routed = self._world.fwd_mode is FwdMode.ROUTING
        onward = TableId.IP if routed else TableId.MAC_DEST
        back = Instructions((Conntrack(onward, self._zone, nat=AS_COMMITTED),))
        sender: MatchFields = {**self._in_vrf, **stages.from_address(provider.address)}
        answer: MatchFields = {**sender, **_from_port(protocol, provider.port)}
        yield self._flow(TableId.SRV_PROXY_SNAT, Priority.MATCH, answer, back)
        if protocol == oxm.PROTO_UDP:
            for piece in _fragments(provider.address.version):
                pieces: MatchFields = {**sender, **piece}
                yield self._flow(TableId.SRV_PROXY_SNAT, Priority.MATCH, pieces, back)
        direct: MatchFields = {
            **self._in_vrf,
            **stages.to_address(provider.address),
            **_to_port(protocol, provider.port),
        }
        nat = _DISTINCT if self._world.unchanged_nat else None
        tracked = Conntrack(TableId.DST_GRP, self._zone, commit=True, nat=nat)
        yield self._dnat(Priority.SHARED, direct, Instructions((tracked,)))

    def _unlisted(self, protocol: int) -> Flow:
        """Return the flow of packets to ports that the service does not have.

        They are dropped, unless a pod that is its own provider answers itself.
        """
        to: MatchFields = {**self._to, "ip_proto": protocol}
        v4 = isinstance(self._service.address, IPv4Address)
        ends = Move("ipv4_src", "ipv4_dst") if v4 else Move("ipv6_src", "ipv6_dst")
        tracked = Conntrack(TableId.HAIRPIN, self._zone, nat=AS_COMMITTED)
        return self._dnat(Priority.UNLISTED, to, Instructions((ends, *_TO_SENDER, tracked)))

    def _own_client(self) -> Flow:
        """Return the flow that gives datagrams of a pod to itself the service as their sender."""
        address = self._service.address
        asked: MatchFields = {**self._in_vrf, "ct_state": _VALID}
        if isinstance(address, IPv4Address):
            asked |= {"eth_type": oxm.ETH_IPV4, "ct_nw_dst": address}
        else:
            asked |= {"eth_type": oxm.ETH_IPV6, "ct_ipv6_dst": address}
        zone = hairpin_zone_of(self._mode, self._vrf)
        source = Conntrack(TableId.HAIRPIN, zone, commit=True, nat=Nat("src", address))
        return self._flow(TableId.HAIRPIN_SOURCE, Priority.MATCH, asked, Instructions((source,)))

    def _dnat(self, priority: Priority, fields: MatchFields, instructions: Instructions) -> Flow:
        return self._flow(TableId.SRV_PROXY_DNAT, priority, fields, instructions)

    def _flow(
        self, table: TableId, priority: Priority, fields: MatchFields, instructions: Instructions
    ) -> Flow:
        return Flow(ObjectKind.SERVICE, table, priority, Match(**fields), instructions)


def weights_of(count: int) -> list[tuple[int, ...]]:
    """Return the weights of the buckets of each of `count` equal providers.

    Open vSwitch deals out as many values of a hash as the sum of the weights has of the smallest
    one, rounded up to a power of two, 16 at least. With equal weights five providers would share 16
    values. So the first provider's weight is split into 1 and the rest: then there are values
    enough to be even, and not more, since each costs a megaflow.
    """
    if count == 1:
        return [(1,)]
    values = 16
    while values < min(16 * count, HASHES):
        values *= 2
    weight = max(values // count, 1)
    split = (weight - 1, 1) if weight > 1 else (1,)
    return [split, *((weight,) for _ in range(count - 1))]


def _client_vrfs(mode: Mode, service: Service, world: World) -> set[int]:
    if service.vrf:
        return {vrf_in(mode, service.vrf)}
    return {vrf_in(mode, network.vrf) for network in world.networks.values()}


def _neighbours(mode: Mode, service: Service, world: World) -> Iterator[Flow]:
    """Yield the answers to questions for the MAC of the service's address."""
    asker = RX_VTEP.put(0)  # clients are pods of this host
    vrf = vrf_in(mode, service.vrf) if service.vrf else 0
    requester: Bits = VRF.put(vrf) | asker if vrf else asker
    routing = world.fwd_mode is FwdMode.ROUTING
    if isinstance(service.address, IPv6Address):
        yield neighbours.nd_answer(
            ObjectKind.SERVICE, requester, service.address, stages.ROUTER_MAC
        )
        if not routing:
            # pods of bridged networks ask each other, past table 10
            yield neighbours.nd_request(ObjectKind.SERVICE, requester, service.address)
    elif routing or world.arp_mode is ArpMode.PROXY:
        mac = service_mac(service.address)
        yield neighbours.arp_answer(ObjectKind.SERVICE, requester, service.address, mac)


def _later(version: int) -> int:
    """Return the protocol that later fragments of a datagram have in a match."""
    return oxm.PROTO_UDP if version == 4 else oxm.IPV6_FRAGMENT


def _fragments(version: int) -> Iterator[MatchFields]:
    """Yield the matches of fragments of datagrams."""
    yield {"ip_proto": oxm.PROTO_UDP, "ip_frag": FRAGMENT_ANY}
    if version == 6:
        yield {"ip_proto": oxm.IPV6_FRAGMENT, "ip_frag": FRAGMENT_LATER}


def _number(provider: Provider) -> int:
    """Return the number that stands for a provider in a learned flow, never 0."""
    return digests.number(f"{provider.address}:{provider.port}".encode()) or 1


def _blocks(network: Network, version: int) -> Iterable[Block]:
    return (block for block in network.granted if block.version == version)


def _is_in(address: Address, blocks: Iterable[Block]) -> bool:
    return any(address in block for block in blocks)


def _untagged(mode: Mode) -> tuple[Action, ...]:
    return (PopVlan(),) if mode is Mode.VXLAN else ()


def _to_port(protocol: int, port: int) -> MatchFields:
    if protocol == oxm.PROTO_TCP:
        return {"ip_proto": protocol, "tcp_dst": port}
    return {"ip_proto": protocol, "udp_dst": port}


def _from_port(protocol: int, port: int) -> MatchFields:
    if protocol == oxm.PROTO_TCP:
        return {"ip_proto": protocol, "tcp_src": port}
    return {"ip_proto": protocol, "udp_src": port}


def feature(mode: Mode) -> Feature:
    """Return the flows of services."""
    return {
        ObjectKind.PIPELINE: lambda *_: start(mode),
        ObjectKind.NETWORK: lambda network, _: of_network(mode, network),
        ObjectKind.LOCAL: partial(_of_endpoint, mode),
        ObjectKind.REMOTE: partial(_of_endpoint, mode),
        ObjectKind.SERVICE: partial(flows, mode),
    }
