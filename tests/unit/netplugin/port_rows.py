"""Rows of ports in OVSDB to build tests of."""

from typing import Any

from netplugin.ovsdb import PortRow
from ofnet.world import Bridge


def port_row(name: str, *, bridge: str = Bridge.VXLAN, **columns: Any) -> PortRow:
    """Return a row without anything but its name and bridge, but for the columns that are given."""
    empty: dict[str, Any] = {
        "type": "",
        "ofport": None,
        "tag": 0,
        "mac_in_use": None,
        "external_ids": {},
        "options": {},
        "error": None,
        "link_state": None,
        "policing_rate": 0,
        "policing_burst": 0,
    }
    return PortRow(name=name, bridge=bridge, **{**empty, **columns})
