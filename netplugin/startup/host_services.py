"""The host's own ports on the bridges, and who keeps each: for its pods, infra networks and BGP.

In come the doors, the plane and the way to netmaster; nothing is made yet. When each is found
again, made and kept is `netplugin.startup.resync`'s to say.
"""

from dataclasses import dataclass
from functools import partial

from netplugin.bgp.host import HostBgp
from netplugin.bridges.host_access import CHAINS, HostAccess
from netplugin.bridges.infra import Infra
from netplugin.kernel.iptables import Iptables
from netplugin.masters.client import LeaderClient
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane
from ofnet.world import Bridge


@dataclass(frozen=True, slots=True, kw_only=True)
class HostServices:
    """Who keeps `contivh0`, the interfaces of infra networks, and `inb01`."""

    host_access: HostAccess
    infra: Infra
    bgp: HostBgp


def wire_own_ports(
    life: Context, doors: Clients, plane: Dataplane, masters: LeaderClient
) -> HostServices:
    """Return who keeps the host's own ports."""
    settings = life.settings
    return HostServices(
        host_access=HostAccess(
            ovsdb=doors.ovsdb,
            host_ports=doors.host_ports,
            firewall=Iptables(CHAINS),
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
        bgp=HostBgp(
            ovsdb=doors.ovsdb,
            host_ports=doors.host_ports,
            world=plane.world,
            reconciler=plane.reconciler,
            agent=plane.agents[Bridge.VLAN],
            complain=partial(plane.progress.show, "BGP"),
            interval=settings.audit_interval,
        ),
    )
