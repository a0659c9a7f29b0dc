"""How the whole cluster forwards, as its settings say. Pure: no I/O, no clock.

`netplugin.world.builder` feeds it the record that netmaster writes. Until that names a forwarding
mode, it is the one of the agent's start. Settings that are gone stay in force.
"""

from ipaddress import IPv4Network
from typing import Final

from netplugin.world.conversion import check_global, private_subnet
from ofnet.world import ArpMode, FwdMode
from state.records import Encap, GlobalRecord

ACI: Final = "aci"


class ForwardingMode:
    """The settings of the cluster that forwarding depends on."""

    def __init__(self, fwd_mode: FwdMode) -> None:
        self.fwd_mode = fwd_mode
        self._record: GlobalRecord | None = None

    def put(self, record: GlobalRecord) -> bool:
        """Learn the settings; return True if that concerns every flow.

        Raises Invalid, changing nothing, if they cannot be read.
        """
        check_global(record)
        before = self.arp_mode, self.fabric_enforces, self.fwd_mode
        self._record = record
        if record.fwd_mode in set(FwdMode):
            self.fwd_mode = FwdMode(record.fwd_mode)
        return (self.arp_mode, self.fabric_enforces, self.fwd_mode) != before

    @property
    def arp_mode(self) -> ArpMode:
        """How ARP is treated; anything but `flood` is proxied, as in the original."""
        flood = self._record is not None and self._record.arp_mode == ArpMode.FLOOD
        return ArpMode.FLOOD if flood else ArpMode.PROXY

    @property
    def fabric_enforces(self) -> bool:
        """True on an ACI fabric, which enforces policies itself."""
        return self._record is not None and self._record.infra_type == ACI

    @property
    def private_subnet(self) -> IPv4Network | None:
        """The network of the hosts' own addresses for pods, None while it is not known."""
        return None if self._record is None else private_subnet(self._record)

    def delivers_unasked(self, encap: Encap) -> bool:
        """Tell whether a switch delivers to a pod's port that it has no flow of: rules or none."""
        return encap is Encap.VLAN and self.fwd_mode is FwdMode.BRIDGE
