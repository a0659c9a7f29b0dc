"""Who looks after the pods of this host: calls, ports, what is to go, what nobody deletes.

In come the doors, the plane and the way to netmaster; out come caretakers that know what the
journal says. What of it is there is found by `netplugin.startup.resync`; who calls is let in by
`netplugin.startup.servers`.
"""

from dataclasses import dataclass
from functools import partial

from netplugin.bridges.bridges import USERSPACE
from netplugin.masters.client import Masters
from netplugin.pods.add import Addition, HostFacts
from netplugin.pods.endpoint_registry import Roster
from netplugin.pods.garbage_collection import Leaks
from netplugin.pods.handler import Pods
from netplugin.pods.host_interfaces import AccessPorts
from netplugin.pods.journal import Journal
from netplugin.pods.mtu import PodMtus
from netplugin.pods.pod_ports import PodPorts
from netplugin.pods.teardown import Removal
from netplugin.startup.clients import Doors
from netplugin.startup.context import Life
from netplugin.startup.dataplane import Plane


@dataclass(frozen=True, slots=True, kw_only=True)
class Caretakers:
    """The parts that pods pass through, from ADD to DEL and beyond."""

    pods: Pods
    mtus: PodMtus
    ports: PodPorts
    removal: Removal
    leaks: Leaks
    access: AccessPorts


async def open_caretakers(life: Life, doors: Doors, plane: Plane, masters: Masters) -> Caretakers:
    """Read links and journal, and wire who looks after the pods."""
    journal = Journal(life.settings.journal)
    life.stack.callback(journal.close)
    roster = Roster()
    removal = Removal(
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
    access = AccessPorts(
        roster=roster,
        links=doors.links,
        ovsdb=doors.ovsdb,
        pod_ports=pod_ports,
        world=plane.world,
        reconciler=plane.reconciler,
        tx_off=facts.tx_off,
        interval=life.settings.audit_interval,
    )
    addition = Addition(
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
    leaks = Leaks(
        pods=pods,
        roster=roster,
        pod_ports=pod_ports,
        journal=journal,
        links=doors.links,
        ovsdb=doors.ovsdb,
        world=plane.world,
        grace=life.settings.leak_grace,
    )
    return Caretakers(
        pods=pods, mtus=mtus, ports=pod_ports, removal=removal, leaks=leaks, access=access
    )


def _mtus(life: Life, doors: Doors, plane: Plane, roster: Roster) -> PodMtus:
    return PodMtus(
        links=doors.links,
        ovsdb=doors.ovsdb,
        roster=roster,
        vtep_ip=life.settings.vtep_ip,
        uplinks=life.settings.uplinks,
        wanted=life.settings.mtu,
        complain=partial(plane.progress.show, "MTU"),
    )
