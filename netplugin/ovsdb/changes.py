"""One change of the database each, written into a transaction of the IDL.

A change reads the replica as it is and writes what differs, so it can be done again after a lost
connection without knowing whether it was applied. Run by `netplugin.ovsdb.replica` on its thread.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

from core.errors import SwitchRefused
from netplugin.ovsdb.rows import BridgeSpec, PortSpec


class Database(Protocol):
    """What a change may look at: tables of the IDL, and ports found by name."""

    @property
    def tables(self) -> Any:
        """The IDL's tables by name."""
        ...

    def port(self, name: str) -> tuple[Any, str] | None:
        """Return the row in table Port and the name of the bridge that holds it."""
        ...


NOBODY: Final = "tcp:127.0.0.1:9"
"""What is dialed for as long as nobody is to be: the port that discards, on this host."""

BOND: Final[Mapping[str, Any]] = {
    "bond_mode": ["balance-tcp"],
    "lacp": ["active"],
    "other_config": {"lacp-fallback-ab": "true"},
}
"""What makes a port with several devices the original's bond, by the columns of table Port."""

OvsdbChange = Callable[[Database, Any], None]
"""Reads the database, writes into the transaction; raises SwitchRefused if it cannot be done."""


def ensure_bridge(spec: BridgeSpec) -> OvsdbChange:
    """Make the bridge and its controller, or correct their settings; ports stay as they are."""

    def change(db: Database, txn: Any) -> None:
        bridge = _bridge(db, spec.name)
        if bridge is None:
            bridge = txn.insert(db.tables["Bridge"])
            bridge.name = spec.name
            _root(db).addvalue("bridges", bridge)
            controllers, config = [], {}
        else:
            controllers, config = list(bridge.controller), dict(bridge.other_config)
        wanted = {"disable-in-band": "true"}
        if spec.datapath_id is not None:
            wanted["datapath-id"] = spec.datapath_id
        _set(bridge, "datapath_type", spec.datapath_type)
        _set(bridge, "protocols", sorted(spec.protocols))
        _set(bridge, "fail_mode", [spec.fail_mode])
        _set(bridge, "other_config", config | wanted)
        ours = [row for row in controllers if row.target == spec.controller][:1]
        controller = ours[0] if ours else txn.insert(db.tables["Controller"])
        _set(controller, "target", spec.controller)
        _set(controller, "connection_mode", ["out-of-band"])
        _set(controller, "max_backoff", [spec.max_backoff_ms])
        _set(controller, "inactivity_probe", [spec.inactivity_probe_ms])
        _set(controller, "controller_rate_limit", [spec.packets_per_second])
        _set(controller, "controller_burst_limit", [spec.packets_waiting])
        if controllers != [controller]:
            bridge.controller = [controller]

    return change


def hang_up(names: Collection[str]) -> OvsdbChange:
    """Have bridges dial nobody instead of the controller they have, and the switch say when.

    Never none at all: a switch whose last controller goes, or whose first one comes, drops all its
    flows (Open vSwitch, ofproto/connmgr.c: connmgr_set_controllers).
    """

    def change(db: Database, txn: Any) -> None:
        dialing = [row for name in names if (row := _bridge(db, name)) and row.controller]
        for bridge in dialing:
            nobody = txn.insert(db.tables["Controller"])
            _set(nobody, "target", NOBODY)
            _set(nobody, "connection_mode", ["out-of-band"])
            bridge.controller = [nobody]
        if dialing:
            root = _root(db)
            root.verify("next_cfg")
            root.next_cfg += 1

    return change


def delete_bridge(name: str) -> OvsdbChange:
    """Remove the bridge with its ports; it need not exist."""

    def change(db: Database, txn: Any) -> None:  # noqa: ARG001 - every change has this shape
        bridge = _bridge(db, name)
        if bridge is not None:
            _root(db).delvalue("bridges", bridge)

    return change


def add_port(bridge: str, spec: PortSpec, replaces: Iterable[str] = ()) -> OvsdbChange:
    """Add the port; those it replaces make way, and on whatever bridge those of its names."""
    devices = spec.members or (spec.name,)
    former = {spec.name, *devices, *replaces}

    def change(db: Database, txn: Any) -> None:
        target = _existing(db, bridge)
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
        target.addvalue("ports", port)

    return change


def delete_port(bridge: str, name: str) -> OvsdbChange:
    """Remove the port from the bridge; it need not exist. Its rows are collected as garbage."""

    def change(db: Database, txn: Any) -> None:  # noqa: ARG001 - every change has this shape
        found = db.port(name)
        if found is not None and found[1] == bridge:
            _existing(db, bridge).delvalue("ports", found[0])

    return change


def set_policing(name: str, rate: int, burst: int) -> OvsdbChange:
    """Limit what a port brings in, and leave everything else of it; it need not exist."""

    def change(db: Database, txn: Any) -> None:  # noqa: ARG001 - every change has this shape
        found = db.port(name)
        for interface in found[0].interfaces if found is not None else ():
            _police(interface, rate, burst)

    return change


def set_mtu(name: str, mtu: int) -> OvsdbChange:
    """Ask for an MTU of a port of the switch's own making; it need not exist."""

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
    if spec.ofport_request is not None:
        _set(interface, "ofport_request", [spec.ofport_request + number])
    return interface


def _police(interface: Any, rate: int, burst: int) -> None:
    _set(interface, "ingress_policing_rate", rate)
    _set(interface, "ingress_policing_burst", burst)


def _set(row: Any, column: str, value: Any) -> None:
    """Write a column unless it says so already; the IDL drops what the schema forbids."""
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
