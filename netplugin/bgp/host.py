"""BGP of this host: `inb01`, the session with the peer, and its routes on the vlan bridge.

In comes the peering of the host's record (routed vlan networks alone have one); out go an interface
of the host (`netplugin.bridges.host_ports`), by which `ofnet.bgp.speaker` speaks, and the routes
whose next hops are known (`netplugin.bgp.nexthops`), which the World takes to the switch. The peer
is told of the pods of this host as they come and go. An agent that starts keeps the routes the
switch has until the peer has told all again, or a bounded time has passed.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any, Final

from core.errors import ContivError
from core.logs import fields
from netplugin.bgp.nexthops import NextHops
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
from ofnet.openflow import packets
from ofnet.openflow.actions import Output
from ofnet.openflow.packets import Arp
from ofnet.packetin import PacketOut
from ofnet.pipelines.vlrouter import ROUTER_VLAN
from ofnet.uplink_choice import way_out
from ofnet.world import Bridge, FwdMode, Router, World

if TYPE_CHECKING:
    from ofnet.bgp.speaker import Speaker

log = logging.getLogger(__name__)

LEARN_WITHIN: Final = float(RESTART_TIME)
"""Seconds after which routes go that the peer has not told again to an agent that started."""

PACE: Final = 0.1
"""Seconds between two looks at what the peer tells: each costs as much as there are routes."""


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
    """BGP of one host. `complain` takes all that is wrong, in place of what was."""

    def __init__(
        self,
        *,
        ovsdb: Ovsdb,
        host_ports: HostPorts,
        world: WorldBuilder,
        reconciler: Reconciler,
        agent: BridgeAgent,
        complain: Callable[[Iterable[str]], None],
        interval: float,
        connect: Connect = dial,
    ) -> None:
        self._ovsdb = ovsdb
        self._host_ports = host_ports
        self._world = world
        self._reconciler = reconciler
        self._agent = agent
        self._complain = complain
        self._interval = interval
        self._connect = connect
        self._hops = NextHops(self._ask)
        self._news = asyncio.Event()
        self._tasks = asyncio.TaskGroup()
        self._speaker: Speaker | None = None
        self._speaking: asyncio.Task[None] | None = None
        self._fault = ""
        agent.inform(self)

    def place(self) -> None:
        """Tell the World of the port that is there: a restart is to change no flow."""
        peering, row = self._peering(), self._row()
        if peering is not None and row is not None and row.ofport is not None and row.ofport > 0:
            self._world.vlan.set_router(_router(peering, row.ofport))
            self._world.vlan.set_learning(learning=True)

    async def run(self) -> None:
        """Keep port and session, for ever."""
        upkeep = ReconcileLoop(
            name="BGP",
            converge=self.converge,
            observe=self._facts,
            triggers=(self._ovsdb.changed, self._reconciler.records.records_changed),
            interval=self._interval,
        )
        patience = asyncio.get_running_loop().call_later(LEARN_WITHIN, self._learnt)
        try:
            async with self._tasks:
                self._tasks.create_task(self._hops.run())
                self._tasks.create_task(self._keep_showing())
                await upkeep.run()
        finally:
            patience.cancel()

    async def converge(self) -> object:
        """Make port and session as they should be, once; return how it is then.

        Raises ContivError.
        """
        peering = self._peering()
        if self._speaker is not None and self._speaker.peering != peering:
            await self._end(self._speaker)
        self._fault = ""
        try:
            if peering is None:
                await self._without()
            else:
                row = await self._host_ports.ensure(router_interface(peering))
                if self._speaker is None:
                    self._begin(peering)
                self._world.vlan.set_router(self._known(_router(peering, row.ofport or 0)))
        except ContivError as exc:
            self._fault = f"BGP: {exc}"
            raise
        finally:
            self._show()
        return self._facts()

    def report(self) -> dict[str, Any] | None:
        """Return the original's JSON of peers and prefixes; None where BGP is not spoken."""
        if self._world.forwarding.fwd_mode is not FwdMode.ROUTING:
            return None
        if self._speaker is None:
            return {}
        from ofnet.bgp.inspection import bgp_report  # noqa: PLC0415 - as in `_begin`

        return bgp_report(self._speaker)

    # -- what the bridge tells us --------------------------------------------------------------

    def realised(self, world: World) -> None:
        """Tell the peer of the pods that are on the bridge now."""
        if self._speaker is not None:
            self._speaker.announce(_addresses(world))

    def heard(self, arp: Arp) -> None:
        """Learn where a next hop is."""
        if self._hops.hear(arp.sender_ip, arp.sender_mac):
            self._news.set()

    # -- the session ---------------------------------------------------------------------------

    def _begin(self, peering: Peering) -> None:
        # most hosts speak with nobody, and their agents need not pay for it when they start
        from ofnet.bgp.speaker import Speaker  # noqa: PLC0415

        speaker = Speaker(peering, self._news.set, connect=self._reach)
        speaker.announce(_addresses(self._agent.world))
        self._speaker = speaker
        self._hops.want(frozenset({peering.peer}))
        self._speaking = self._tasks.create_task(speaker.run())

    async def _reach(self, peering: Peering) -> Streams:
        """Connect to the peer once it is known where it is: there is no way to it before."""
        await self._hops.known(peering.peer)
        return await self._connect(peering)

    async def _end(self, speaker: "Speaker") -> None:
        await speaker.retire()
        if self._speaking is not None:
            self._speaking.cancel()
            await asyncio.wait([self._speaking])
        self._speaker = self._speaking = None
        self._hops.want(frozenset())
        self._world.vlan.set_routes({})
        log.info("BGP session ended", extra=fields(peer=speaker.peering.peer))

    async def _without(self) -> None:
        """Have nothing of BGP on this host."""
        self._world.vlan.set_router(None)
        self._world.vlan.set_learning(learning=False)
        row = self._row()
        if row is not None and self._world.complete:
            await self._ovsdb.delete_port(row.bridge, row.name)
            log.info("host interface removed", extra=fields(port=row.name))

    async def _keep_showing(self) -> None:
        """Show what the peer has told, for ever: a little later, and then all of it at once."""
        while True:
            await self._news.wait()
            self._news.clear()
            self._show()
            await asyncio.sleep(PACE)

    def _show(self) -> None:
        """Give the World the routes whose next hops are known, and say what is wrong."""
        if self._speaker is not None:
            self._give(self._speaker)
        self._complain(self._faults())

    def _give(self, speaker: "Speaker") -> None:
        peering, routes = speaker.peering, speaker.routes
        near = {hop for hop in routes.values() if hop in peering.router.network}
        self._hops.want(frozenset({peering.peer, *near}))
        macs = self._hops.macs
        self._world.vlan.set_routes({to: macs[hop] for to, hop in routes.items() if hop in macs})
        router = self._world.vlan.router
        if router is not None:
            self._world.vlan.set_router(self._known(router))
        if speaker.told_all and self._hops.complete:
            self._learnt()

    def _learnt(self) -> None:
        self._world.vlan.set_learning(learning=False)

    def _known(self, router: Router) -> Router:
        return replace(router, peer_mac=self._hops.macs.get(router.peer))

    def _ask(self, address: IPv4Address) -> None:
        """Ask for a next hop, by an uplink that works, without a tag."""
        world = self._agent.world
        if world.router is None or (uplink := way_out(world.uplinks, str(address))) is None:
            return
        frame = packets.arp_request(uplink.mac, world.router.ip, address)
        self._agent.send(PacketOut(data=frame, actions=(Output(uplink.ofport),)))

    # -- what there should be ------------------------------------------------------------------

    def _peering(self) -> Peering | None:
        routed = self._world.forwarding.fwd_mode is FwdMode.ROUTING
        return self._world.peers.peering if routed else None

    def _row(self) -> PortRow | None:
        """Return the port that is there, if it is ours."""
        row = self._ovsdb.ports().get(port_names.ROUTER_PORT)
        ours = row is not None and (
            row.external_ids.get(port_names.ENDPOINT_ID) == port_names.ROUTER_ENDPOINT_ID
        )
        return row if ours else None

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
