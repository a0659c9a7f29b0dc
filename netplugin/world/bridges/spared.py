"""Keeps flows off the addresses of the underlay: what a bridge may have of an object. Pure.

In come objects as records and this host ask for them, the addresses that hosts need for themselves
(`netplugin.world.underlay`) and the ends of the management
(`netplugin.world.bridges.management_ends`). Out come the objects of which pipelines make flows,
None for what gets none, and what is wrong. It is asked for each object that
`netplugin.world.bridges.bridge_state` sets; masters refuse such networks, but a store may say
anything.
"""

# On the vlan bridge all share the physical network's addresses: whoever has one of the underlay
# there is no endpoint. Bridged frames would be forwarded all the same, so that the port of one on
# this host is barred. Inside a VRF of the vxlan bridge such an address takes nothing from anybody
# but pods of its own tenant; what this host itself sends there is another matter.
#
# External addresses of Kubernetes' services may be those of nodes, and stay theirs: pods reach the
# service there as the outside does, translated by the node. Flows for a service's address take all
# of it, also ports that the service has not.

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Generic, NamedTuple, TypeVar

from netplugin.world.bridges.management_ends import NOTHING, PROTOCOLS, Address, ManagementEnds
from ofnet.world import (
    AccessPort,
    Bridge,
    LocalEndpoint,
    PolicySubject,
    RemoteEndpoint,
    Router,
    Service,
    ServicePort,
)
from state.underlay import UnderlayAddress

V = TypeVar("V")

_PROTOCOL_NAMES: Final = {number: name for name, number in PROTOCOLS.items()}
_ANOTHER: Final = "give the cluster another private subnet"


class Allowed(NamedTuple, Generic[V]):
    """An object as a bridge may have it, None if it may not, and what is wrong with it."""

    value: V | None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spared:
    """What flows take from no host: addresses, and the ends of the management."""

    addresses: Mapping[Address, UnderlayAddress] = field(default_factory=dict)
    management: ManagementEnds = NOTHING

    def local(self, bridge: Bridge, asked: LocalEndpoint) -> Allowed[LocalEndpoint]:
        """Return an endpoint of this host as a bridge may have it."""
        taken, private = self._first(asked.ip, asked.ip6), self._first(asked.nat_ip)
        if taken is None and private is None:
            return Allowed(asked)
        if taken is not None and bridge is Bridge.VLAN:
            return Allowed(None, (_barred(asked, taken),))
        faults = [] if taken is None else [_unreached(asked, taken)]
        nat_ip = asked.nat_ip
        if private is not None:
            nat_ip = None
            faults.append(f"endpoint {asked.key} reaches no host by {private}: {_ANOTHER}")
        routed = asked.routed - self.addresses.keys()
        return Allowed(replace(asked, routed=routed, nat_ip=nat_ip), tuple(faults))

    def remote(self, bridge: Bridge, asked: RemoteEndpoint) -> Allowed[RemoteEndpoint]:
        """Return an endpoint of another host as a bridge may have it."""
        taken = self._first(asked.ip, asked.ip6)
        if taken is None:
            return Allowed(asked)
        if bridge is Bridge.VLAN:
            return Allowed(None, (_barred(asked, taken),))
        return Allowed(replace(asked, routed=False), (_unreached(asked, taken),))

    def access(self, asked: AccessPort) -> Allowed[AccessPort]:
        """Return a pod's interface to this host as a bridge may have it."""
        taken = self._first(asked.ip)
        if taken is None:
            return Allowed(asked)
        return Allowed(None, (f"no pod gets host1 with {taken}: {_ANOTHER}",))

    def router(self, asked: Router) -> Allowed[Router]:
        """Return this host's port for BGP as a bridge may have it."""
        taken = self._first(asked.ip, asked.global6)
        if taken is None:
            return Allowed(asked)
        return Allowed(None, (f"no BGP router has {taken}: give this host's another address",))

    def service(self, asked: Service) -> Allowed[Service]:
        """Return a service as a bridge may have it: one of the cluster, or of Kubernetes."""
        taken = self._first(asked.address)
        if asked.vrf:
            if taken is None:
                return Allowed(asked)
            return Allowed(None, (f"service {asked.key} has {taken}: it is not served",))
        left = tuple(one for one in asked.ports if not self._is_of_management(asked, one))
        name, _, _ = asked.key.partition("@")
        faults = (
            f"service {name} not served in full: {asked.address} port {one.port} is of the "
            "management of this cluster"
            for one in asked.ports
            if one not in left
        )
        served = asked if len(left) == len(asked.ports) else replace(asked, ports=left)
        return Allowed(served if taken is None else None, tuple(faults))

    def judged(
        self, bridge: Bridge, subjects: Mapping[str, PolicySubject]
    ) -> Mapping[str, PolicySubject]:
        """Return the pods' addresses to which policies of Kubernetes judge packets on a bridge."""
        if bridge is not Bridge.VLAN:
            return subjects
        taken = {name for name, one in subjects.items() if one.address in self.addresses}
        if not taken:
            return subjects
        return {name: one for name, one in subjects.items() if name not in taken}

    def _first(self, *addresses: IPv4Address | IPv6Address | None) -> UnderlayAddress | None:
        found = (self.addresses.get(one) for one in addresses if one is not None)
        return next((one for one in found if one is not None), None)

    def _is_of_management(self, service: Service, port: ServicePort) -> bool:
        name = _PROTOCOL_NAMES.get(port.protocol, "")
        return self.management.cover(service.address, name, port.port)


def _barred(one: LocalEndpoint | RemoteEndpoint, taken: UnderlayAddress) -> str:
    return f"endpoint {one.key} has {taken}: nothing is forwarded for it; delete it"


def _unreached(one: LocalEndpoint | RemoteEndpoint, taken: UnderlayAddress) -> str:
    return f"endpoint {one.key} has {taken}: this host does not reach it; delete it"
