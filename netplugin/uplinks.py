"""The host's uplinks: network cards that tie the vlan bridge to the physical VLANs.

`converge` puts the cards the command line names on the bridge as trunks and tells the World their
OpenFlow numbers and MAC addresses. Ports it did not make are nobody's business here. Next is
`netplugin.world`.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from core.logs import fields
from netplugin import ports
from netplugin.ovsdb import Ovsdb, PortRow, PortSpec
from netplugin.world import WorldBuilder
from ofnet.world import Bridge, Uplink

log = logging.getLogger(__name__)

UPLINK_ENDPOINT_ID: Final = "uplinkPort"
"""What the original writes into the external ids of an uplink's port."""


class Uplinks:
    """The uplinks of one host. `macs` has the kernel's MAC address of each card."""

    def __init__(self, macs: Mapping[str, str], ovsdb: Ovsdb, world: WorldBuilder) -> None:
        self._macs = macs
        self._ovsdb = ovsdb
        self._world = world

    async def converge(self) -> None:
        """Make the ports match the command line, once. Raises SwitchUnavailable, SwitchRefused."""
        rows = self._ovsdb.ports(Bridge.VLAN)
        for name in self._macs:
            if name not in rows:
                await self._ovsdb.add_port(Bridge.VLAN, _spec(name))
                log.info("uplink added", extra=fields(port=name))
        for name in _ours(rows):
            if name not in self._macs:
                await self._ovsdb.delete_port(Bridge.VLAN, name)
                log.info("uplink removed", extra=fields(port=name))
        self._world.set_uplinks(self._ready())

    def _ready(self) -> Sequence[Uplink]:
        rows = self._ovsdb.ports(Bridge.VLAN)
        return [
            Uplink(ofport=row.ofport, mac=mac, up=row.link_state == "up")
            for name, mac in self._macs.items()
            if (row := rows.get(name)) is not None and row.ofport is not None and row.ofport > 0
        ]


def _spec(name: str) -> PortSpec:
    return PortSpec(name=name, external_ids={ports.ENDPOINT_ID: UPLINK_ENDPOINT_ID})


def _ours(rows: Mapping[str, PortRow]) -> list[str]:
    return [
        row.name
        for row in rows.values()
        if row.external_ids.get(ports.ENDPOINT_ID) == UPLINK_ENDPOINT_ID
    ]
