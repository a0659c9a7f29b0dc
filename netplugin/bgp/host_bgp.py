"""BGP of this host: the session with the peer, from the peering of the host's record.

Only routed vlan networks have a peering. Out go the interface that the session uses
(`netplugin.bgp.router_port`), the session itself (`ofnet.bgp.speaker`), and its routes, which
`netplugin.bgp.learned_routes` carries to the World. The pods of this host are announced to the peer
as they come and go. An agent that starts keeps the routes of the switch until the peer has
announced all of them again, or a time limit has passed (graceful restart).
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from core.late_imports import importing
from core.logs import fields
from core.retry import FaultBoard
from netplugin.bgp.learned_routes import LearnedRoutes
from netplugin.bgp.nexthops import INTERVAL, Address
from netplugin.bgp.router_port import RouterPort
from netplugin.bridges.host.host_ports import HostPorts
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.bridges.reconciler import Reconciler
from netplugin.kernel.routes.route_watch import RouteWatch
from netplugin.ovsdb import Ovsdb
from netplugin.world.builder import WorldBuilder
from ofnet.agent import BridgeAgent
from ofnet.bgp.connection import RESTART_TIME, Connect, Streams, dial
from ofnet.bgp.peering import Peering
from ofnet.bgp.timing import SessionTiming
from ofnet.openflow.packets import Neighbour
from ofnet.world import FwdMode, World

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
    """Pause between rounds of ARP and ND requests for next hops."""
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
    routes: RouteWatch


class HostBgp:
    """BGP of one host.

    `interval` is the pause in seconds between reconciliations without a change.
    """

    def __init__(
        self,
        host: BgpHost,
        *,
        board: FaultBoard,
        interval: float,
        timing: BgpTiming | None = None,
        connect: Connect = dial,
    ) -> None:
        self._ovsdb = host.ovsdb
        self._port = RouterPort(host.ovsdb, host.host_ports)
        self._world = host.world
        self._reconciler = host.reconciler
        self._agent = host.agent
        self._route_watch = host.routes
        self._board = board
        self._interval = interval
        self._timing = timing or BgpTiming()
        self._connect = connect
        self._routes = LearnedRoutes(host.world, host.agent, interval=self._timing.arp_interval)
        self._tasks = asyncio.TaskGroup()
        self._speaker: Speaker | None = None
        self._speaking: asyncio.Task[None] | None = None
        host.agent.set_observer(self)

    def publish(self) -> None:
        """Put the port that exists into the World, and keep the routes of the switch.

        A restart of the agent must change no flow.
        """
        peering = self._peering()
        router = self._port.existing(peering) if peering is not None else None
        if router is not None:
            self._world.vlan.set_router(router)
            self._world.vlan.set_learning(learning=True)

    async def run(self) -> None:
        """Reconcile port and session for ever."""
        loop = ReconcileLoop(
            name="BGP",
            converge=self.converge,
            observe=self._facts,
            triggers=(self._ovsdb.changed, self._reconciler.records.records_changed),
            interval=self._interval,
            anew=(self._route_watch.lost,),
        )
        # A peer that does not come back must not keep stale routes on the switch for ever.
        limit = asyncio.get_running_loop().call_later(
            self._timing.restart_limit, self._routes.end_learning
        )
        try:
            async with self._tasks:
                self._tasks.create_task(self._routes.hops.run())
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
        try:
            if peering is None:
                await self._remove_port()
            else:
                router = await self._port.ensure(peering)
                if self._speaker is None:
                    self._start_session(peering)
                self._world.vlan.set_router(self._routes.known(router))
        finally:
            self._publish_routes()
        return self._facts()

    @property
    def speaker(self) -> "Speaker | None":
        """The speaker of this host; None while it has no peer."""
        return self._speaker

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

    def on_neighbour(self, neighbour: Neighbour) -> None:
        """Put the MAC address of a next hop."""
        self._routes.put(neighbour)

    # -- the session ---------------------------------------------------------------------------

    def _start_session(self, peering: Peering) -> None:
        # Imported here: most hosts have no BGP peer, and their start must not pay for the module.
        with importing("BGP"):
            from ofnet.bgp.speaker import Speaker  # noqa: PLC0415

        speaker = Speaker(
            peering,
            self._routes.changed.set,
            connect=self._connect_to_peer,
            timing=self._timing.session,
        )
        speaker.announce(_addresses(self._agent.world))
        self._speaker = speaker
        self._routes.follow(speaker)
        self._speaking = self._tasks.create_task(speaker.run())

    async def _connect_to_peer(self, peering: Peering) -> Streams:
        """Connect once the peer's MAC address is resolved.

        Before, the bridge has no flow that carries this host's packets to the peer.
        """
        await self._routes.hops.wait_for(peering.peer)
        return await self._connect(peering)

    async def _end_session(self, speaker: "Speaker") -> None:
        await speaker.deconfigure()
        if self._speaking is not None:
            self._speaking.cancel()
            await asyncio.wait([self._speaking])
        self._speaker = self._speaking = None
        self._routes.follow(None)
        log.info("BGP session ended", extra=fields(peer=speaker.peering.peer))

    async def _remove_port(self) -> None:
        """Remove router and port of a host without a peering."""
        self._world.vlan.set_router(None)
        self._world.vlan.set_learning(learning=False)
        # Before the World is complete, the record with the peering may not have been read yet.
        if self._world.complete:
            await self._port.remove()

    async def _update_routes(self) -> None:
        """Carry the peer's changes to the World for ever, several in one update."""
        while True:
            await self._routes.changed.wait()
            self._routes.changed.clear()
            self._publish_routes()
            await asyncio.sleep(self._timing.route_update_pause)

    def _publish_routes(self) -> None:
        """Put the routes with resolved next hops into the World, and report faults."""
        self._routes.publish()
        self._board.set_faults("BGP", self._faults())

    # -- desired and actual state --------------------------------------------------------------

    def _peering(self) -> Peering | None:
        routed = self._world.forwarding.fwd_mode is FwdMode.ROUTING
        return self._world.peers.peering if routed else None

    def _facts(self) -> object:
        return self._peering(), self._world.peers.peering, self._port.row()

    def _faults(self) -> Iterator[str]:
        wanted, mode, speaker = (
            self._world.peers.peering,
            self._world.forwarding.fwd_mode,
            self._speaker,
        )
        if wanted is not None and mode is not FwdMode.ROUTING:
            yield f"BGP needs forwarding mode routing, this cluster's is {mode}"
        if speaker is not None and not speaker.established and speaker.fault:
            yield f"no BGP session with {speaker.peering.peer}: {speaker.fault}"


def _addresses(world: World) -> frozenset[Address]:
    pods = world.local.values()
    return frozenset(address for pod in pods for address in (pod.ip, pod.ip6) if address)
