"""Ends of connections to the cluster's management: its addresses, and its ports there. Pure.

`netplugin.world.management` finds them. What they are compared with is translated: by the switch
(`netplugin.world.bridges.spared`), or by rules in the host's kernel
(`netplugin.bridges.services.service_rules`, `netplugin.bridges.guards.host_guard`,
`netplugin.pods.host_port_mappings.mapping_rules`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from ofnet.world import ManagementPort

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PROTOCOLS: Final[Mapping[str, int]] = {"tcp": 6, "udp": 17}


@dataclass(frozen=True, slots=True)
class ManagementEnds:
    """Addresses and ports of the management: every port counts at every address."""

    addresses: frozenset[Network] = frozenset()
    ports: frozenset[ManagementPort] = frozenset()
    _single: frozenset[Network] = field(init=False, repr=False, compare=False)
    _wide: tuple[Network, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort the addresses: a thousand hosts must not be compared one by one."""
        wide = tuple(one for one in self.addresses if one.prefixlen < one.max_prefixlen)
        object.__setattr__(self, "_wide", wide)
        object.__setattr__(self, "_single", self.addresses - frozenset(wide))

    def has_port(self, protocol: str, port: int) -> bool:
        """Tell whether a port is one of the management's."""
        number = PROTOCOLS.get(protocol.lower())
        return number is not None and ManagementPort(number, port) in self.ports

    def cover(self, address: Address, protocol: str, port: int) -> bool:
        """Tell whether what goes to an address and port goes to the management."""
        return self.has_port(protocol, port) and self.has_address(address)

    def has_address(self, address: Address) -> bool:
        """Tell whether an address is one of the management's."""
        return ip_network(address) in self._single or any(
            address.version == one.version and address in one for one in self._wide
        )


NOTHING: Final = ManagementEnds()
