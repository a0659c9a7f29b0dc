"""Indexes services by address, within the VRF of their clients. Pure.

Kept up to date like `ofnet.directory`, for `ofnet.services.clients` and `ofnet.services.proxy`.
Several services may share an address. A port belongs to the service with the smallest key among
those that have the port and at least one provider.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address

from core.multimap import discard
from ofnet.openflow.packets import Segment
from ofnet.pipelines.stages import FLAT_VRF
from ofnet.tables import Mode, mode_of
from ofnet.world import Bridge, Service, ServicePort, World


class ServiceDirectory:
    """The services of a bridge."""

    # Several services can have one address. Which one has a port is decided by key, not by order of
    # arrival, so that all agents decide alike, also after a restart. A change of one service can
    # therefore move ports of all others at its address: `update` returns their keys too.

    def __init__(self, bridge: Bridge) -> None:
        self.services: dict[str, Service] = {}
        self._bridge = bridge
        self._by_address: dict[IPv4Address, set[str]] = {}
        self._ports: dict[str, dict[tuple[int, int], ServicePort]] = {}

    def update(self, world: World, keys: Iterable[str]) -> frozenset[str]:
        """Take over some services of a World.

        Returns the keys of these and of all services that shared or share an address with them,
        because ports of those may belong to another service now.
        """
        changed = set(keys)
        for key in sorted(changed):
            before, after = self.services.pop(key, None), world.services.get(key)
            if before is not None:
                changed |= self._by_address[before.address]
                discard(self._by_address, before.address, key)
                del self._ports[key]
            if after is not None:
                self.services[key] = after
                self._ports[key] = _ports_by_number(after)
                self._by_address.setdefault(after.address, set()).add(key)
                changed |= self._by_address[after.address]
        return frozenset(changed)

    def find(self, vrf: int, segment: Segment, world: World) -> tuple[Service, ServicePort] | None:
        """Return the service and port that a packet is for; the client's own tenant comes first."""
        return self._find(
            vrf, segment.destination, segment.protocol, segment.destination_port, world
        )

    def ports(self, service: Service, vrf: int, world: World) -> tuple[ServicePort, ...]:
        """Return a service's ports without those that belong to another service for this VRF."""
        return tuple(
            port
            for port in service.ports
            if self._find(vrf, service.address, port.protocol, port.port, world) == (service, port)
        )

    def _find(
        self, vrf: int, address: IPv4Address, protocol: int, number: int, world: World
    ) -> tuple[Service, ServicePort] | None:
        candidates = [self.services[key] for key in sorted(self._by_address.get(address, ()))]
        for wanted in (self.switch_vrf(vrf, world), 0):
            for service in candidates:
                if service.providers and self.switch_vrf(service.vrf, world) == wanted:
                    port = self._ports[service.key].get((protocol, number))
                    if port is not None:
                        return service, port
        return None

    def switch_vrf(self, vrf: int, world: World) -> int:
        """Return the VRF id that flows have for a VRF: one for all where vlan networks are routed.

        0 (any VRF) stays 0.
        """
        flat = mode_of(self._bridge, world.fwd_mode) is Mode.VLROUTER
        return FLAT_VRF if flat and vrf else vrf


def _ports_by_number(service: Service) -> dict[tuple[int, int], ServicePort]:
    """Return a service's ports by protocol and number; of duplicates the first."""
    return {(port.protocol, port.port): port for port in reversed(service.ports)}
