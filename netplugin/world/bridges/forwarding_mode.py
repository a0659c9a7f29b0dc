"""The cluster's settings that determine how every switch forwards. Pure: no I/O, no clock.

`netplugin.world.graph` feeds it the record that netmaster writes. Until the record names a
forwarding mode, the mode is the one that the agent was started with.
"""

from ipaddress import IPv4Network
from typing import Final

from netplugin.world.bridges.conversion import private_subnet
from ofnet.world import ArpMode, FwdMode
from state.records import Encap, GlobalRecord

ACI: Final = "aci"


class ForwardingMode:
    """The settings of the cluster that forwarding depends on."""

    def __init__(self, fwd_mode: FwdMode) -> None:
        self.fwd_mode = fwd_mode
        self._record: GlobalRecord | None = None
        self._private_subnet: IPv4Network | None = None

    def put(self, record: GlobalRecord) -> bool:
        """Replace the settings; return True if that changes every flow.

        Raises Invalid, changing nothing, if they cannot be read.
        """
        # Settings that are removed, or that name no mode, stay in force: an agent without a
        # forwarding mode could not forward at all.
        private = private_subnet(record)
        before = self.arp_mode, self.fabric_enforces, self.fwd_mode
        self._record = record
        self._private_subnet = private
        if record.fwd_mode in set(FwdMode):
            self.fwd_mode = FwdMode(record.fwd_mode)
        return (self.arp_mode, self.fabric_enforces, self.fwd_mode) != before

    @property
    def arp_mode(self) -> ArpMode:
        """How ARP is treated; any value but `flood` means proxy, as in the original."""
        flood = self._record is not None and self._record.arp_mode == ArpMode.FLOOD
        return ArpMode.FLOOD if flood else ArpMode.PROXY

    @property
    def fabric_enforces(self) -> bool:
        """True on an ACI fabric, which enforces policies itself."""
        return self._record is not None and self._record.infra_type == ACI

    @property
    def private_subnet(self) -> IPv4Network | None:
        """The network of the hosts' own addresses for pods, None while it is not known."""
        return self._private_subnet

    def delivers_without_flows(self, encap: Encap) -> bool:
        """Return whether a pod's port gets packets before the switch has its flows and rules."""
        return encap is Encap.VLAN and self.fwd_mode is FwdMode.BRIDGE
