"""The start of an agent whose parts are wired: all is read, then what is gone goes.

The store's records are read once, and what is on this host is found again: ports of pods, of the
host itself, tunnels. With that the World is complete: absence means gone from now on (ADR 11).
When the switch has the flows, those who keep things in step begin, and what an agent that died left
half-made is swept. A step that fails here is taken up by whoever begins then.
"""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from core.errors import ContivError, SwitchRefused, SwitchUnavailable
from core.ids import HostLabel
from core.logs import fields
from netplugin.bridges.host_access import warn_unless_forwarding
from netplugin.bridges.path_mtu import PathMtu, ProbeTiming
from netplugin.bridges.record_events import RecordEvents
from netplugin.kernel import icmp
from netplugin.pods.mtu import VXLAN_OVERHEAD, PodMtus
from netplugin.settings import Settings
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane
from netplugin.startup.host_services import HostServices
from netplugin.startup.pod_services import PodServices
from netplugin.world import port_names
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge
from state.watch import RecordFeed

log = logging.getLogger(__name__)

SWITCH_WAIT: Final = 10.0
RECORDS_AT_ONCE: Final = 500


async def settle(
    life: Context, doors: Clients, plane: Dataplane, own: HostServices, care: PodServices
) -> None:
    """Read the store once, find this host's ports again, then let absence mean gone."""
    await _read(life, plane)
    await _find(plane, own, care)
    plane.world.set_complete()
    _run_flows(life, plane)
    await _forwarding(plane)
    _keep(life, plane, own, care)
    await _sweep(doors, care)


async def _read(life: Context, plane: Dataplane) -> None:
    read = asyncio.Event()
    life.sup.supervise("records", plane.feed.run())
    life.sup.supervise("facts", _follow_records(plane.feed, plane.records, read))
    await read.wait()


async def _follow_records(feed: RecordFeed, records: RecordEvents, read: asyncio.Event) -> None:
    while True:
        for event in await feed.take(RECORDS_AT_ONCE):
            records.apply(event)
        if feed.complete:
            read.set()


async def _find(plane: Dataplane, own: HostServices, care: PodServices) -> None:
    """Tell the World of the ports that are there, and make those that can be made now."""
    for key, reason in care.ports.place().items():
        log.warning("endpoint is not connected", extra=fields(endpoint=key, error=reason))
    own.infra.place()
    own.bgp.place()
    try:
        await plane.ports.converge()
    except (
        ContivError
    ) as exc:  # `PortReconciler.run` goes on with it; what is there works meanwhile
        log.warning("tunnel ports not in sync", extra=fields(error=exc))
    try:
        await own.host_access.converge()
    except ContivError as exc:  # `run` goes on with it
        log.warning("host access not in sync", extra=fields(error=exc))
    warn_unless_forwarding()
    care.access.place()


def _run_flows(life: Context, plane: Dataplane) -> None:
    life.sup.supervise("flows", plane.reconciler.run())
    for bridge, agent in plane.agents.items():
        life.sup.supervise(f"bridge {bridge}", agent.run())
        life.sup.supervise(f"announcements {bridge}", agent.announcer.run())


async def _forwarding(plane: Dataplane) -> None:
    """Wait until the World as it is now is on the switch, which may come and go meanwhile."""
    while True:
        for bridge, agent in plane.agents.items():
            await _switch_ready(bridge, agent)
        try:
            await plane.reconciler.flush()
        except SwitchUnavailable as exc:
            log.warning("flows not acknowledged", extra=fields(error=exc))
            continue
        except SwitchRefused as exc:  # `ofnet.agent` tries again at every audit
            log.warning("flows refused", extra=fields(error=exc))
        return


async def _switch_ready(bridge: Bridge, agent: BridgeAgent) -> None:
    """Wait until a bridge has its flows; say so if that takes long, and go on waiting."""
    while True:
        try:
            async with asyncio.timeout(SWITCH_WAIT):
                await agent.wait_settled()
        except TimeoutError:
            log.warning("no switch yet: is ovs-vswitchd running?", extra=fields(bridge=bridge))
        else:
            return


def _keep(life: Context, plane: Dataplane, own: HostServices, care: PodServices) -> None:
    """Have ports and links kept in step from now on."""
    life.sup.supervise("tunnel ports", plane.ports.run())
    life.sup.supervise("host access", own.host_access.run())
    life.sup.supervise("infra networks", own.infra.run())
    life.sup.supervise("BGP", own.bgp.run())
    life.sup.supervise("endpoint ports", care.ports.run())
    life.sup.supervise("MTU", care.mtus.run())
    if life.settings.probe_interval:
        life.sup.supervise("paths", _paths(life.settings, plane, care.mtus).run())
    life.sup.supervise("interfaces to the host", care.access.run())


def _paths(settings: Settings, plane: Dataplane, mtus: PodMtus) -> PathMtu:
    def report_faults(faults: Mapping[HostLabel, str]) -> None:
        plane.progress.show("paths", (f"path to {host}: {why}" for host, why in faults.items()))

    return PathMtu(
        peers=plane.world.peers.tunnel_ends,
        size=lambda: mtus.of(Bridge.VXLAN) + VXLAN_OVERHEAD,
        probe=partial(icmp.passes, source=settings.vtep_ip),
        timing=ProbeTiming(interval=settings.probe_interval),
        report_faults=report_faults,
    )


async def _sweep(doors: Clients, care: PodServices) -> None:
    """Remove what an agent that died in the middle of an ADD has left: no journal knows it."""
    in_use = care.ports.in_use()
    used = {
        name(number)
        for number in in_use
        for name in (port_names.switch_name, port_names.access_name)
    }
    links = {name for name in await doors.links.links() if port_names.pod_number(name) is not None}
    for bridge in Bridge:
        rows = {n for n in doors.ovsdb.ports(bridge) if port_names.pod_number(n) is not None}
        care.removal.sweep(bridge, rows - used)
        links -= rows
    care.removal.sweep(Bridge.VXLAN, links - used)
