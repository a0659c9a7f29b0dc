"""Interfaces of the host itself on our bridges: `contivh0` and those of infra networks.

In comes what such an interface is to be; out come a port of Open vSwitch's own making (internal),
its link with MAC, addresses and routes, and its OpenFlow number. Done again, it changes nothing.
`netplugin.bridges.host_access` and `netplugin.bridges.infra` say which there are.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from core.errors import Conflict, HostError
from core.logs import fields
from netplugin.kernel.host_links import HostRoute
from netplugin.kernel.netlink import Interface
from netplugin.kernel.netns import KernelLinks
from netplugin.ovsdb import Ovsdb, PortRow, PortSpec
from netplugin.world import port_names
from ofnet.world import Bridge

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInterface:
    """An interface as it is to be; `owner` stands in the port's external ids."""

    bridge: Bridge
    name: str
    owner: str
    tag: int
    ofport: int
    mac: str
    addresses: Sequence[Interface]
    routes: Collection[HostRoute]

    def spec(self) -> PortSpec:
        """Return the port it is in Open vSwitch."""
        return PortSpec(
            name=self.name,
            type="internal",
            ofport_request=self.ofport,
            tag=self.tag,
            external_ids={port_names.ENDPOINT_ID: self.owner},
        )

    def is_made(self, row: PortRow) -> bool:
        """Tell whether a port is the one to be; its number is the switch's business."""
        spec = self.spec()
        there = row.bridge, row.type, row.tag, dict(row.external_ids)
        return there == (self.bridge, spec.type, spec.tag, spec.external_ids)


class HostPorts:
    """Makes interfaces of the host. One per agent."""

    def __init__(self, ovsdb: Ovsdb, links: KernelLinks) -> None:
        self._ovsdb = ovsdb
        self._links = links

    async def ensure(self, wanted: HostInterface) -> PortRow:
        """Have the interface as it is to be, and return its port, which has its OpenFlow number.

        Raises Conflict when somebody else has its name, and SwitchUnavailable, SwitchRefused or
        HostError when it cannot be had now.
        """
        row = self._ovsdb.ports().get(wanted.name)
        if row is None or not wanted.is_made(row):
            await self._make(wanted, row)
        row = await self._ready(wanted.name)
        if wanted.name not in await self._links.links():
            # somebody removed the link, which the switch does not see; nor would it see the port
            # go and come in one step, so that it is made when this is tried again
            await self._ovsdb.delete_port(wanted.bridge, wanted.name)
            raise HostError(f"link {wanted.name} was gone, its port is made again")
        await self._links.configure_host_link(wanted.name, wanted.mac, wanted.addresses)
        await self._links.ensure_routes(wanted.name, wanted.routes)
        return row

    async def _ready(self, name: str) -> PortRow:
        row = self._ovsdb.ports().get(name)
        if row is None or row.ofport is None or row.ofport <= 0:
            await self._ovsdb.wait_ofport(name)
            row = self._ovsdb.ports()[name]
        return row

    async def _make(self, wanted: HostInterface, row: PortRow | None) -> None:
        if row is None:
            taken = wanted.name in await self._links.links()
        else:
            taken = row.external_ids.get(port_names.ENDPOINT_ID) != wanted.owner
        if taken:
            raise Conflict(f"interface {wanted.name} cannot be made: somebody else's has that name")
        await self._ovsdb.add_port(wanted.bridge, wanted.spec())
        log.info("host interface added", extra=fields(port=wanted.name))
