"""Client of Open vSwitch's database: the only package that imports `ovs` (ADR 14).

In come `PortSpec`s and `BridgeSpec`s to write; out go `PortRow`s and `BridgeRow`s as the database
has them. `rows` defines these values, `table` assembles ports from the rows of three tables (pure),
`row_changes` writes one change into a transaction, `replica` runs the official IDL in a thread,
`client` is the asyncio side that the agent uses.
"""

from netplugin.ovsdb.client import Ovsdb
from netplugin.ovsdb.rows import BondMember, BridgeRow, BridgeSpec, Continuity, PortRow, PortSpec

__all__ = ["BondMember", "BridgeRow", "BridgeSpec", "Continuity", "Ovsdb", "PortRow", "PortSpec"]
