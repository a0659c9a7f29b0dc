"""The other hosts of the cluster, and this host's BGP peer. Pure: no I/O, no clock.

`netplugin.world.graph` feeds it records. Each other host has a tunnel endpoint
(`netplugin.bridges.vxlan.tunnels` makes the ports, `netplugin.bridges.vxlan.path_mtu` probes the
paths) and a MAC address that its uplinks send by, which is set on the vlan bridge.
`netplugin.bgp.host_bgp` has the session with the BGP peer.
"""

from collections.abc import Container, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from core.ids import HostLabel
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.conversion import peering_of
from ofnet.bgp.peering import Peering
from state.records import BgpRecord, HostRecord
from state.underlay import usable

Address = IPv4Address | IPv6Address

FAMILIES: Final = (4, 6)


def end_of(record: HostRecord, families: Container[int] = FAMILIES) -> Address | None:
    """Return the address of a host at which tunnels end from a host with some families.

    It is that of IPv4 where both have one, so that both ends choose the same. None without one.
    """
    found = (one for one in ends_of(record) if one.version in families)
    return min(found, key=lambda one: one.version, default=None)


def ends_of(record: HostRecord) -> frozenset[Address]:
    """Return the addresses at which tunnels of other hosts to this one may end."""
    # no host sends its tunnels to itself
    return frozenset(one for text in record.vtep_ips if (one := usable(text)) is not None)


class Peers:
    """The records of all hosts, and the BGP peering of this one."""

    def __init__(self, host: HostLabel, vlan: BridgeState) -> None:
        self._host = host
        self._vlan = vlan
        self._records: dict[HostLabel, HostRecord] = {}
        self._ends: Mapping[HostLabel, Address] | None = None
        self._apart: frozenset[HostLabel] = frozenset()
        self._peering: Peering | None = None

    def put(self, record: HostRecord) -> None:
        """Add or replace a host, whose record was checked."""
        self._records[record.label] = record
        self._ends = None
        self._set_peer_mac(record.label)

    def remove(self, label: HostLabel) -> None:
        """Remove a host."""
        self._records.pop(label, None)
        self._ends = None
        self._set_peer_mac(label)

    def put_bgp(self, record: BgpRecord) -> None:
        """Set the BGP peering if it is this host's; those of other hosts are passed over.

        Raises Invalid, changing nothing, if it cannot be read.
        """
        if record.hostname == self._host:
            self._peering = peering_of(record)

    def remove_bgp(self, host: str) -> None:
        """Remove the BGP peering of a host if it is this one."""
        if host == self._host:
            self._peering = None

    @property
    def peering(self) -> Peering | None:
        """The BGP peering of this host, None if it has none."""
        return self._peering

    def record(self, label: HostLabel) -> HostRecord | None:
        """Return the record of a host, None if the store has none."""
        return self._records.get(label)

    def count(self) -> int:
        """Return how many hosts the cluster has, this one included."""
        return len(self._records)

    def tunnel_ends(self) -> Mapping[HostLabel, Address]:
        """Return the addresses of the tunnel endpoints of other hosts, by host.

        It is the same object until a host's record changes.
        """
        if self._ends is None:
            self._ends = self._found_ends()
        return self._ends

    def apart(self) -> frozenset[HostLabel]:
        """Return the hosts whose tunnels have no family of this host's."""
        self.tunnel_ends()
        return self._apart

    def _found_ends(self) -> dict[HostLabel, Address]:
        record = self._records.get(self._host)
        own = frozenset[Address]() if record is None else ends_of(record)
        families = FAMILIES if record is None else {one.version for one in own}
        found: dict[HostLabel, Address] = {}
        apart: set[HostLabel] = set()
        for label, record in self._records.items():
            # A host that was given another label is its own peer until its old record is removed;
            # it must not make a tunnel to itself. Addresses are compared, not texts: one of IPv6
            # has many.
            if label == self._host or own & ends_of(record):
                continue
            if (end := end_of(record, families)) is not None:
                found[label] = end
            elif end_of(record) is not None:
                apart.add(label)
        self._apart = frozenset(apart)
        return found

    def _set_peer_mac(self, label: HostLabel) -> None:
        record = self._records.get(label)
        mac = record.uplink_macs[0] if record is not None and record.uplink_macs else None
        # In routing mode, packets to an endpoint of another host are addressed to this MAC address:
        # there is no tunnel that would carry them to the host (`ofnet.pipelines.vlrouter`).
        if label != self._host:
            self._vlan.set_peer_mac(label, mac)
