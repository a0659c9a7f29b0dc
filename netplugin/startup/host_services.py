"""The host's own ports on the bridges, and who keeps each: for its pods, infra networks and BGP.

In come the doors, the plane and the way to netmaster; nothing is made yet. When each is found
again, made and kept is `netplugin.startup.resync`'s to say.
"""

from dataclasses import dataclass
from functools import partial

from netplugin.bgp.host import Bgp
from netplugin.bridges.host_access import CHAINS, HostAccess
from netplugin.bridges.infra import Infra
from netplugin.kernel.iptables import Firewall
from netplugin.masters.client import Masters
from netplugin.startup.clients import Doors
from netplugin.startup.context import Life
from netplugin.startup.dataplane import Plane
from ofnet.world import Bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPorts:
    """Who keeps `contivh0`, the interfaces of infra networks, and `inb01`."""

    host_access: HostAccess
    infra: Infra
    bgp: Bgp


def wire_own_ports(life: Life, doors: Doors, plane: Plane, masters: Masters) -> OwnPorts:
    """Return who keeps the host's own ports."""
    settings = life.settings
    return OwnPorts(
        host_access=HostAccess(
            ovsdb=doors.ovsdb,
            host_ports=doors.host_ports,
            firewall=Firewall(CHAINS),
            world=plane.world,
            reconciler=plane.reconciler,
            address=settings.vtep_ip,
            interval=settings.audit_interval,
        ),
        infra=Infra(
            host=settings.host,
            master=masters,
            ovsdb=doors.ovsdb,
            host_ports=doors.host_ports,
            world=plane.world,
            reconciler=plane.reconciler,
            services=life.services,
            interval=settings.audit_interval,
        ),
        bgp=Bgp(
            ovsdb=doors.ovsdb,
            host_ports=doors.host_ports,
            world=plane.world,
            reconciler=plane.reconciler,
            agent=plane.agents[Bridge.VLAN],
            complain=partial(plane.progress.show, "BGP"),
            interval=settings.audit_interval,
        ),
    )
