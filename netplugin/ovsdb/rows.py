"""What is read from and written to Open vSwitch's database, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class BondMember:
    """A card of a bond as it is; `lacp_current` is None where LACP is not spoken."""

    name: str
    ofport: int | None
    mac_in_use: str | None
    link_state: str | None
    lacp_current: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRow:
    """A port as it is. `ofport` is None before Open vSwitch has looked at the row.

    An ofport of -1 is "not yet", with the reason in `error`: a row may come before its device. A
    bond has `members`, and `active_mac` says which of them Open vSwitch uses where it uses one.
    `mtu_request` is what was asked for; nothing leaves it to the switch.
    """

    name: str
    bridge: str
    type: str
    ofport: int | None
    tag: int
    mac_in_use: str | None
    external_ids: Mapping[str, str]
    options: Mapping[str, str]
    error: str | None
    link_state: str | None
    policing_rate: int
    policing_burst: int
    members: tuple[BondMember, ...] = ()
    active_mac: str | None = None
    mtu_request: int | None = None

    @property
    def numbers(self) -> frozenset[int]:
        """The OpenFlow numbers it takes; a bond takes one for each member."""
        taken = [member.ofport for member in self.members] if self.members else [self.ofport]
        return frozenset(number for number in taken if number is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSpec:
    """A port as it is to be; `tag` 0 is a trunk, `type` "" a device that exists by itself.

    With `members` it is a bond of these devices, which speaks LACP and uses one of them alone
    where nobody answers it (docs/original/ofnet-ovsdb.md §3); they ask for numbers from
    `ofport_request` on. What comes in above `policing_rate` (kbit/s; 0 is no limit) is dropped,
    beyond bursts of `policing_burst` (kbit).
    """

    name: str
    type: Literal["", "internal", "vxlan"] = ""
    ofport_request: int | None = None
    tag: int = 0
    external_ids: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    policing_rate: int = 0
    policing_burst: int = 0
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSpec:
    """A bridge as it is to be; `datapath_type` "netdev" is the userspace datapath.

    The controller is ours, on this host: out of band, so that a lost connection adds no flows of
    Open vSwitch's own, and secure, so that flows stay when it is gone. It is sent so many packets a
    second, of all ports in turn: one pod can neither keep it busy nor have all others wait.
    """

    name: str
    controller: str
    datapath_type: str = ""
    datapath_id: str | None = None
    protocols: frozenset[str] = frozenset({"OpenFlow10", "OpenFlow11", "OpenFlow12", "OpenFlow13"})
    fail_mode: Literal["secure", "standalone"] = "secure"
    max_backoff_ms: int = 1000
    inactivity_probe_ms: int = 10_000
    packets_per_second: int = 1000
    packets_waiting: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OvsdbView:
    """The database at one moment; `revision` grows with every change and reconnection."""

    revision: int = 0
    connected: bool = False
    applied: bool = True
    """Whether ovs-vswitchd has done all that somebody waits for (`next_cfg`, `cur_cfg`)."""

    ports: Mapping[str, PortRow] = field(default_factory=dict)
    bridges: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Bridge name to its external ids."""
