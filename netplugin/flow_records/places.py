"""Where a way of the datapath belongs: on which bridge, in which VRF, between which ends (pure).

In come the ports of Open vSwitch's database and the agents of both bridges; out come `Located`
ways. Translations between a pod and its host are undone: the pod has its own address.
"""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from core.ids import EndpointKey
from netplugin.flow_records.megaflows import MegaflowWay
from netplugin.ovsdb.rows import PortRow
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectKind
from ofnet.world import Bridge, RemoteEndpoint, Service, World

Address = IPv4Address | IPv6Address
End = tuple[str, int]
"""An address and a port."""

TUNNELS: Final = "vxlan_sys_"
"""What the name of the datapath's port for all tunnels begins with."""


class Located(NamedTuple):
    """A way between two ends, in a VRF of a bridge."""

    bridge: Bridge
    vrf: int
    source: End
    destination: End


class Found(NamedTuple):
    """The endpoint that has an address: its key, and whether it is on another host."""

    key: EndpointKey
    elsewhere: bool


class PortPlaces:
    """Ports and addresses as both bridges have them; `ports` are the rows at the time of asking."""

    def __init__(self, agents: Mapping[Bridge, BridgeAgent], ports: Mapping[str, PortRow]) -> None:
        self._agents = agents
        self._numbers = dict(_numbers(ports.values()))
        self._candidates: dict[tuple[str, int, int], tuple[Bridge, ObjectKind, list[int]] | None]
        self._candidates = {}

    def locate(self, way: MegaflowWay) -> Located | None:
        """Return where a way belongs; None for one that is between no two hosts or pods."""
        where = (way.port, way.tunnel, way.vlan)
        if where not in self._candidates:
            self._candidates[where] = self._came_by(*where)
        came_by = self._candidates[where]
        if came_by is None:
            return None
        bridge, kind, vrfs = came_by
        source, destination = ip_address(way.source), ip_address(way.destination)
        if not (_is_one(source) and _is_one(destination)):
            return None
        directory = self._agents[bridge].directory
        if kind is ObjectKind.HOST_PORT and (pod := directory.behind(destination)) is not None:
            destination = (pod.ip if destination.version == 4 else pod.ip6) or destination
            network = self._agents[bridge].world.networks.get(pod.network)
            vrfs = [network.vrf] if network is not None else vrfs
        known = [
            vrf
            for vrf in vrfs
            if directory.endpoint(vrf, source) or directory.endpoint(vrf, destination)
        ]
        if not known:
            return None
        return Located(
            bridge,
            known[0],
            (way.source, way.source_port),
            (str(destination), way.destination_port),
        )

    def endpoint(self, bridge: Bridge, vrf: int, address: str) -> Found | None:
        """Return the endpoint that has an address in a VRF."""
        found = self._agents[bridge].directory.endpoint(vrf, ip_address(address))
        return None if found is None else Found(found.key, isinstance(found, RemoteEndpoint))

    def _came_by(
        self, port: str, tunnel: int, vlan: int
    ) -> tuple[Bridge, ObjectKind, list[int]] | None:
        """Return the bridge of a port, what is attached to it, and the VRFs of what it brings."""
        if port.startswith(TUNNELS):
            world = self._agents[Bridge.VXLAN].world
            return Bridge.VXLAN, ObjectKind.VTEP, _vrfs(world, vni=tunnel)
        bridge, number = self._numbers.get(port, (None, 0))
        agent = self._agents.get(bridge) if bridge is not None else None
        attached = agent.directory.attachment(number) if agent is not None else None
        if bridge is None or agent is None or attached is None:
            return None
        if attached.network is not None:
            return bridge, attached.kind, [attached.network.vrf]
        return bridge, attached.kind, _vrfs(agent.world, vlan=vlan)


def _numbers(rows: Iterable[PortRow]) -> Iterable[tuple[str, tuple[Bridge, int]]]:
    """Yield the bridge and the OpenFlow number of each port, by the name the datapath has."""
    for row in rows:
        for one in row.members or (row,):
            if row.bridge in set(Bridge) and one.ofport is not None:
                yield one.name, (Bridge(row.bridge), one.ofport)


def _vrfs(world: World, *, vni: int = 0, vlan: int = 0) -> list[int]:
    networks = world.networks.values()
    wanted = (one for one in networks if vni in {0, one.vni} and vlan in {0, one.vlan})
    return sorted({one.vrf for one in wanted})


def _is_one(address: Address) -> bool:
    """Return whether an address is that of one host beyond its link."""
    return not (address.is_multicast or address.is_link_local or address.is_unspecified)


class ServiceNames:
    """The services of a bridge by their addresses."""

    def __init__(self) -> None:
        self._of: Mapping[str, Service] | None = None
        self._keys: dict[tuple[int, str], str] = {}

    def key(self, world: World, vrf: int, address: str) -> str:
        """Return the key of the service that has an address for clients in a VRF; "" for none."""
        if world.services is not self._of:
            self._of = world.services
            self._keys = {(one.vrf, str(one.address)): one.key for one in world.services.values()}
        return self._keys.get((vrf, address)) or self._keys.get((0, address), "")
