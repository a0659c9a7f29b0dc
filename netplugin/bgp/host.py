"""BGP of this host: the interface `inb01`, the session with the peer, and the routes it announces.

In comes the peering of the host's record (only routed vlan networks have one). Out go an interface
of the host (`netplugin.bridges.host_ports`) that `ofnet.bgp.speaker` uses, and the routes with a
resolved next hop (`netplugin.bgp.nexthops`), which the World carries to the switch. The pods of
this host are announced to the peer as they come and go. An agent that starts keeps the routes of
the switch until the peer has announced all of them again, or a time limit has passed (graceful
restart).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from core.errors import ContivError
from core.logs import fields
from netplugin.bgp.nexthops import INTERVAL, NextHops
from netplugin.bridges.host_ports import HostInterface, HostPorts
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.bridges.reconciler import Reconciler
from netplugin.kernel.host_links import HostRoute
from netplugin.ovsdb import Ovsdb, PortRow
from netplugin.world import port_names
from netplugin.world.builder import WorldBuilder
from ofnet.agent import BridgeAgent
from ofnet.bgp.connection import RESTART_TIME, Connect, Streams, dial
from ofnet.bgp.peering import Peering
from ofnet.bgp.timing import SessionTiming
from ofnet.openflow import packets
from ofnet.openflow.actions import Output
from ofnet.openflow.packets import Arp
from ofnet.packetin import PacketOut
from ofnet.pipelines.vlrouter import ROUTER_VLAN
from ofnet.uplink_choice import choose_uplink
from ofnet.world import Bridge, FwdMode, Router, World

if TYPE_CHECKING:
    from ofnet.bgp.speaker import Speaker

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BgpTiming:
    """Time limits and pauses, in seconds."""

    restart_limit: float = float(RESTART_TIME)
    """After a start, routes that the peer has not announced again within this time are removed."""
    route_update_pause: float = 0.1
    """Pause between updates of the World's routes: the cost of one grows with their number."""
    arp_interval: float = INTERVAL
    """Pause between ARP requests for next hops."""
    session: SessionTiming = field(default_factory=SessionTiming)
    """The times of the session itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BgpHost:
    """The parts of this host that BGP works with; `agent` is the vlan bridge's."""

    ovsdb: Ovsdb
    host_ports: HostPorts
    world: WorldBuilder
    reconciler: Reconciler
    agent: BridgeAgent


def router_interface(peering: Peering) -> HostInterface:
    """Return the host's interface for BGP."""
    own = peering.router
    return HostInterface(
        bridge=Bridge.VLAN,
        name=port_names.ROUTER_PORT,
        owner=port_names.ROUTER_ENDPOINT_ID,
        tag=ROUTER_VLAN,
        ofport=port_names.ROUTER_OFPORT,
        mac=port_names.router_mac(own.ip),
        addresses=[own],
        routes=[HostRoute(subnet=own.network, source=own.ip)],
    )


class HostBgp:
    """BGP of one host.

    `report_faults` is called with all present faults, which replace those of the call before.
    `interval` is the pause in seconds between reconciliations without a change.
    """

    def __init__(
        self,
        host: BgpHost,
        *,
        report_faults: Callable[[Iterable[str]], None],
        interval: float,
        timing: BgpTiming | None = None,
        connect: Connect = dial,
    ) -> None:
        self._ovsdb = host.ovsdb
        self._host_ports = host.host_ports
        self._world = host.world
        self._reconciler = host.reconciler
        self._agent = host.agent
        self._report_faults = report_faults
        self._interval = interval
        self._timing = timing or BgpTiming()
        self._connect = connect
        self._hops = NextHops(self._send_arp_request, interval=self._timing.arp_interval)
        self._routes_changed = asyncio.Event()
        self._tasks = asyncio.TaskGroup()
        self._speaker: Speaker | None = None
        self._speaking: asyncio.Task[None] | None = None
        self._fault = ""
        host.agent.set_observer(self)

    def publish(self) -> None:
        """Put the port that exists into the World, and keep the routes of the switch.

        A restart of the agent must change no flow.
        """
        peering, row = self._peering(), self._row()
        if peering is not None and row is not None and row.ofport is not None and row.ofport > 0:
            self._world.vlan.set_router(_router(peering, row.ofport))
            self._world.vlan.set_learning(learning=True)

    async def run(self) -> None:
        """Reconcile port and session for ever."""
        loop = ReconcileLoop(
            name="BGP",
            converge=self.converge,
            observe=self._facts,
            triggers=(self._ovsdb.changed, self._reconciler.records.records_changed),
            interval=self._interval,
        )
        # A peer that does not come back must not keep stale routes on the switch for ever.
        limit = asyncio.get_running_loop().call_later(
            self._timing.restart_limit, self._end_learning
        )
        try:
            async with self._tasks:
                self._tasks.create_task(self._hops.run())
                self._tasks.create_task(self._update_routes())
                await loop.run()
        finally:
            limit.cancel()

    async def converge(self) -> object:
        """Reconcile port and session once; return the state that resulted.

        Raises ContivError.
        """
        peering = self._peering()
        if self._speaker is not None and self._speaker.peering != peering:
            await self._end_session(self._speaker)
        self._fault = ""
        try:
            if peering is None:
                await self._remove_port()
            else:
                row = await self._host_ports.ensure(router_interface(peering))
                if self._speaker is None:
                    self._start_session(peering)
                self._world.vlan.set_router(self._known(_router(peering, row.ofport or 0)))
        except ContivError as exc:
            self._fault = f"BGP: {exc}"
            raise
        finally:
            self._publish_routes()
        return self._facts()

    def report(self) -> dict[str, Any] | None:
        """Return the original's JSON of peers and prefixes; None outside routing mode."""
        if self._world.forwarding.fwd_mode is not FwdMode.ROUTING:
            return None
        if self._speaker is None:
            return {}
        from ofnet.bgp.inspection import bgp_report  # noqa: PLC0415 - as in `_start_session`

        return bgp_report(self._speaker)

    # -- events of the bridge (`ofnet.agent.BridgeObserver`) ------------------------------------

    def on_world(self, world: World) -> None:
        """Announce the pods that are on the bridge now to the peer."""
        if self._speaker is not None:
            self._speaker.announce(_addresses(world))

    def on_arp(self, arp: Arp) -> None:
        """Put the MAC address of a next hop."""
        if self._hops.put(arp.sender_ip, arp.sender_mac):
            self._routes_changed.set()

    # -- the session ---------------------------------------------------------------------------

    def _start_session(self, peering: Peering) -> None:
        # Imported here: most hosts have no BGP peer, and their start must not pay for the module.
        from ofnet.bgp.speaker import Speaker  # noqa: PLC0415

        speaker = Speaker(
            peering,
            self._routes_changed.set,
            connect=self._connect_to_peer,
            timing=self._timing.session,
        )
        speaker.announce(_addresses(self._agent.world))
        self._speaker = speaker
        self._hops.want(frozenset({peering.peer}))
        self._speaking = self._tasks.create_task(speaker.run())

    async def _connect_to_peer(self, peering: Peering) -> Streams:
        """Connect once the peer's MAC address is resolved.

        Before, the bridge has no flow that carries this host's packets to the peer.
        """
        await self._hops.wait_for(peering.peer)
        return await self._connect(peering)

    async def _end_session(self, speaker: "Speaker") -> None:
        await speaker.deconfigure()
        if self._speaking is not None:
            self._speaking.cancel()
            await asyncio.wait([self._speaking])
        self._speaker = self._speaking = None
        self._hops.want(frozenset())
        self._world.vlan.set_routes({})
        log.info("BGP session ended", extra=fields(peer=speaker.peering.peer))

    async def _remove_port(self) -> None:
        """Remove router and port of a host without a peering."""
        self._world.vlan.set_router(None)
        self._world.vlan.set_learning(learning=False)
        row = self._row()
        # Before the World is complete, the record with the peering may not have been read yet.
        if row is not None and self._world.complete:
            await self._ovsdb.delete_port(row.bridge, row.name)
            log.info("host interface removed", extra=fields(port=row.name))

    async def _update_routes(self) -> None:
        """Carry the peer's changes to the World for ever, several in one update."""
        while True:
            await self._routes_changed.wait()
            self._routes_changed.clear()
            self._publish_routes()
            await asyncio.sleep(self._timing.route_update_pause)

    def _publish_routes(self) -> None:
        """Put the routes with resolved next hops into the World, and report faults."""
        if self._speaker is not None:
            self._put_routes(self._speaker)
        self._report_faults(self._faults())

    def _put_routes(self, speaker: "Speaker") -> None:
        # Only next hops on the peering's own subnet can be resolved by ARP on the uplink. A route
        # without a MAC address is held back: its flow could not say where packets go.
        peering, routes = speaker.peering, speaker.routes
        near = {hop for hop in routes.values() if hop in peering.router.network}
        self._hops.want(frozenset({peering.peer, *near}))
        macs = self._hops.macs
        self._world.vlan.set_routes({to: macs[hop] for to, hop in routes.items() if hop in macs})
        router = self._world.vlan.router
        if router is not None:
            self._world.vlan.set_router(self._known(router))
        # Old routes go when the peer has sent all of its own (End-of-RIB) and each of them has a
        # flow. Earlier, traffic to a route that is still to come would be dropped.
        if speaker.routes_complete and self._hops.complete:
            self._end_learning()

    def _end_learning(self) -> None:
        self._world.vlan.set_learning(learning=False)

    def _known(self, router: Router) -> Router:
        return replace(router, peer_mac=self._hops.macs.get(router.peer))

    def _send_arp_request(self, address: IPv4Address) -> None:
        """Send an untagged ARP request for a next hop by an uplink that works."""
        world = self._agent.world
        if world.router is None or (uplink := choose_uplink(world.uplinks, str(address))) is None:
            return
        frame = packets.arp_request(uplink.mac, world.router.ip, address)
        self._agent.send(PacketOut(data=frame, actions=(Output(uplink.ofport),)))

    # -- desired and actual state --------------------------------------------------------------

    def _peering(self) -> Peering | None:
        routed = self._world.forwarding.fwd_mode is FwdMode.ROUTING
        return self._world.peers.peering if routed else None

    def _row(self) -> PortRow | None:
        """Return the port, if there is one and this agent created it."""
        row = self._ovsdb.ports().get(port_names.ROUTER_PORT)
        created_here = row is not None and (
            row.external_ids.get(port_names.ENDPOINT_ID) == port_names.ROUTER_ENDPOINT_ID
        )
        return row if created_here else None

    def _facts(self) -> object:
        row = self._ovsdb.ports().get(port_names.ROUTER_PORT)
        return self._peering(), self._world.peers.peering, row

    def _faults(self) -> Iterator[str]:
        wanted, mode, speaker = (
            self._world.peers.peering,
            self._world.forwarding.fwd_mode,
            self._speaker,
        )
        if wanted is not None and mode is not FwdMode.ROUTING:
            yield f"BGP needs forwarding mode routing, this cluster's is {mode}"
        if self._fault:
            yield self._fault
        if speaker is not None and not speaker.established and speaker.fault:
            yield f"no BGP session with {speaker.peering.peer}: {speaker.fault}"


def _router(peering: Peering, ofport: int) -> Router:
    own = peering.router.ip
    return Router(ofport=ofport, mac=port_names.router_mac(own), ip=own, peer=peering.peer)


def _addresses(world: World) -> frozenset[IPv4Address]:
    return frozenset(endpoint.ip for endpoint in world.local.values())
