"""The changes of the database: each function returns one, to be written into an IDL transaction.

A change reads the replica and writes only what differs. It can therefore be repeated after a lost
connection without knowing whether it was applied. Run by `netplugin.ovsdb.replica` in its thread.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from core.errors import SwitchRefused
from netplugin.ovsdb.rows import BridgeSpec, PortSpec


class Database(Protocol):
    """What a change reads: the tables of the IDL, and ports by name."""

    @property
    def tables(self) -> Any:
        """The IDL's tables by name."""
        ...

    def port(self, name: str) -> tuple[Any, str] | None:
        """Return the row in table Port and the name of the bridge that holds it."""
        ...


PLACEHOLDER: Final = "tcp:127.0.0.1:9"
"""A placeholder controller: the discard port of this host, where nothing listens."""

BOND: Final[Mapping[str, Any]] = {
    "bond_mode": ["balance-tcp"],
    "lacp": ["active"],
    "other_config": {"lacp-fallback-ab": "true"},
}
"""The columns of table Port that make a port with several devices the original's bond."""

NO_QUEUES: Final = "linux-noop"
"""The kind of QoS by which Open vSwitch leaves a device's queue as it is."""
OWNER: Final[Mapping[str, str]] = {"contiv": "pods"}
"""The external ids of rows that are ours but belong to no bridge."""
USERSPACE: Final = "netdev"
ENDED: Final[Mapping[str, int]] = {"tcp_close": 75, "tcp_time_wait": 75}
"""Seconds for which connection tracking remembers an ended connection: longer than kernels do."""

OvsdbChange = Callable[[Database, Any], None]
"""Reads the database, writes into the transaction; raises SwitchRefused if it cannot be done."""


def ensure_bridge(spec: BridgeSpec) -> OvsdbChange:
    """Create the bridge and its controller, or correct their settings.

    Of the ports only that of the bridge's name is touched.
    """

    def change(db: Database, txn: Any) -> None:
        bridge = _bridge(db, spec.name)
        if bridge is None:
            bridge = txn.insert(db.tables["Bridge"])
            bridge.name = spec.name
            _root(db).addvalue("bridges", bridge)
            controllers, config, ids = [], {}, {}
        else:
            controllers = list(bridge.controller)
            config, ids = dict(bridge.other_config), dict(bridge.external_ids)
        wanted = {"disable-in-band": "true"}
        if spec.datapath_id is not None:
            wanted["datapath-id"] = spec.datapath_id
        _set(bridge, "datapath_type", spec.datapath_type)
        _set(bridge, "protocols", sorted(spec.protocols))
        _set(bridge, "fail_mode", [spec.fail_mode])
        _set(bridge, "other_config", config | wanted)
        _set(bridge, "external_ids", ids | dict(spec.external_ids))
        same = [row for row in controllers if row.target == spec.controller][:1]
        controller = same[0] if same else txn.insert(db.tables["Controller"])
        _set(controller, "target", spec.controller)
        _set(controller, "connection_mode", ["out-of-band"])
        _set(controller, "max_backoff", [spec.max_backoff_ms])
        _set(controller, "inactivity_probe", [spec.inactivity_probe_ms])
        _set(controller, "controller_rate_limit", [spec.packets_per_second])
        _set(controller, "controller_burst_limit", [spec.packets_waiting])
        if controllers != [controller]:
            bridge.controller = [controller]
        if spec.own_port is not None:
            _put_own_port(db, txn, bridge, spec.own_port)

    return change


def _put_own_port(db: Database, txn: Any, bridge: Any, spec: PortSpec) -> None:
    """Give the port that has the bridge's name the specified device, and no other."""
    found = db.port(bridge.name)
    if found is not None and found[1] != bridge.name:
        _remove_port(db, bridge.name)
        found = None
    if found is None:
        port = txn.insert(db.tables["Port"])
        port.name = bridge.name
        bridge.addvalue("ports", port)
    else:
        port = found[0]
    if found is None or [one.name for one in port.interfaces] != [spec.name]:
        _remove_port(db, spec.name)
        port.interfaces = [_interface(db, txn, spec.name, spec, 0)]


def hang_up(names: Collection[str]) -> OvsdbChange:
    """Replace each bridge's controller by a placeholder, and request a confirmation.

    ovs-vswitchd confirms by `cur_cfg` reaching `next_cfg` (`OvsdbView.applied`).
    """
    # A placeholder, never no controller at all: a switch whose last controller is removed, or whose
    # first one is added, drops all its flows (Open vSwitch, ofproto/connmgr.c:
    # connmgr_set_controllers).

    def change(db: Database, txn: Any) -> None:
        connected = [row for name in names if (row := _bridge(db, name)) and row.controller]
        for bridge in connected:
            placeholder = txn.insert(db.tables["Controller"])
            _set(placeholder, "target", PLACEHOLDER)
            _set(placeholder, "connection_mode", ["out-of-band"])
            bridge.controller = [placeholder]
        if connected:
            _request_confirmation(db)

    return change


def delete_bridge(name: str) -> OvsdbChange:
    """Remove the bridge with its ports, and request a confirmation; it need not exist."""

    def change(db: Database, txn: Any) -> None:  # noqa: ARG001 - every change has this shape
        bridge = _bridge(db, name)
        if bridge is not None:
            _root(db).delvalue("bridges", bridge)
            _delete_unused_qos(db, bridge)
            _forget_zones(db)
            _request_confirmation(db)

    return change


def _delete_unused_qos(db: Database, leaving: Any) -> None:
    """Delete our QoS row, which needs no reference to stay, if only a bridge that goes has it."""
    own = set(leaving.ports)
    used = {qos for port in db.tables["Port"].rows.values() if port not in own for qos in port.qos}
    unused = [qos for qos in db.tables["QoS"].rows.values() if _is_ours(qos) and qos not in used]
    for port in own if unused else ():
        # references are counted before the server deletes the ports of a bridge that is gone
        _set(port, "qos", [])
    for qos in unused:
        qos.delete()


def remember_ended(bridge: str, zones: Collection[int]) -> OvsdbChange:
    """Have connection tracking remember ended connections of these zones, and of no other of ours.

    Nothing is written for the kernel's datapath, whose tracking remembers them for long enough.
    """

    def change(db: Database, txn: Any) -> None:
        if _existing(db, bridge).datapath_type != USERSPACE:
            return
        root = _root(db)
        datapath = root.datapaths.get(USERSPACE)
        known = dict(datapath.ct_zones) if datapath is not None else {}
        if datapath is None:
            datapath = txn.insert(db.tables["Datapath"])
            datapath.datapath_version = "<unknown>"
            datapath.external_ids = dict(OWNER)
            root.setkey("datapaths", USERSPACE, datapath)
        ours = [zone for zone in known.values() if _is_ours(zone)]
        kept = {n: zone for n, zone in known.items() if n in zones or not _is_ours(zone)}
        policy = _policy(db, txn, ours)
        added = {n: _zone(db, txn, policy) for n in sorted(set(zones) - kept.keys())}
        _set(datapath, "ct_zones", kept | added)

    return change


def _policy(db: Database, txn: Any, zones: Iterable[Any]) -> Any:
    """Return the policy that some zones share, a new one if there are none."""
    found = [policy for zone in zones for policy in zone.timeout_policy]
    policy = found[0] if found else txn.insert(db.tables["CT_Timeout_Policy"])
    _set(policy, "timeouts", dict(ENDED))
    return policy


def _zone(db: Database, txn: Any, policy: Any) -> Any:
    zone = txn.insert(db.tables["CT_Zone"])
    zone.timeout_policy = [policy]
    zone.external_ids = dict(OWNER)
    return zone


def _forget_zones(db: Database) -> None:
    root = _root(db)
    for name, datapath in dict(root.datapaths).items():
        zones = dict(datapath.ct_zones)
        ours = [number for number, zone in zones.items() if _is_ours(zone)]
        if _is_ours(datapath) and len(ours) == len(zones):
            root.delkey("datapaths", name)
        else:
            for number in ours:
                datapath.delkey("ct_zones", number)


def _is_ours(row: Any) -> bool:
    return dict(row.external_ids) == OWNER


def _request_confirmation(db: Database) -> None:
    root = _root(db)
    # A read-modify-write: with `verify` the transaction fails, and is repeated, if another client
    # has changed the number meanwhile.
    root.verify("next_cfg")
    root.next_cfg += 1


def add_port(bridge: str, spec: PortSpec, replaces: Iterable[str] = ()) -> OvsdbChange:
    """Add a port; first delete the ports it replaces and any port of its names on any bridge."""
    devices = spec.members or (spec.name,)
    former = {spec.name, *devices, *replaces}

    def change(db: Database, txn: Any) -> None:
        target = _existing(db, bridge)
        # In the same transaction: port names are unique in a database, and a device that belonged
        # to a port (an uplink that becomes part of a bond) is never without one in between.
        for name in former:
            _remove_port(db, name)
        port = txn.insert(db.tables["Port"])
        port.name = spec.name
        port.interfaces = [
            _interface(db, txn, name, spec, number) for number, name in enumerate(devices)
        ]
        _set(port, "external_ids", dict(spec.external_ids))
        _set(port, "vlan_mode", ["access" if spec.tag else "trunk"])
        if spec.tag:
            _set(port, "tag", [spec.tag])
        for column, value in BOND.items() if spec.members else ():
            _set(port, column, value)
        if spec.keeps_queue:
            _set(port, "qos", [_no_queues(db, txn)])
        target.addvalue("ports", port)

    return change


def delete_port(bridge: str, name: str) -> OvsdbChange:
    """Remove the port from the bridge; it need not exist. OVSDB deletes unreferenced rows."""

    def change(db: Database, txn: Any) -> None:  # noqa: ARG001 - every change has this shape
        found = db.port(name)
        if found is not None and found[1] == bridge:
            _existing(db, bridge).delvalue("ports", found[0])

    return change


def delete_ports(ports: Mapping[str, str]) -> OvsdbChange:
    """Remove ports, by name, from the bridge of each, and request a confirmation for all."""

    def change(db: Database, txn: Any) -> None:
        for name, bridge in ports.items():
            delete_port(bridge, name)(db, txn)
        _request_confirmation(db)

    return change


def set_policing(name: str, rate: int, burst: int) -> OvsdbChange:
    """Set the ingress rate limit of a port; it need not exist."""

    def change(db: Database, txn: Any) -> None:  # noqa: ARG001 - every change has this shape
        found = db.port(name)
        for interface in found[0].interfaces if found is not None else ():
            _police(interface, rate, burst)

    return change


def set_mtu(name: str, mtu: int) -> OvsdbChange:
    """Request the MTU of an internal port; it need not exist."""

    def change(db: Database, txn: Any) -> None:  # noqa: ARG001 - every change has this shape
        found = db.port(name)
        for interface in found[0].interfaces if found is not None else ():
            _set(interface, "mtu_request", [mtu])

    return change


def set_external_ids(bridge: str, ids: Mapping[str, str | None]) -> OvsdbChange:
    """Write keys among the bridge's external ids, remove those that are None; others stay."""

    def change(db: Database, txn: Any) -> None:  # noqa: ARG001 - every change has this shape
        row = _existing(db, bridge)
        present = dict(row.external_ids)
        for key, value in ids.items():
            if value is None and key in present:
                row.delkey("external_ids", key)
            elif value is not None and present.get(key) != value:
                row.setkey("external_ids", key, value)

    return change


def _interface(db: Database, txn: Any, name: str, spec: PortSpec, number: int) -> Any:
    interface = txn.insert(db.tables["Interface"])
    interface.name = name
    _set(interface, "type", spec.type)
    _set(interface, "external_ids", dict(spec.external_ids))
    _set(interface, "options", dict(spec.options))
    _police(interface, spec.policing_rate, spec.policing_burst)
    if spec.continuity is not None:
        _set(interface, "cfm_mpid", [spec.continuity.identifier])
        # extended: in the plain form, intervals between 100 ms and 1 s cannot be expressed
        timing = {"cfm_extended": "true", "cfm_interval": str(spec.continuity.interval)}
        _set(interface, "other_config", timing)
    if spec.ofport_request is not None:
        _set(interface, "ofport_request", [spec.ofport_request + number])
    return interface


# Without a QoS row, ovs-vswitchd deletes the queue of a device when it takes it, and again whenever
# it starts: the limit on what a pod receives would be gone, ours and that of the plugin bandwidth.


def _no_queues(db: Database, txn: Any) -> Any:
    """Return the QoS row of all ports whose queues are left alone."""
    for qos in db.tables["QoS"].rows.values():
        if qos.type == NO_QUEUES and _is_ours(qos):
            return qos
    made = txn.insert(db.tables["QoS"])
    made.type = NO_QUEUES
    _set(made, "external_ids", dict(OWNER))
    return made


def _police(interface: Any, rate: int, burst: int) -> None:
    _set(interface, "ingress_policing_rate", rate)
    _set(interface, "ingress_policing_burst", burst)


def _set(row: Any, column: str, value: Any) -> None:
    """Write a column unless it has the value already. Raises SwitchRefused."""
    # The IDL logs a value that the schema forbids and ignores the write: it is read back.
    if getattr(row, column, None) == value:
        return
    setattr(row, column, value)
    if getattr(row, column, None) != value:
        name = getattr(row, "name", "the controller")
        raise SwitchRefused(f"Open vSwitch: {column} of {name} cannot be {value}")


def _root(db: Database) -> Any:
    for row in db.tables["Open_vSwitch"].rows.values():
        return row
    raise SwitchRefused("the Open vSwitch database is empty: is ovs-vswitchd running?")


def _bridge(db: Database, name: str) -> Any | None:
    return next((row for row in db.tables["Bridge"].rows.values() if row.name == name), None)


def _existing(db: Database, name: str) -> Any:
    row = _bridge(db, name)
    if row is None:
        raise SwitchRefused(f"bridge {name} does not exist")
    return row


def _remove_port(db: Database, name: str) -> None:
    found = db.port(name)
    if found is not None:
        _existing(db, found[1]).delvalue("ports", found[0])
