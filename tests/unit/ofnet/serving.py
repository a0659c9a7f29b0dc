"""A bridge with services, without a switch: Worlds and first packets in, flows out."""

from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

from core.ids import EndpointKey
from ofnet.changes import EVERYTHING, Changes, ObjectKind
from ofnet.channel.flow_stats import ReportedClient
from ofnet.channel.wire import PacketIn
from ofnet.desired import Desired
from ofnet.directory import Directory
from ofnet.openflow import oxm
from ofnet.services.proxy import Response, ServiceProxy
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode, LocalEndpoint, Served, Service, ServicePort, World
from tests.unit.ofnet import frames
from tests.unit.ofnet.pipelines.scene import ANN, world
from tests.unit.ofnet.walk import Packet, Sent, walk
from tests.unit.ofnet.worlds import network

VIP = IPv4Address("10.254.0.10")
HTTP = ServicePort(6, 80, 8080)
UDP = ServicePort(17, 5601, 9600)


def service(
    *providers: IPv4Address,
    key: str = "web:default",
    vrf: int = 1,
    address: IPv4Address = VIP,
    ports: tuple[ServicePort, ...] = (HTTP, UDP),
) -> Service:
    return Service(key=key, vrf=vrf, address=address, ports=ports, providers=frozenset(providers))


def having(world: World, *services: Service) -> World:
    """Return the World with these services, and no others."""
    return replace(world, services={one.key: one for one in services})


def of_two_tenants() -> tuple[World, LocalEndpoint]:
    """Return a routed World in which another tenant's pod has ANN's address, and that pod."""
    before = world(FwdMode.ROUTING)
    blue = network("net.blue", vrf=2, number=3)
    theirs = replace(ANN, key=EndpointKey("net.blue-pod1"), network=blue.id, ofport=201)
    networks = {**before.networks, blue.id: blue}
    return replace(before, networks=networks, local={**before.local, theirs.key: theirs}), theirs


class Site:
    """What an agent keeps of one bridge."""

    def __init__(self, bridge: Bridge, world: World) -> None:
        self.world = world
        self.directory = Directory()
        self.proxy = ServiceProxy(bridge)
        self.desired = Desired(bridge)
        self.becomes(world, EVERYTHING)

    def becomes(self, world: World, changes: Changes | None = None) -> frozenset[str]:
        """Take over another World, of which by default services and pods here have changed."""
        if changes is None:
            changes = (
                Changes.of(ObjectKind.SERVICE, {*world.services, *self.world.services})
                | Changes.of(ObjectKind.LOCAL, {*world.local, *self.world.local})
                | Changes.of(ObjectKind.REMOTE, {*world.remote, *self.world.remote})
            )
        touched = self.directory.update(world, changes)
        altered = self.proxy.update(world, changes, self.directory, touched)
        self._realise(world, changes | Changes.of(ObjectKind.SERVED, altered))
        return altered

    def adopts(self, *found: ReportedClient) -> frozenset[str]:
        """Go on with what a switch reports."""
        names = self.proxy.adopt(found, self.world, self.directory)
        self._realise(self.world, Changes.of(ObjectKind.SERVED, names))
        return names

    def asks(
        self,
        pod: LocalEndpoint,
        address: IPv4Address = VIP,
        port: ServicePort = HTTP,
        *,
        source_port: int = 40000,
        vlan: int = 0,
    ) -> Response:
        """Have a pod's first packet come up."""
        frame = frames.segment(
            pod,
            str(address),
            port.port,
            protocol=port.protocol,
            source_port=source_port,
            vlan=vlan,
        )
        packet = PacketIn(TableId.SRV_PROXY_DNAT, pod.ofport, None, frame)
        response = self.proxy.packet_in(packet, self.world, self.directory)
        self._realise(self.world, Changes.of(ObjectKind.SERVED, {response.name}))
        return response

    def served(self, pod: LocalEndpoint, of: str = "web:default") -> Served | None:
        """Return who serves a pod."""
        found = [
            one for one in self.proxy.served.values() if (one.service, one.client) == (of, pod.ip)
        ]
        return found[0] if found else None

    def provider(self, pod: LocalEndpoint, of: str = "web:default") -> IPv4Address | None:
        """Return the provider that serves a pod."""
        served = self.served(pod, of)
        return served.provider if served is not None else None

    def lines(self, *tables: int) -> set[str]:
        """Return the flows of clients and services in some tables, as text."""
        flows = self.desired.flows.values()
        return {str(flow) for flow in flows if flow.table in tables and flow.priority > 1}

    def send(self, packet: Packet) -> list[Sent]:
        """Return where a packet leaves the bridge, and what it is then."""
        return walk(self.desired.flows.values(), packet)

    def _realise(self, world: World, changes: Changes) -> None:
        self.world = replace(world, served=dict(self.proxy.served))
        self.desired.update(self.world, changes)
        assert not self.desired.faults
        anew = Desired(self.desired.bridge)
        anew.update(self.world, EVERYTHING)
        assert anew.flows == self.desired.flows


def talk(
    pod: LocalEndpoint,
    address: IPv4Address,
    port: int,
    *,
    source_port: int = 40000,
    protocol: int = oxm.PROTO_TCP,
    **more: Any,
) -> Packet:
    """Return a packet from a pod's port to another port, to the router's or another MAC."""
    kind = "tcp" if protocol == oxm.PROTO_TCP else "udp"
    return {
        "in_port": pod.ofport,
        "eth_src": pod.mac,
        "eth_dst": "00:00:11:11:11:11",
        "eth_type": oxm.ETH_IPV4,
        "ipv4_src": pod.ip,
        "ipv4_dst": address,
        "ip_proto": protocol,
        f"{kind}_src": source_port,
        f"{kind}_dst": port,
        **more,
    }
