"""Which service a packet is for: services by address, within the VRF of their clients. Pure.

Kept up to date like `ofnet.directory`; `ofnet.service_proxy` asks. Several services may share an
address; each port belongs to the first of them, by their keys, that has it and has providers.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address

from ofnet.packets import Segment
from ofnet.pipelines.stages import FLAT_VRF
from ofnet.tables import Mode, mode_of
from ofnet.world import Bridge, Service, ServicePort, World

Place = tuple[int, IPv4Address]
"""An address within a VRF; 0 is that of everybody's services."""


class ServiceDirectory:
    """The services of a bridge."""

    def __init__(self, bridge: Bridge) -> None:
        self.services: dict[str, Service] = {}
        self._bridge = bridge
        self._places: dict[str, Place] = {}
        self._at: dict[Place, set[str]] = {}

    def update(self, world: World, keys: Iterable[str]) -> None:
        """Take over what a World says of some services."""
        for key in keys:
            self._remove(key)
            service = world.services.get(key)
            if service is not None:
                place = (self.space(service.vrf, world), service.address)
                self.services[key], self._places[key] = service, place
                self._at.setdefault(place, set()).add(key)

    def asked(self, vrf: int, segment: Segment, world: World) -> tuple[Service, ServicePort] | None:
        """Return the service and the port a client of a VRF asks for; its own tenant's first."""
        asked = (segment.protocol, segment.destination_port)
        for space in (self.space(vrf, world), 0):
            for key in sorted(self._at.get((space, segment.destination), ())):
                service = self.services[key]
                for port in service.ports if service.providers else ():
                    if (port.protocol, port.port) == asked:
                        return service, port
        return None

    def space(self, vrf: int, world: World) -> int:
        """Return what stands for a VRF in the switch: where vlan networks are routed, one for all.

        0 stays what it is.
        """
        flat = mode_of(self._bridge, world.fwd_mode) is Mode.VLROUTER
        return FLAT_VRF if flat and vrf else vrf

    def _remove(self, key: str) -> None:
        if self.services.pop(key, None) is None:
            return
        place = self._places.pop(key)
        self._at[place].remove(key)
        if not self._at[place]:
            del self._at[place]
