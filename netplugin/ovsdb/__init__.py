"""The door to Open vSwitch's database: the only package that imports `ovs` (ADR 14).

`rows` says what is read and written, `table` keeps the ports as they are (pure), `changes` writes
one change into a transaction, `replica` runs the official IDL on a thread of its own, `client` is
the asyncio side the agent uses.
"""

from netplugin.ovsdb.client import Ovsdb
from netplugin.ovsdb.rows import BondMember, BridgeSpec, PortRow, PortSpec

__all__ = ["BondMember", "BridgeSpec", "Ovsdb", "PortRow", "PortSpec"]
