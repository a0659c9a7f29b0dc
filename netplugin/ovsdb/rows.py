"""Values read from and written to Open vSwitch's database."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from core.patience import patient

NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class BondMember:
    """A NIC of a bond; `lacp_current` is None where LACP is not in use."""

    name: str
    ofport: int | None
    mac_in_use: str | None
    link_state: str | None
    lacp_current: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRow:
    """A port in the database. `ofport` is None before Open vSwitch has processed the row.

    An ofport of -1 is a failure, with the reason in `error`; a row may come before its device. A
    bond has `members`, and `active_mac` names the one in use where Open vSwitch uses only one.
    `mtu_request` is the requested MTU; None leaves it to the switch.
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
        """The OpenFlow numbers of the port; a bond has one for each member."""
        taken = [member.ofport for member in self.members] if self.members else [self.ofport]
        return frozenset(number for number in taken if number is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuity:
    """Open vSwitch takes a port for dead while no continuity check message comes in by it.

    `identifier` is the switch's own (cfm_mpid). It looks every 3.5 intervals (ms) whether one came.
    """

    identifier: int
    interval: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortSpec:
    """A desired port; `tag` 0 is a trunk, `type` "" an existing device.

    With `members` it is a bond of these devices, which uses LACP, or a single device where the
    other end does not (docs/original/ofnet-ovsdb.md §3); they request the numbers from
    `ofport_request` on. Packets that arrive above `policing_rate` (kbit/s; 0 is no limit) are
    dropped, beyond bursts of `policing_burst` (kbit). `keeps_queue`: Open vSwitch leaves the queue
    of the device as it is.
    """

    name: str
    type: Literal["", "internal", "vxlan"] = ""
    ofport_request: int | None = None
    tag: int = 0
    external_ids: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    policing_rate: int = 0
    policing_burst: int = 0
    keeps_queue: bool = False
    members: tuple[str, ...] = ()
    continuity: Continuity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSpec:
    """A desired bridge; `datapath_type` "netdev" is the userspace datapath.

    `packets_per_second` and `packets_waiting` limit the packets sent to the controller, which Open
    vSwitch takes from all ports in turn. `own_port` is the device of the port that has the bridge's
    name; None leaves that to Open vSwitch.
    """

    # The controller is this agent. Out of band: a lost connection must not add Open vSwitch's own
    # in-band flows. `secure`: flows stay while the agent is down. The packet limit: one pod can
    # neither keep the agent busy nor delay the packets of others.

    name: str
    controller: str
    datapath_type: str = ""
    datapath_id: str | None = None
    protocols: frozenset[str] = frozenset({"OpenFlow10", "OpenFlow11", "OpenFlow12", "OpenFlow13"})
    fail_mode: Literal["secure", "standalone"] = "secure"
    external_ids: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    max_backoff_ms: int = 1000
    inactivity_probe_ms: int = round(patient(10_000))
    packets_per_second: int = 2000
    packets_waiting: int = 500
    own_port: PortSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeRow:
    """A bridge in the database; `controllers` has the targets of its controllers.

    `own_devices` are those of the port that has the bridge's name, none without such a port.
    """

    external_ids: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    controllers: tuple[str, ...] = ()
    fail_mode: str | None = None
    datapath_type: str = ""
    protocols: frozenset[str] = frozenset()
    other_config: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    own_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OvsdbView:
    """The database at one moment; `revision` grows with each change and reconnection."""

    revision: int = 0
    connected: bool = False
    applied: bool = True
    """Whether ovs-vswitchd has applied all confirmed changes (`cur_cfg` has reached `next_cfg`)."""

    ports: Mapping[str, PortRow] = field(default_factory=dict)
    bridges: Mapping[str, BridgeRow] = field(default_factory=dict)
    locked: bool = False
    """Whether this client holds the lock it asked for."""

    contended: bool = False
    """Whether another client holds that lock."""
