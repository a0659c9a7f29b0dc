"""The agent of one bridge: takes Worlds, has the flows realised, answers packets.

In come Worlds with the ids of what changed (from `netplugin`) and packets from the switch. Out go
changed flows to `ofnet.flow_sync`, which reconciles the switch with them, and answers to packets
(`ofnet.packetin`, `ofnet.services.proxy`). Must not know the store or the kernel.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol

from core.errors import Invalid, SwitchRefused, SwitchUnavailable
from core.logs import fields
from ofnet.changes import EVERYTHING, Changes, ObjectId, ObjectKind
from ofnet.channel.flow_stats import reported_clients
from ofnet.channel.switch import Switch
from ofnet.channel.wire import PacketIn
from ofnet.desired import Desired
from ofnet.diff import Deletions
from ofnet.directory import Directory
from ofnet.flow_sync import AUDIT_INTERVAL, FlowSync
from ofnet.flows import Flow, FlowKey
from ofnet.garp_sender import GarpSender
from ofnet.inspection import AgentIdentity, bridge_report, tenants
from ofnet.names import Resolver, no_resolver
from ofnet.openflow.packets import Arp
from ofnet.packetin import PacketOut, react
from ofnet.services.proxy import ServiceProxy
from ofnet.services.stats import client_counters
from ofnet.tables import TableId, mode_of
from ofnet.world import Bridge, World

log = logging.getLogger(__name__)

NO_CLIENTS: Final[Mapping[str, Any]] = MappingProxyType({})
MAX_WAITING: Final = 1000
"""Updates that may wait for the switch before first packets of service clients are dropped."""


class BridgeObserver(Protocol):
    """Is notified of what a bridge realises, and of ARP from the BGP peer's network."""

    def on_world(self, world: World) -> None:
        """Take a World that the bridge has taken over; its flows may still be on their way."""

    def on_arp(self, arp: Arp) -> None:
        """Take an ARP packet that came in by an uplink without a tag."""


class BridgeAgent:
    """The desired state of one bridge and the task that realises it. `stats` counts packets.

    `resolve` answers the pods' DNS requests.
    """

    def __init__(
        self,
        switch: Switch,
        bridge: Bridge,
        world: World,
        *,
        audit_interval: float = AUDIT_INTERVAL,
        resolve: Resolver = no_resolver,
    ) -> None:
        self.bridge = bridge
        self.stats: Counter[str] = Counter()
        self._switch = switch
        self._resolve = resolve
        self._world = world
        self._desired = Desired(bridge)
        self._directory = Directory()
        self._services = ServiceProxy(bridge)
        self._log_faults(self._desired.update(world, EVERYTHING).faults)
        touched = self._directory.update(world, EVERYTHING)
        self._services.update(world, EVERYTHING, self._directory, touched)
        self._sync = FlowSync(
            switch,
            self._desired,
            self.stats,
            before_compare=self._adopt_clients,
            audit_interval=audit_interval,
        )
        self._sync.allow(_deletions(world))
        self._adopted = False
        self._observer: BridgeObserver | None = None
        self.garp_sender = GarpSender(switch, bridge, world, self.stats, self.wait_synced)
        switch.attach(self)

    def on_sync_change(self, callback: Callable[[], None]) -> None:
        """Have a callback called when `fully_synced`, `refused` or `faults` may have changed."""
        self._sync.on_change = callback

    def set_observer(self, observer: BridgeObserver) -> None:
        """Notify one observer of Worlds and of neighbours."""
        self._observer = observer

    def send(self, out: PacketOut) -> None:
        """Have the switch send a packet, if one is connected."""
        self._switch.send_packet(out.data, out.actions, in_port=out.in_port)

    async def update(self, world: World, changes: Changes) -> None:
        """Take over a changed World; return when the switch has acknowledged the change.

        Raises SwitchUnavailable when no switch is connected or it does not answer (the change is
        kept and realised on connect), FlowsRefused when it refuses flows of the changed objects,
        Invalid when a changed local endpoint has values no flow can have. Deletions wait until the
        World is complete.
        """
        self.garp_sender.update(world, changes)
        try:
            await self._realise(world, changes)
        finally:
            self.garp_sender.wake()

    async def _realise(self, world: World, changes: Changes) -> None:
        # Directory, then services, then flows: services look up addresses in the directory, and
        # flows are made of what services decided. There is no await before the change is queued,
        # so no packet and no second update sees one of the three without the others.
        touched = self._directory.update(world, changes)
        altered = self._services.update(world, changes, self._directory, touched)
        world = replace(world, served=dict(self._services.served))
        delta = self._desired.update(world, changes | Changes.of(ObjectKind.SERVED, altered))
        self._world = world
        if self._observer is not None:
            self._observer.on_world(world)
        self._log_faults(delta.faults)
        self._sync.allow(_deletions(world))
        await self._sync.apply(delta)
        for oid, fault in delta.faults.items():
            if oid.kind is ObjectKind.LOCAL:
                raise Invalid(f"endpoint {oid.name} cannot be forwarded to: {fault}")

    async def run(self) -> None:
        """Send changes and reconcile, for ever."""
        await self._sync.run()

    # -- state ---------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        """The World last taken over."""
        return self._world

    @property
    def connected(self) -> bool:
        """True while a switch is connected."""
        return self._switch.connected

    @property
    def synced(self) -> bool:
        """True when the last comparison found no difference, and nothing has failed since."""
        return self._sync.synced

    @property
    def fully_synced(self) -> bool:
        """True when the switch has acknowledged every flow of every finished update."""
        return self._sync.fully_synced

    async def wait_synced(self) -> None:
        """Return when a switch is connected and a comparison has found no difference."""
        await self._sync.wait_synced()

    @property
    def refused(self) -> Mapping[FlowKey, tuple[Flow, str]]:
        """The flows the switch refuses, with its reason; every audit tries them again."""
        return self._sync.refused

    @property
    def faults(self) -> Mapping[ObjectId, str]:
        """The objects whose values no flow can have, with what is wrong."""
        return self._desired.faults

    @property
    def flows(self) -> Mapping[FlowKey, Flow]:
        """The flows the bridge must have."""
        return self._desired.flows

    async def service_stats(self) -> dict[str, Any]:
        """Return the counters of services' clients in the original's shape, read now.

        Returns an empty object while the switch does not answer.
        """
        try:
            entries = await self._switch.entries()
        except (SwitchUnavailable, SwitchRefused) as exc:
            about = fields(bridge=self.bridge, error=str(exc))
            log.info("service counters not available", extra=about)
            return {}
        return client_counters(entries, tenants(self._world))

    def inspect(
        self, identity: AgentIdentity, clients: Mapping[str, Any] = NO_CLIENTS
    ) -> dict[str, Any]:
        """Return the original's JSON of an agent, as far as a World knows it.

        `clients` has what `service_stats` returned.
        """
        return bridge_report(
            self._world,
            mode_of(self.bridge, self._world.fwd_mode),
            identity,
            connected=self.connected,
            stats=self.stats,
            clients=clients,
        )

    # -- events of the switch ------------------------------------------------------------------

    def on_connected(self) -> None:
        """Reconcile at once."""
        self._sync.on_connected()

    def on_disconnected(self) -> None:
        """Fail the updates that wait for the switch."""
        self._sync.on_disconnected()

    def on_error(self, text: str) -> None:
        """Compare soon: an error that answers no request may mean that a flow is missing."""
        self.stats["SwitchError"] += 1
        log.debug("switch error", extra=fields(bridge=self.bridge, error=text))
        self._sync.compare_soon()

    def on_packet_in(self, packet: PacketIn) -> None:
        """Answer a packet from what the World knows."""
        if packet.table == TableId.SRV_PROXY_DNAT:
            self._on_first_packet(packet)
            return
        mode = mode_of(self.bridge, self._world.fwd_mode)
        reaction = react(packet, mode, self._directory, self._world, self._resolve)
        self.stats["PktRcvd"] += 1
        self.stats.update(reaction.counters)
        if reaction.send is not None:
            self.send(reaction.send)
        if reaction.uplink_arp is not None and self._observer is not None:
            self._observer.on_arp(reaction.uplink_arp)

    def _on_first_packet(self, packet: PacketIn) -> None:
        """Give a service's client a provider; forward its packet once the flows are in place."""
        # Pods cause these packets, so their cost is bounded: above MAX_WAITING unsent updates more
        # are dropped, and the client's own retransmission tries again. Before adoption every packet
        # is dropped: a choice made now could move a client whose connections the switch still
        # forwards to another provider.
        self.stats["PktRcvd"] += 1
        if not self._adopted or self._sync.waiting >= MAX_WAITING:
            self.stats["SvcPktDropped"] += 1
            return
        response = self._services.packet_in(packet, self._world, self._directory)
        self.stats[response.counter] += 1
        if response.send is None:
            return
        self._world = replace(self._world, served=dict(self._services.served))
        changes = Changes.of(ObjectKind.SERVED, {response.name})
        update = self._sync.send(self._desired.update(self._world, changes))
        # Only after the acknowledgement: the provider's reply could otherwise reach the switch
        # before the flow that translates it, and the client would reset the connection.
        update.done.add_done_callback(partial(self._send_held_packet, response.send))

    def _send_held_packet(self, out: PacketOut, done: asyncio.Future[None]) -> None:
        if done.cancelled() or done.exception() is not None:
            self.stats["SvcPktDropped"] += 1
        else:
            self._switch.send_packet(out.data, out.actions, in_port=out.in_port)

    # -- before a comparison -------------------------------------------------------------------

    async def _adopt_clients(self) -> None:
        """Keep the providers that clients have in the switch since before this agent; once."""
        # Adoption comes before the first deletion: a complete World without these clients would
        # make the comparison delete their flows, and with them every open connection to a service.
        # It waits for a complete World, because only that says which services still exist.
        if self._adopted or not self._world.complete:
            return
        found = list(reported_clients(await self._switch.entries()))
        names = self._services.adopt(found, self._world, self._directory)
        self._adopted = True
        self._world = replace(self._world, served=dict(self._services.served))
        self._desired.update(self._world, Changes.of(ObjectKind.SERVED, names))

    def _log_faults(self, faults: Mapping[ObjectId, str]) -> None:
        for oid, fault in faults.items():
            about = fields(bridge=self.bridge, key=oid.name, error=fault)
            log.error("object has invalid values, no flows made for it", extra=about)


def _deletions(world: World) -> Deletions:
    """Return what may be deleted on the word of a World (ADR 11)."""
    if not world.complete:
        return Deletions.NONE
    return Deletions.ALL_BUT_ROUTES if world.learning else Deletions.ALL
