"""The addresses of the underlay, as this host knows them. Pure: no I/O, no clock.

`netplugin.world.builder` feeds it the records of hosts, `netplugin.bridges.host.underlay_routes`
what this host itself needs, `netplugin.bridges.guards.pod_guard` masters and store. Every source
has a name and is replaced as a whole. `netplugin.bridges.host.host_access` and
`netplugin.bridges.host.infra` route no network that takes such an address,
`netplugin.bridges.host.host_ports` makes no interface that does, and no flow does
(`netplugin.world.bridges.spared`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Interface, IPv6Interface
from typing import Final

from core.collections.latest import Latest
from core.ids import HostLabel, NetworkId
from state.records import HostRecord, NetworkRecord
from state.underlay import (
    Address,
    AddressKind,
    Underlay,
    UnderlayAddress,
    UnderlayFinding,
    of_host,
    overlaps,
)

Interface = IPv4Interface | IPv6Interface

MASTERS: Final = "masters"
"""The source of what masters registered."""
_NAMED: Final = 3
"""Targets that a fault names."""
_OF_OTHERS: Final = frozenset({AddressKind.CONTROL, AddressKind.TUNNEL})
"""What is taken from the records of other hosts: each is written by its own host, and must not keep
all others from many pods. But Open vSwitch's userspace datapath heeds no exceptions: tunnels are
safe only where no network with an end of one is routed."""


class HostUnderlay:
    """The addresses that this host, masters, the store and other hosts need for themselves.

    What `observe` is given is called after each change.
    """

    def __init__(self, host: HostLabel) -> None:
        self._host = host
        self._observers: list[Callable[[], None]] = []
        self._needed: dict[str, tuple[UnderlayAddress, ...]] = {}
        self._others: dict[str, tuple[UnderlayAddress, ...]] = {}
        self._spared: frozenset[Address] | None = None
        self._kept: dict[Address, UnderlayAddress] | None = None
        self._underlay: Underlay | None = None
        self._findings = Latest(_findings)

    def observe(self, notify: Callable[[], None]) -> None:
        """Call `notify` at each change."""
        self._observers.append(notify)

    def copy(self) -> "HostUnderlay":
        """Return another one that knows the same, and is not observed."""
        other = HostUnderlay(self._host)
        other._needed, other._others = dict(self._needed), dict(self._others)
        return other

    def knows(self, source: str) -> bool:
        """Return whether a source was ever set."""
        return source in self._needed

    def set_needed(self, source: str, addresses: Iterable[UnderlayAddress]) -> None:
        """Replace the addresses of a source without which this host, or its pods, are lost.

        No network is routed that takes one of them.
        """
        self._replace(self._needed, source, tuple(addresses))

    def set_others(self, source: str, addresses: Iterable[UnderlayAddress]) -> None:
        """Replace the addresses of a source that no route leads to pods; networks may have them."""
        self._replace(self._others, source, tuple(addresses))

    def put_host(self, record: HostRecord) -> None:
        """Add or replace another host."""
        if record.label != self._host:
            found = (one for one in of_host(record) if one.kind in _OF_OTHERS)
            self.set_needed(f"host {record.label}", found)

    def remove_host(self, label: HostLabel) -> None:
        """Remove another host."""
        self._replace(self._needed, f"host {label}", None)

    @property
    def spared(self) -> frozenset[Address]:
        """All addresses: no route to pods takes one. The same object until they change."""
        if self._spared is None:
            known = [*self._needed.values(), *self._others.values()]
            self._spared = frozenset(one.address for some in known for one in some)
        return self._spared

    @property
    def kept(self) -> Mapping[Address, UnderlayAddress]:
        """What no flow takes, by address: control, tunnels, store, next hops. The same as `spared`.

        Without further addresses: one of a master's machine may be what a network gave to it.
        """
        if self._kept is None:
            known = (one for some in self._needed.values() for one in some)
            self._kept = {one.address: one for one in known if one.kind is not AddressKind.FURTHER}
        return self._kept

    def findings(self, networks: Sequence[NetworkRecord]) -> tuple[UnderlayFinding, ...]:
        """Return which networks take an address that this host needs, and which they take."""
        if self._underlay is None:
            self._underlay = Underlay(one for some in self._needed.values() for one in some)
        return self._findings(networks, self._underlay)

    def routable(self, networks: Sequence[NetworkRecord]) -> Sequence[NetworkRecord]:
        """Return the networks that take no address which this host needs."""
        taking: set[NetworkId] = {one.network for one in self.findings(networks)}
        return [one for one in networks if one.id not in taking] if taking else networks

    def taken(self, interfaces: Iterable[Interface]) -> Address | None:
        """Return an address that an interface of this host with these addresses would take.

        The kernel takes the two ends of each subnet as well, for broadcasts.
        """
        for one in interfaces:
            found: list[Address] = [one.ip]
            if isinstance(one, IPv4Interface):
                found += one.network.network_address, one.network.broadcast_address
            for address in found:
                if address in self.spared:
                    return address
        return None

    def _replace(
        self,
        among: dict[str, tuple[UnderlayAddress, ...]],
        source: str,
        addresses: tuple[UnderlayAddress, ...] | None,
    ) -> None:
        before = among.pop(source, None)
        if addresses is not None:
            among[source] = addresses
        if before == addresses:
            return
        self._spared = self._underlay = self._kept = None
        for notify in self._observers:
            notify()


def faults(findings: Iterable[UnderlayFinding]) -> list[str]:
    """Return what is wrong where networks take addresses that this host needs."""
    return [
        f"{one}: this host does not route the network; delete it, or give it another subnet"
        for one in findings
    ]


def elsewhere(lost: Iterable[tuple[str, str]]) -> list[str]:
    """Return what is wrong where the host's own routing leads addresses or subnets of pods away.

    In come address or subnet, and the link; "" where it leads nowhere.
    """
    by_link: dict[str, list[str]] = {}
    for target, link in lost:
        by_link.setdefault(link, []).append(target)
    return [
        f"the host's own routing leads {_some(targets)} {f'to {link}' if link else 'nowhere'}, not "
        "to pods: change it (`ip rule`, `ip route`), or name the subnets in --pod-prefixes"
        for link, targets in sorted(by_link.items())
    ]


def _some(targets: list[str]) -> str:
    more = len(targets) - _NAMED
    return ", ".join(sorted(targets)[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _findings(networks: Sequence[NetworkRecord], underlay: Underlay) -> tuple[UnderlayFinding, ...]:
    return overlaps(networks, underlay)
