"""The host's routes to pods, by its port on each bridge (pure).

Each pod of this host has a route of its own, an address of the host as source, and all of one
family share a next hop: a neighbour that is set for good, so that the host resolves nothing. What
answers to that MAC address are the flows of `ofnet.pipelines.features.host_paths`. Which pod has
the route, if tenants' addresses overlap, is decided by
`netplugin.world.cluster_endpoints.host_routes`. Vxlan networks have a route for each of their
subnets, for the pods of other hosts. `netplugin.bridges.host.host_access` sets the routes.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from netplugin.kernel.netlink.requests import Address
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.world.bridges import port_names
from netplugin.world.cluster_endpoints.host_routes import Contested
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.world import tunnel_source6

Subnet = IPv4Network | IPv6Network

METRIC: Final = 512
"""Of routes to networks: more than that of an infra network's route to the same subnet."""
NEXT_HOP6: Final = IPv6Address("fe80::1")


@dataclass(frozen=True, slots=True)
class PodRoutes:
    """Routes to the addresses of this host's pods by one of its ports, each to one address.

    `private` is the host's private network, `source` its own address for connections to pods.
    """

    # It has addresses, and makes routes of those that are asked for: of some hundred pods one comes
    # or goes at a time.

    addresses: frozenset[Address]
    private: IPv4Network
    source: IPv4Address

    def to(self, addresses: Iterable[Address]) -> list[HostRoute]:
        """Return the routes to some of the addresses, in their order.

        For IPv6 the kernel chooses the source: the host may have no such address, or several.
        """
        return [
            HostRoute(
                subnet=_only(pod),
                source=self.source if pod.version == 4 else None,
                via=_next_hop(pod, self.private),
            )
            for pod in sorted(addresses, key=lambda one: (one.version, int(one)))
        ]

    def all(self) -> list[HostRoute]:
        """Return the routes to all addresses, in their order."""
        return self.to(self.addresses)


def network_routes(
    subnets: Iterable[Subnet], private: IPv4Network, source: IPv4Address
) -> Iterator[HostRoute]:
    """Yield the routes to networks, for the pods of other hosts there.

    An infra network's routes to the same subnets are taken before these.
    """
    for subnet in sorted(set(subnets), key=lambda one: (one.version, one.network_address.packed)):
        four = subnet.version == 4
        yield HostRoute(
            subnet=subnet,
            source=source if four else tunnel_source6(source),
            via=_next_hop(subnet, private),
            metric=METRIC,
        )


def private_routes(blocks: Iterable[IPv6Network]) -> Iterator[HostRoute]:
    """Yield the routes to where this host's pods have private addresses of IPv6.

    The next hop is that of all pods. The kernel chooses the source, as for a pod of this host.
    """
    for block in blocks:
        yield HostRoute(subnet=block, source=None, via=NEXT_HOP6)


def neighbours(targets: Iterable[Address | Subnet], private: IPv4Network) -> dict[Address, str]:
    """Return the next hops of the routes to pods and networks, with their MAC address."""
    one_of_each = {target.version: target for target in targets}
    return {_next_hop(target, private): ROUTER_MAC for target in one_of_each.values()}


def faults(contested: Iterable[Contested]) -> Iterator[str]:
    """Yield what is wrong where several pods of this host have one address."""
    for address, reached, others in contested:
        others_named = ", ".join(others)
        yield (
            f"{address} is the address of several pods here: the host reaches {reached}, not "
            f"{others_named}, whose probes fail: give tenants of one host other subnets"
        )


def _next_hop(target: Address | Subnet, private: IPv4Network) -> Address:
    if target.version == 4:
        return port_names.private_address(private, port_names.PEER_NUMBER).ip
    return NEXT_HOP6


def _only(address: Address) -> IPv4Network | IPv6Network:
    return ip_network((address, address.max_prefixlen))
