"""Which service a packet is for: services by address, within the VRF of their clients. Pure.

Kept up to date like `ofnet.directory`; `ofnet.services.clients` asks. Several services may share an
address; each port belongs to the first of them, by their keys, that has it and has providers.
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

    def __init__(self, bridge: Bridge) -> None:
        self.services: dict[str, Service] = {}
        self._bridge = bridge
        self._at: dict[IPv4Address, set[str]] = {}
        self._numbered: dict[str, dict[tuple[int, int], ServicePort]] = {}

    def update(self, world: World, keys: Iterable[str]) -> frozenset[str]:
        """Take over what a World says of some services.

        Return the keys of these and of all that had or have an address with them: their ports may
        be others' now.
        """
        met = set(keys)
        for key in sorted(met):
            before, after = self.services.pop(key, None), world.services.get(key)
            if before is not None:
                met |= self._at[before.address]
                discard(self._at, before.address, key)
                del self._numbered[key]
            if after is not None:
                self.services[key] = after
                self._numbered[key] = _numbered(after)
                self._at.setdefault(after.address, set()).add(key)
                met |= self._at[after.address]
        return frozenset(met)

    def asked(self, vrf: int, segment: Segment, world: World) -> tuple[Service, ServicePort] | None:
        """Return the service and the port a client of a VRF asks for; its own tenant's first."""
        return self._asked(
            vrf, segment.destination, segment.protocol, segment.destination_port, world
        )

    def ports(self, service: Service, vrf: int, world: World) -> tuple[ServicePort, ...]:
        """Return a service's ports without those by which clients of a VRF reach another one."""
        return tuple(
            port
            for port in service.ports
            if self._asked(vrf, service.address, port.protocol, port.port, world) == (service, port)
        )

    def _asked(
        self, vrf: int, address: IPv4Address, protocol: int, number: int, world: World
    ) -> tuple[Service, ServicePort] | None:
        here = [self.services[key] for key in sorted(self._at.get(address, ()))]
        for space in (self.space(vrf, world), 0):
            for service in here:
                if service.providers and self.space(service.vrf, world) == space:
                    port = self._numbered[service.key].get((protocol, number))
                    if port is not None:
                        return service, port
        return None

    def space(self, vrf: int, world: World) -> int:
        """Return what stands for a VRF in the switch: where vlan networks are routed, one for all.

        0 stays what it is.
        """
        flat = mode_of(self._bridge, world.fwd_mode) is Mode.VLROUTER
        return FLAT_VRF if flat and vrf else vrf


def _numbered(service: Service) -> dict[tuple[int, int], ServicePort]:
    """Return the ports of a service by protocol and number, of several the first."""
    return {(port.protocol, port.port): port for port in reversed(service.ports)}
