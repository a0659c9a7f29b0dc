"""The hosts of the cluster, as this one deals with them. Pure: no I/O, no clock.

`netplugin.world.builder` feeds it records. Another host has an end of a tunnel
(`netplugin.bridges.tunnels` makes the ports, `netplugin.bridges.path_mtu` tries the ways), and the
vlan bridge knows the MAC address its uplinks send by. Of this host the cluster says whom it speaks
BGP with (`netplugin.bgp.host`).
"""

from ipaddress import IPv4Address

from core.ids import HostLabel
from netplugin.world.bridge_state import BridgeState
from netplugin.world.conversion import check_host, peering_of
from ofnet.bgp.peering import Peering
from state.records import BgpRecord, HostRecord


class Peers:
    """The records of all hosts, and whom this one speaks BGP with."""

    def __init__(self, host: HostLabel, vlan: BridgeState) -> None:
        self._host = host
        self._vlan = vlan
        self._records: dict[HostLabel, HostRecord] = {}
        self._peering: Peering | None = None

    def put(self, record: HostRecord) -> None:
        """Learn or replace a host. Raises Invalid, changing nothing, if it cannot be read."""
        check_host(record)
        self._records[record.label] = record
        self._show_mac(record.label)

    def remove(self, label: HostLabel) -> None:
        """Forget a host."""
        self._records.pop(label, None)
        self._show_mac(label)

    def put_bgp(self, record: BgpRecord) -> None:
        """Learn or replace whom this host speaks BGP with; other hosts' peers are theirs.

        Raises Invalid, changing nothing, if it cannot be read.
        """
        if record.hostname == self._host:
            self._peering = peering_of(record)

    def remove_bgp(self, record: BgpRecord) -> None:
        """Forget whom this host speaks BGP with."""
        if record.hostname == self._host:
            self._peering = None

    @property
    def peering(self) -> Peering | None:
        """Whom this host is to speak BGP with."""
        return self._peering

    def knows(self, label: HostLabel) -> bool:
        """Tell whether the store has a record of a host."""
        return label in self._records

    def tunnel_ends(self) -> dict[HostLabel, IPv4Address]:
        """Return the other hosts that have a tunnel end of their own, and where it is."""
        addresses = {
            label: IPv4Address(record.vtep_ip)
            for label, record in self._records.items()
            if record.vtep_ip
        }
        own = addresses.pop(self._host, None)
        return {label: address for label, address in addresses.items() if address != own}

    def _show_mac(self, label: HostLabel) -> None:
        record = self._records.get(label)
        mac = record.uplink_macs[0] if record is not None and record.uplink_macs else None
        if label != self._host:
            self._vlan.set_peer_mac(label, mac)
