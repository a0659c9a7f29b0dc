"""Which addresses of this host's pods its kernel has routes to. Pure: no I/O, no clock.

A kernel knows one route to an address. Pods of two tenants may have the same one on one host: the
pod with the lower port number has the route, which is the older one until the numbers wrap around
(`netplugin.world.bridges.port_names`). The others are named as a fault of the host. Fed by
`netplugin.world.cluster_endpoints.endpoints`, read by it and by
`netplugin.bridges.host.host_routes`.
"""

from bisect import insort
from collections.abc import Iterator, Set
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from core.ids import EndpointKey

Address = IPv4Address | IPv6Address


class Pod(NamedTuple):
    """A pod of this host: the number of its port, and its endpoint."""

    number: int
    key: EndpointKey


class Contested(NamedTuple):
    """An address that several pods of this host have, of which the host reaches one."""

    address: Address
    reached: EndpointKey
    others: tuple[EndpointKey, ...]


class HostRoutes:
    """The pods of this host by address, in the order of their port numbers."""

    def __init__(self) -> None:
        self._claims: dict[Pod, frozenset[Address]] = {}
        self._pods: dict[Address, list[Pod]] = {}
        self._shared: dict[Address, list[Pod]] = {}
        """The part of `_pods` with several pods: it is asked for at each change of any pod."""

    def claim(self, pod: Pod, addresses: Set[Address]) -> frozenset[EndpointKey]:
        """Set the addresses of a pod, none if it is gone.

        Return the other pods of which the host reaches more addresses now, or fewer.
        """
        before = self._claims.pop(pod, frozenset())
        affected: set[EndpointKey] = set()
        for address in before - addresses:
            pods = self._pods[address]
            pods.remove(pod)
            affected.update(one.key for one in pods[:1])
            if not pods:
                del self._pods[address]
            if len(pods) < 2:
                self._shared.pop(address, None)
        for address in addresses - before:
            pods = self._pods.setdefault(address, [])
            affected.update(one.key for one in pods[:1])
            insort(pods, pod)
            if len(pods) > 1:
                self._shared[address] = pods
        if addresses:
            self._claims[pod] = frozenset(addresses)
        return frozenset(affected)

    def of(self, pod: Pod) -> frozenset[Address]:
        """Return the addresses of a pod by which the host reaches it."""
        claimed = self._claims.get(pod, frozenset())
        return frozenset(one for one in claimed if self._pods[one][0] == pod)

    def contested(self) -> Iterator[Contested]:
        """Yield the addresses of several pods."""
        for address, (first, *others) in self._shared.items():
            yield Contested(address, first.key, tuple(one.key for one in others))


class RoutedAddresses:
    """The addresses to which a host has routes by its port on one bridge, and their endpoints.

    `all` has the addresses; it is the same object until one of them changes.
    """

    # Several loops compare all addresses at each change of any pod. Being the same object, they are
    # equal at once.

    def __init__(self) -> None:
        self._endpoints: dict[Address, EndpointKey] = {}
        self.all: frozenset[Address] = frozenset()

    def put(self, key: EndpointKey, before: Set[Address], addresses: Set[Address]) -> None:
        """Replace the addresses of an endpoint.

        One that another endpoint was given meanwhile stays that one's.
        """
        if before == addresses:
            return
        for address in before - addresses:
            if self._endpoints.get(address) == key:
                del self._endpoints[address]
        self._endpoints.update(dict.fromkeys(addresses, key))
        self.all = frozenset(self._endpoints)
