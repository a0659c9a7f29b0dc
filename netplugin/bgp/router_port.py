"""The host's interface for BGP, `inb01`: its port on the vlan bridge, and its place in the World.

In comes a peering; out go a port of the host (`netplugin.bridges.host.host_ports`) and the World's
router. `netplugin.bgp.host_bgp` decides whether there is one, and
`ofnet.pipelines.features.bgp_routes` has its flows.
"""

import logging

from core.errors import HostError
from core.logs import fields
from netplugin.bridges.host.host_ports import HostInterface, HostPorts
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.ovsdb import Ovsdb, PortRow
from netplugin.world.bridges import port_names
from ofnet.bgp.peering import Peering
from ofnet.pipelines.features.bgp_routes import ROUTER_VLAN
from ofnet.world import Bridge, Router

log = logging.getLogger(__name__)


class RouterPort:
    """The interface of one host."""

    def __init__(self, ovsdb: Ovsdb, host_ports: HostPorts) -> None:
        self._ovsdb = ovsdb
        self._host_ports = host_ports

    async def ensure(self, peering: Peering) -> Router:
        """Create or correct the interface; return the World's router. Raises ContivError."""
        wanted = router_interface(peering)
        row = await self._host_ports.ensure(lambda: wanted)
        if peering.peer.version == 6 and not await self._host_ports.has_ipv6(wanted.name):
            raise HostError(
                f"link {wanted.name} has no IPv6, by which this host speaks BGP: "
                f"sysctl net.ipv6.conf.{wanted.name}.disable_ipv6=0, or boot without ipv6.disable=1"
            )
        return _router(peering, row.ofport or 0)

    async def remove(self) -> None:
        """Remove the interface if there is one. Raises ContivError."""
        row = self._own_row()
        if row is not None:
            await self._ovsdb.delete_port(row.bridge, row.name)
            log.info("host interface removed", extra=fields(port=row.name))

    def existing(self, peering: Peering) -> Router | None:
        """Return the World's router if the interface exists already."""
        row = self._own_row()
        if row is None or row.ofport is None or row.ofport <= 0:
            return None
        return _router(peering, row.ofport)

    def row(self) -> PortRow | None:
        """Return the port that has the interface's name, whoever created it."""
        return self._ovsdb.ports().get(port_names.ROUTER_PORT)

    def _own_row(self) -> PortRow | None:
        """Return the port, if there is one and this agent created it."""
        row = self.row()
        created_here = row is not None and (
            row.external_ids.get(port_names.ENDPOINT_ID) == port_names.ROUTER_ENDPOINT_ID
        )
        return row if created_here else None


def router_interface(peering: Peering) -> HostInterface:
    """Return the host's interface for BGP."""
    own = [one for one in (peering.router, peering.router6) if one is not None]
    return HostInterface(
        bridge=Bridge.VLAN,
        name=port_names.ROUTER_PORT,
        owner=port_names.ROUTER_ENDPOINT_ID,
        tag=ROUTER_VLAN,
        ofport=port_names.ROUTER_OFPORT,
        mac=port_names.router_mac(peering.router_id),
        addresses=own,
        routes=[HostRoute(subnet=one.network, source=one.ip) for one in own],
    )


def _router(peering: Peering, ofport: int) -> Router:
    return Router(
        ofport=ofport,
        mac=port_names.router_mac(peering.router_id),
        ip=peering.router.ip if peering.router is not None else None,
        peer=peering.peer,
        ip6=peering.link_local,
        global6=peering.router6.ip if peering.router6 is not None else None,
    )
