"""Who looks after the pods of this host: calls, ports, what is to go, what nobody deletes.

In come the doors, the plane and the way to netmaster; out come caretakers that know what the
journal says. What of it is there is found by `netplugin.startup.resync`; who calls is let in by
`netplugin.startup.servers`.
"""

from dataclasses import dataclass
from functools import partial

from netplugin.bridges.bridges import USERSPACE
from netplugin.masters.client import LeaderClient
from netplugin.pods.add import HostFacts, PodAdd
from netplugin.pods.endpoint_registry import EndpointRegistry
from netplugin.pods.garbage_collection import GarbageCollector
from netplugin.pods.handler import Pods
from netplugin.pods.host_interfaces import HostInterfaces
from netplugin.pods.journal import Journal
from netplugin.pods.mtu import PodMtus
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.teardown import Teardown
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane


@dataclass(frozen=True, slots=True, kw_only=True)
class PodServices:
    """The parts that pods pass through, from ADD to DEL and beyond."""

    pods: Pods
    mtus: PodMtus
    ports: PodPorts
    removal: Teardown
    leaks: GarbageCollector
    access: HostInterfaces


async def open_caretakers(
    life: Context, doors: Clients, plane: Dataplane, masters: LeaderClient
) -> PodServices:
    """Read links and journal, and wire who looks after the pods."""
    journal = Journal(life.settings.journal)
    life.stack.callback(journal.close)
    roster = EndpointRegistry()
    removal = Teardown(
        master=masters, journal=journal, links=doors.links, ovsdb=doors.ovsdb, supervisor=life.sup
    )
    facts = HostFacts(
        label=life.settings.host, tx_off=plane.datapath == USERSPACE, services=life.services
    )
    mtus = _mtus(life, doors, plane, roster)
    await mtus.read()
    pod_ports = PodPorts(
        roster=roster,
        links=doors.links,
        ovsdb=doors.ovsdb,
        world=plane.world,
        reconciler=plane.reconciler,
        removal=removal,
    )
    access = HostInterfaces(
        roster=roster,
        links=doors.links,
        ovsdb=doors.ovsdb,
        pod_ports=pod_ports,
        world=plane.world,
        reconciler=plane.reconciler,
        tx_off=facts.tx_off,
        interval=life.settings.audit_interval,
    )
    addition = PodAdd(
        facts=facts,
        mtus=mtus,
        master=masters,
        journal=journal,
        links=doors.links,
        roster=roster,
        pod_ports=pod_ports,
        access=access,
        world=plane.world,
        reconciler=plane.reconciler,
    )
    pods = Pods(
        host=facts.label,
        addition=addition,
        master=masters,
        journal=journal,
        roster=roster,
        pod_ports=pod_ports,
        world=plane.world,
        reconciler=plane.reconciler,
        removal=removal,
    )
    pods.recover(await journal.load())
    leaks = GarbageCollector(
        pods=pods,
        roster=roster,
        pod_ports=pod_ports,
        journal=journal,
        links=doors.links,
        ovsdb=doors.ovsdb,
        world=plane.world,
        grace=life.settings.leak_grace,
    )
    return PodServices(
        pods=pods, mtus=mtus, ports=pod_ports, removal=removal, leaks=leaks, access=access
    )


def _mtus(life: Context, doors: Clients, plane: Dataplane, roster: EndpointRegistry) -> PodMtus:
    return PodMtus(
        links=doors.links,
        ovsdb=doors.ovsdb,
        roster=roster,
        vtep_ip=life.settings.vtep_ip,
        uplinks=life.settings.uplinks,
        wanted=life.settings.mtu,
        complain=partial(plane.progress.show, "MTU"),
    )
