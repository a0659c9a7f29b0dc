"""Services, ports, providers and pods come and go: what clients meet all the while.

The desired flows of one bridge run in a model of a switch (`ofnet.trace.tracking`), which
gets them as changes, as a real one does. Services are those of labels, whose clients and providers
are one tenant's, and those of Kubernetes, which are everybody's and may have targets that are no
pods. Two tenants have the same addresses.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from core.ids import EndpointKey, HostLabel
from ofnet.changes import Changes, ObjectKind
from ofnet.desired import Desired
from ofnet.openflow import oxm
from ofnet.openflow.actions import PORT_CONTROLLER, PORT_NORMAL
from ofnet.pipelines.features.service_nat import service_mac
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.tables import Mode, mode_of
from ofnet.trace.evaluator import PacketFields, Sent, tables_of
from ofnet.trace.tracking import FlowEnds, ends_of
from ofnet.world import (
    ArpMode,
    Bridge,
    FwdMode,
    LocalEndpoint,
    Network,
    Provider,
    RemoteEndpoint,
    Service,
    ServicePort,
    World,
)
from tests.model.random_worlds import HOSTS, NETWORKS, PEER_MACS, UPLINKS, mac
from tests.model.switch import LastingSwitch
from tests.unit.ofnet.worlds import ip_of, vtep

MODES = [(bridge, fwd_mode) for bridge in Bridge for fwd_mode in FwdMode]
NETS = {network.id: number for network, number in zip(NETWORKS, (1, 2, 1), strict=True)}
"""The number in the addresses of each network: tenant 2 has those of tenant 1's first one."""

VIPS = {
    "web:t1": (1, "10.1.0.200", "2001:db8:1::c8"),
    "web:t2": (2, "10.1.0.200", "2001:db8:1::c8"),
    "shop/api": (0, "10.254.0.10", "2001:db8:254::a"),
}
FLAT_VIP = ("10.1.0.201", "2001:db8:1::c9")
"""Of tenant 2, where all tenants' addresses are in one domain."""

PORTS = [(oxm.PROTO_TCP, 80), (oxm.PROTO_TCP, 81), (oxm.PROTO_UDP, 80)]
TARGET = 8080
MOST_TALKS = 6
"""Connections that go on after each change."""

OUTSIDE: tuple[IPv4Address | IPv6Address, ...] = (
    IPv4Address("192.0.2.7"),
    IPv6Address("2001:db8:ffff::7"),
)
Pod = LocalEndpoint | RemoteEndpoint
NUMBERS = st.sampled_from(range(1, 7))
VERSIONS = st.sampled_from([4, 6])


@dataclass(frozen=True)
class Talk:
    """A connection that a client has begun: its own end, and its provider."""

    client: EndpointKey
    service: str
    asked: FlowEnds
    provider: Provider


class Services(RuleBasedStateMachine):
    """A bridge whose pods are clients and providers of services."""

    bridge: ClassVar[Bridge]
    fwd_mode: ClassVar[FwdMode]

    def __init__(self) -> None:
        super().__init__()
        self.desired = Desired(self.bridge)
        self.turn = 0
        self.switch = LastingSwitch(self._choose)
        self.talks: list[Talk] = []
        self.client_port = 20_000
        self.kept: dict[tuple[int, FlowEnds], Provider] = {}
        self.world = World(
            fwd_mode=self.fwd_mode,
            arp_mode=ArpMode.PROXY,
            networks={one.id: _granted(one, self.bridge) for one in NETWORKS},
            vteps={host: vtep(host, ofport=port) for host, port in HOSTS.items()}
            if self.bridge is Bridge.VXLAN
            else {},
            uplinks=UPLINKS[:1] if self.bridge is Bridge.VLAN else (),
            peer_macs=PEER_MACS if self.bridge is Bridge.VLAN else {},
            complete=True,
        )
        self._change(self.world, Changes(everything=True))
        self.empty = frozenset(self.desired.flows.values())

    def _choose(self, count: int) -> int:
        """Return another number each time: what the switch's hash makes of connections."""
        self.turn += 1
        return self.turn % count

    @property
    def mode(self) -> Mode:
        return mode_of(self.bridge, self.fwd_mode)

    # -- what comes and goes -------------------------------------------------------------------

    @initialize(version=VERSIONS, affinity=st.sampled_from([0, 60]))
    def both_tenants_serve_everybody(self, version: int, affinity: int) -> None:
        for number, network, host in ((1, 0, None), (2, 0, "h2"), (3, 2, None), (4, 2, "h2")):
            self.a_pod_comes(number, NETWORKS[network], host)
        found = frozenset(
            Provider(_address(pod, version), TARGET, self._vrf(pod)) for pod in self.pods()
        )
        vrf, *addresses = VIPS["shop/api"]
        self._put(
            Service(
                key=f"shop/api@{version}",
                vrf=vrf,
                address=IPv4Address(addresses[0]) if version == 4 else IPv6Address(addresses[1]),
                ports=tuple(ServicePort(*port, found) for port in PORTS),
                affinity=affinity,
            )
        )

    @rule(
        number=NUMBERS,
        network=st.sampled_from(NETWORKS),
        host=st.sampled_from([None, None, *sorted(HOSTS)]),
    )
    def a_pod_comes(self, number: int, network: Network, host: str | None) -> None:
        if any(_number(pod) == number for pod in self.pods()):
            return
        net = NETS[network.id]
        key = EndpointKey(f"{network.id}-{number}")
        ip, ip6 = IPv4Address(f"10.{net}.0.{number}"), IPv6Address(f"2001:db8:{net}::{number:x}")
        if host is None:
            here = LocalEndpoint(
                key=key, network=network.id, ofport=100 + number, mac=mac(number), ip=ip, ip6=ip6
            )
            world = replace(self.world, local={**self.world.local, key: here})
            self._change(world, Changes.of(ObjectKind.LOCAL, [key]))
        else:
            there = RemoteEndpoint(
                key=key, network=network.id, host=HostLabel(host), mac=mac(number), ip=ip, ip6=ip6
            )
            world = replace(self.world, remote={**self.world.remote, key: there})
            self._change(world, Changes.of(ObjectKind.REMOTE, [key]))

    @precondition(lambda self: self.pods())
    @rule(data=st.data())
    def a_pod_goes(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(self.pods()))
        for key in list(self.world.services):
            self._provide(key, lambda one, gone=pod: not self._is(one, gone))  # type: ignore[misc]
        self.talks = [one for one in self.talks if one.client != pod.key]
        self._drop(pod)

    @rule(data=st.data(), key=st.sampled_from(sorted(VIPS)), version=VERSIONS)
    def a_service_comes_or_changes(self, data: st.DataObject, key: str, version: int) -> None:
        vrf, *addresses = VIPS[key]
        if vrf == 2 and self.mode is Mode.VLROUTER:
            addresses = list(FLAT_VIP)
        ports = data.draw(st.lists(st.sampled_from(PORTS), unique=True, min_size=1))
        new = Service(
            key=f"{key}@{version}",
            vrf=vrf,
            address=IPv4Address(addresses[0]) if version == 4 else IPv6Address(addresses[1]),
            ports=tuple(
                ServicePort(*port, data.draw(self._some_providers(vrf, version)))
                for port in sorted(ports)
            ),
            affinity=data.draw(st.sampled_from([0, 60])),
        )
        self._put(new)

    @precondition(lambda self: self.world.services)
    @rule(data=st.data())
    def a_service_goes(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.world.services)))
        services = {name: one for name, one in self.world.services.items() if name != key}
        self.talks = [one for one in self.talks if one.service != key]
        self._change(replace(self.world, services=services), Changes.of(ObjectKind.SERVICE, [key]))

    @rule()
    def nobody_asks_for_long(self) -> None:
        self.switch.expire()
        self.kept.clear()

    # -- what clients do, after each change ----------------------------------------------------

    @invariant()
    def clients_are_served(self) -> None:
        """Go on with connections, have providers answer, and begin one for each client."""
        for talk in list(self.talks):
            self._go_on(talk)
        for client in self.world.local.values():
            ports = [
                (service, port)
                for _, service in sorted(self.world.services.items())
                for port in service.ports
                if service.vrf in {0, self._vrf(client)}
            ]
            if ports:
                self._ask(client, *ports[self._choose(len(ports))])
        for talk in self.talks:
            self._answer(talk)
        del self.talks[:-MOST_TALKS]

    def _ask(self, client: LocalEndpoint, service: Service, port: ServicePort) -> None:
        """Begin a connection: it reaches a provider; without any it is refused."""
        self.client_port += 1
        asked = FlowEnds(
            port.protocol,
            _address(client, service.address.version),
            self.client_port,
            service.address,
            port.port,
        )
        sent = self.switch.receive(self._request(client, asked))
        found = self._served(client, port)
        if not found:
            assert [one.port for one in sent] == [PORT_CONTROLLER], "it is to be refused"
            return
        kept = self.kept.get(self._client(client, asked))
        if service.affinity and kept in self._offered(client, port):
            found = {kept}
        self._begin(Talk(client.key, service.key, asked, self._reached(client, asked, sent, found)))

    def _go_on(self, talk: Talk) -> None:
        """Go on: with the same provider; if that has gone with another, or refused."""
        client, service = self.world.local[talk.client], self.world.services[talk.service]
        sent = self.switch.receive(self._request(client, talk.asked))
        ports = [
            one
            for one in service.ports
            if (one.protocol, one.port) == (talk.asked.protocol, talk.asked.destination_port)
        ]
        self.talks.remove(talk)
        if not ports:
            assert not any(one.port in self._pod_ports() for one in sent), "no port of the service"
            return
        offered = self._offered(client, ports[0])
        if not offered:
            assert [one.port for one in sent] == [PORT_CONTROLLER], "it is to be refused"
            return
        kept = self.kept.get(self._client(client, talk.asked))
        found = self._served(client, ports[0])
        if talk.provider in offered:
            found = {talk.provider}
        elif service.affinity and kept in offered:
            found = {kept}
        provider = self._reached(client, talk.asked, sent, found)
        self._begin(replace(talk, provider=provider))

    def _answer(self, talk: Talk) -> None:
        """Answer: the client hears it from the service's address."""
        client = self.world.local[talk.client]
        pod = self._pod(talk.provider)
        if pod is None or pod.key == client.key or not self._beside(client, pod):
            return  # answers of what is no pod, or beyond a router, come by ways of their own
        sent = self.switch.receive(self._reply(client, pod, talk))
        self._arrives(sent, client)
        assert ends_of(sent[0].packet) == talk.asked.turned()

    # -- what always holds ---------------------------------------------------------------------

    @invariant()
    def nothing_is_left_of_what_went(self) -> None:
        """No connection names a service or a provider that there is not."""
        assert not self.desired.faults
        held = {
            (one.address, port.protocol, port.port, provider.address)
            for one in self.world.services.values()
            for port in one.ports
            for provider in port.providers
        }
        for connection in self.switch.connections.values():
            asked, provider = connection.asked, connection.answered.source
            ours = asked.destination != provider
            assert (
                not ours
                or (
                    asked.destination,
                    asked.protocol,
                    asked.destination_port,
                    provider,
                )
                in held
            )

    def teardown(self) -> None:
        for key in list(self.world.services):
            services = {name: one for name, one in self.world.services.items() if name != key}
            self._change(
                replace(self.world, services=services), Changes.of(ObjectKind.SERVICE, [key])
            )
        for pod in self.pods():
            self._drop(pod)
        assert frozenset(self.desired.flows.values()) == self.empty
        left = [one.asked for one in self.switch.connections.values()]
        # tracking gives datagrams of a pod to itself another source, and forgets it by its time
        assert all(one.source == one.destination for one in left)
        assert not self.desired.groups()

    # -- the world -----------------------------------------------------------------------------

    def pods(self) -> list[Pod]:
        return [*self.world.local.values(), *self.world.remote.values()]

    def _change(self, world: World, changes: Changes) -> None:
        self.world = world
        delta = self.desired.update(world, changes)
        self.switch.tables = tables_of(self.desired.flows.values())
        self.switch.forget(delta.ended)

    def _drop(self, pod: Pod) -> None:
        local = {key: one for key, one in self.world.local.items() if key != pod.key}
        remote = {key: one for key, one in self.world.remote.items() if key != pod.key}
        kind = ObjectKind.LOCAL if isinstance(pod, LocalEndpoint) else ObjectKind.REMOTE
        self._change(replace(self.world, local=local, remote=remote), Changes.of(kind, [pod.key]))

    def _put(self, service: Service) -> None:
        services = {**self.world.services, service.key: service}
        self._change(
            replace(self.world, services=services), Changes.of(ObjectKind.SERVICE, [service.key])
        )

    def _provide(self, key: str, keep: Callable[[Provider], bool]) -> None:
        service = self.world.services[key]
        ports = tuple(
            replace(one, providers=frozenset(filter(keep, one.providers))) for one in service.ports
        )
        if ports != service.ports:
            self._put(replace(service, ports=ports))

    def _some_providers(self, vrf: int, version: int) -> st.SearchStrategy[frozenset[Provider]]:
        known = [
            Provider(_address(pod, version), TARGET, self._vrf(pod))
            for pod in self.pods()
            if vrf in {0, self._vrf(pod)}
        ]
        if not vrf:
            known += [Provider(one, TARGET) for one in OUTSIDE if one.version == version]
        if not known:
            return st.just(frozenset())
        return st.frozensets(st.sampled_from(known), min_size=1) | st.just(frozenset())

    def _vrf(self, pod: Pod) -> int:
        return self.world.networks[pod.network].vrf

    def _is(self, provider: Provider, pod: Pod) -> bool:
        mine = {_address(pod, 4), _address(pod, 6)}
        return provider.vrf == self._vrf(pod) and provider.address in mine

    def _pod(self, provider: Provider) -> Pod | None:
        return next((pod for pod in self.pods() if self._is(provider, pod)), None)

    def _beside(self, client: Pod, pod: Pod) -> bool:
        return self.fwd_mode is FwdMode.ROUTING or client.network == pod.network

    # -- what is expected ----------------------------------------------------------------------

    def _offered(self, client: LocalEndpoint, port: ServicePort) -> set[Provider]:
        """Return the providers that a client may have a connection with."""
        flat = self.mode is Mode.VLROUTER
        return {one for one in port.providers if flat or one.vrf in {0, self._vrf(client)}}

    def _served(self, client: LocalEndpoint, port: ServicePort) -> set[Provider]:
        """Return those of them that a new connection may reach."""
        found = self._offered(client, port)
        if self.fwd_mode is FwdMode.ROUTING:
            return found
        granted = self.world.networks[client.network].granted
        beside = {one for one in found if any(one.address in block for block in granted)}
        return beside or found

    def _client(self, client: LocalEndpoint, asked: FlowEnds) -> tuple[int, FlowEnds]:
        """Return what affinity knows a client by."""
        flat = self.mode is Mode.VLROUTER
        return (0 if flat else self._vrf(client)), asked._replace(source_port=0)

    def _begin(self, talk: Talk) -> None:
        self.talks.append(talk)
        if self.world.services[talk.service].affinity:
            client = self.world.local[talk.client]
            self.kept[self._client(client, talk.asked)] = talk.provider

    def _reached(
        self,
        client: LocalEndpoint,
        asked: FlowEnds,
        sent: tuple[Sent, ...],
        found: set[Provider],
    ) -> Provider:
        """Return the provider that a request has reached, which must be one of these."""
        # to what is no pod it may have no way from here
        (ends,) = {ends_of(one.packet) for one in sent} or {ends_of(self.switch.last)}
        to = ends.destination, ends.destination_port
        # of two tenants in one domain either may be meant
        (provider, *_) = [one for one in sorted(found) if (one.address, one.port) == to]
        pod = self._pod(provider)
        if pod is not None and pod.key == client.key:
            assert [one.port for one in sent] == [client.ofport]
            assert ends.source == asked.destination, "its own source would be dropped"
            return provider
        assert (ends.source, ends.source_port) == (asked.source, asked.source_port)
        if pod is not None and self._beside(client, pod):
            self._arrives(sent, pod)
        else:
            # by a router, if there is one
            assert not any(one.port in self._pod_ports() for one in sent)
        return provider

    def _arrives(self, sent: tuple[Sent, ...], pod: Pod) -> None:
        """Check that a packet leaves for a pod, and for it alone."""
        (one,) = sent
        network = self.world.networks[pod.network]
        if isinstance(pod, LocalEndpoint):
            # a plain switch knows by which port it reaches a MAC address
            assert one.port in {pod.ofport, PORT_NORMAL}
            assert one.packet.get("eth_dst") == pod.mac
        elif self.bridge is Bridge.VXLAN:
            assert one.port == HOSTS[pod.host]
            assert one.packet.get("tunnel_id") == network.vni
        else:
            assert one.port in {UPLINKS[0].ofport, PORT_NORMAL}

    def _pod_ports(self) -> set[int]:
        return {pod.ofport for pod in self.world.local.values()}

    # -- packets -------------------------------------------------------------------------------

    def _request(self, client: LocalEndpoint, ends: FlowEnds) -> PacketFields:
        return PacketFields(
            {
                "in_port": client.ofport,
                "eth_src": client.mac,
                "eth_dst": self._next_hop(ends),
                **_fields(ends),
            }
        )

    def _next_hop(self, ends: FlowEnds) -> str:
        routed = self.fwd_mode is FwdMode.ROUTING
        return ROUTER_MAC if routed else service_mac(ends.destination)

    def _reply(self, client: LocalEndpoint, pod: Pod, talk: Talk) -> PacketFields:
        ends = FlowEnds(
            talk.asked.protocol,
            talk.provider.address,
            talk.provider.port,
            talk.asked.source,
            talk.asked.source_port,
        )
        network = self.world.networks[pod.network]
        frame: dict[str, Any] = {"eth_src": pod.mac, "eth_dst": client.mac}
        tags: tuple[int, ...] = ()
        if isinstance(pod, LocalEndpoint):
            frame["in_port"] = pod.ofport
            if self.fwd_mode is FwdMode.ROUTING:
                frame["eth_dst"] = ROUTER_MAC
        elif self.bridge is Bridge.VXLAN:
            frame |= {"in_port": HOSTS[pod.host], "tunnel_id": network.vni}
        else:
            frame["in_port"] = UPLINKS[0].ofport
            tags = (network.vlan,)
        return PacketFields({**frame, **_fields(ends)}, tags)


def _granted(network: Network, bridge: Bridge) -> Network:
    net = NETS[network.id]
    blocks = (IPv4Network(f"10.{net}.0.0/24"), IPv6Network(f"2001:db8:{net}::/64"))
    vni = network.vni if bridge is Bridge.VXLAN else 0
    return replace(network, granted=blocks, vni=vni)


def _number(pod: Pod) -> int:
    return ip_of(pod).packed[3]


def _address(pod: Pod, version: int) -> IPv4Address | IPv6Address:
    assert pod.ip6 is not None
    return ip_of(pod) if version == 4 else pod.ip6


def _fields(ends: FlowEnds) -> dict[str, Any]:
    v4 = ends.source.version == 4
    kind = "tcp" if ends.protocol == oxm.PROTO_TCP else "udp"
    return {
        "eth_type": oxm.ETH_IPV4 if v4 else oxm.ETH_IPV6,
        "ipv4_src" if v4 else "ipv6_src": ends.source,
        "ipv4_dst" if v4 else "ipv6_dst": ends.destination,
        "ip_proto": ends.protocol,
        f"{kind}_src": ends.source_port,
        f"{kind}_dst": ends.destination_port,
    }


@pytest.mark.parametrize(("bridge", "fwd_mode"), MODES)
def test_clients_always_have_a_live_provider(bridge: Bridge, fwd_mode: FwdMode) -> None:
    machine = type("Machine", (Services,), {"bridge": bridge, "fwd_mode": fwd_mode})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=8,
            stateful_step_count=25,
            suppress_health_check=list(HealthCheck),
            # the steps are few enough to be read as they are; shrinking them takes minutes
            phases=[Phase.generate],
        ),
    )
