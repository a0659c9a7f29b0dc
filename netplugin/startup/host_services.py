"""The host's own ports on the bridges, and who keeps each: for its pods, infra networks and BGP.

In come the doors, the plane and the way to netmaster; nothing is made yet. When each is found
again, made and kept is `netplugin.startup.resync`'s to say.
"""

from dataclasses import dataclass
from functools import partial

from netplugin.bgp.host import HostBgp
from netplugin.bridges.host_access import CHAINS, HostAccess
from netplugin.bridges.host_ports import InterfaceContext
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
    context = InterfaceContext(
        ovsdb=doors.ovsdb,
        host_ports=doors.host_ports,
        world=plane.world,
        records=plane.records,
        interval=settings.audit_interval,
    )
    return HostServices(
        host_access=HostAccess(context, iptables=Iptables(CHAINS), address=settings.vtep_ip),
        infra=Infra(context, host=settings.host, master=masters, services=life.services),
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
