"""The agent of one bridge: takes Worlds, has the flows realised, answers packets.

In come Worlds with the ids of what changed (from `netplugin`) and packets from the switch. Out go
changed flows to `ofnet.flow_sync`, which reconciles the switch with them, and answers to packets
(`ofnet.packets.packetin`, `ofnet.services.refusal`). Must not know the store or the kernel.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Protocol

from core.errors import Invalid, SwitchRefused, SwitchUnavailable
from core.ids import EndpointKey
from core.logs import fields
from ofnet import datapath, drops, logged_rules
from ofnet.changes import EVERYTHING, Changes, ObjectId, ObjectKind
from ofnet.channel.switch import Switch
from ofnet.channel.wire import PacketIn
from ofnet.desired import Desired
from ofnet.diff import Difference, difference
from ofnet.drops import DropNotice, DroppingFlows
from ofnet.flow_sync import FlowSync, SyncLimits
from ofnet.hits import Hits, guarded_by_object, hits_by_object
from ofnet.inspection import AgentIdentity, bridge_report, tenants
from ofnet.logged_rules import LoggedRules, Notice
from ofnet.openflow.actions import PORT_IN_PORT, Output
from ofnet.openflow.packets import Neighbour
from ofnet.packets.directory import Directory
from ofnet.packets.dns_answers import Resolver, no_resolver
from ofnet.packets.garp_sender import GarpSender
from ofnet.packets.packetin import FORGED, PacketOut, react
from ofnet.pipelines.packet_path import neighbours
from ofnet.services.refusal import refusal
from ofnet.services.stats import service_counters
from ofnet.tables import FLAT_VRF, Mode, TableId, mode_of, zone_of
from ofnet.translations import Translated, answered
from ofnet.world import Bridge, World

log = logging.getLogger(__name__)

NO_COUNTERS: Final[Mapping[str, Any]] = MappingProxyType({})
_BACK: Final = (Output(PORT_IN_PORT),)
_OF_KUBERNETES: Final = frozenset(
    {
        ObjectKind.SERVICE,
        ObjectKind.AFFINITY,
        ObjectKind.POLICY_SUBJECT,
        ObjectKind.POLICY_ENTRY,
    }
)
"""The kinds of objects that follow from what its API server says."""


class BridgeObserver(Protocol):
    """Is notified of what a bridge realises, and of machines on the BGP peer's network."""

    def on_world(self, world: World) -> None:
        """Take a World that the bridge has taken over; its flows may still be on their way."""

    def on_neighbour(self, neighbour: Neighbour) -> None:
        """Take what ARP or ND said that came in by an uplink without a tag."""


def _no_receiver(_ofport: int, _frame: bytes) -> None:
    """Take an answer that nobody waits for."""


class BridgeAgent:
    """The desired state of one bridge and the task that realises it. `stats` counts packets.

    `resolve` answers the pods' DNS requests, `notice` takes the packets of rules with `log`,
    `dropped` those that the switch reports as dropped.
    """

    def __init__(
        self,
        switch: Switch,
        bridge: Bridge,
        world: World,
        *,
        limits: SyncLimits | None = None,
        resolve: Resolver = no_resolver,
        notice: Notice | None = None,
        dropped: DropNotice | None = None,
    ) -> None:
        self.bridge = bridge
        self.stats: Counter[str] = Counter()
        self.forged: Counter[str] = Counter()
        """Requests of endpoints here in another's name, which nobody answers, by their keys."""
        self.switch = switch
        self._resolve = resolve
        self._notice = notice
        self._dropped = dropped
        self._logged = LoggedRules()
        self._world = world
        self.desired = Desired(bridge)
        self.dropping = DroppingFlows(self.desired)
        self.directory = Directory()
        self._log_faults(self.desired.update(world, EVERYTHING).faults)
        self.directory.update(world, EVERYTHING)
        self.sync = FlowSync(
            switch,
            self.desired,
            self.stats,
            before_compare=self._before_compare,
            limits=limits or SyncLimits(),
        )
        self.sync.spare(_spared(world))
        self._found: set[Translated] | None = None
        self._asked = False
        """True once this connection's switch has said what its datapath can do."""
        self._observer: BridgeObserver | None = None
        self._receive_probe: Callable[[int, bytes], None] = _no_receiver
        self._complete = asyncio.Event()
        self._note_complete(world)
        self.garp_sender = GarpSender(switch, bridge, world, self.stats, self.sync)
        switch.attach(self)

    def on_sync_change(self, callback: Callable[[], None]) -> None:
        """Have a callback called when `fully_synced`, `refused` or `faults` may have changed."""
        self.sync.on_change = callback

    def set_observer(self, observer: BridgeObserver) -> None:
        """Notify one observer of Worlds and of neighbours."""
        self._observer = observer

    def set_probe_receiver(self, receive: Callable[[int, bytes], None]) -> None:
        """Pass answers to probes of tunnels on: the port that one came by, and its frame."""
        self._receive_probe = receive

    def send(self, out: PacketOut) -> bool:
        """Have the switch send a packet; False if none is connected, or it is too busy."""
        return self.switch.send_packet(out.data, out.actions, in_port=out.in_port)

    async def update(self, world: World, changes: Changes) -> None:
        """Take over a changed World; return when the switch has acknowledged the change.

        Raises SwitchUnavailable when no switch is connected or it does not answer (the change is
        kept and realised on connect), FlowsRefused when it refuses flows of the changed objects,
        Invalid when a changed local endpoint has values no flow can have.
        """
        known = self._world
        world = replace(world, nd_extension=known.nd_extension, unchanged_nat=known.unchanged_nat)
        self.garp_sender.update(world, changes)
        try:
            await self._realise(world, changes)
        finally:
            self.garp_sender.wake()

    async def _realise(self, world: World, changes: Changes) -> None:
        # There is no await before the change is queued, so no packet and no second update sees the
        # directory without the flows.
        self.directory.update(world, changes)
        delta = self.desired.update(world, changes)
        changed = (*delta.add, *delta.delete)
        if delta.large or any(flow.owner == ObjectKind.RULE for flow in changed):
            self._logged.forget()
        if delta.large or delta.add:
            self.dropping.changed()
        self._world = world
        if self._observer is not None:
            self._observer.on_world(world)
        self._log_faults(delta.faults)
        self.sync.spare(_spared(world))
        self._note_complete(world)
        await self.sync.apply(delta)
        for oid, fault in delta.faults.items():
            if oid.kind is ObjectKind.LOCAL:
                raise Invalid(f"endpoint {oid.name} cannot be forwarded to: {fault}")

    def _note_complete(self, world: World) -> None:
        if world.complete:
            self._complete.set()

    async def run(self) -> None:
        """Send changes and reconcile, for ever, from the first complete World on (ADR 11)."""
        # In an incomplete World absence means "not read yet". What it lacks would be deleted, and
        # a running pod cut off; and what it has could pass what an unread policy denies.
        await self._complete.wait()
        await self.sync.run()

    # -- state ---------------------------------------------------------------------------------

    @property
    def world(self) -> World:
        """The World last taken over."""
        return self._world

    @property
    def connected(self) -> bool:
        """True while a switch is connected."""
        return self.switch.connected

    async def unrealised(self, key: EndpointKey) -> str:
        """Return what keeps the flows of a local endpoint from the switch; "" for nothing.

        Waits, once connected, until a comparison with the switch has found no difference.
        """
        oid = ObjectId(ObjectKind.LOCAL, key)
        if not self.connected:
            return f"bridge {self.bridge} has no OpenFlow session"
        if key in self._world.barred:
            return f"endpoint {key} has an address that hosts need for themselves: delete it"
        if key not in self._world.local:
            return f"endpoint {key} has no flows on {self.bridge}"
        if oid in self.desired.faults:
            return f"endpoint {key} can have no flows: {self.desired.faults[oid]}"
        await self.sync.wait_synced()
        claimed = self.desired.keys_of(oid)
        reasons = sorted({why for flow, (_, why) in self.sync.refused.items() if flow in claimed})
        return f"the switch refuses flows of endpoint {key}: {reasons[0]}" if reasons else ""

    async def installed(self) -> int | None:
        """Return how many flows the switch says it has; None while it does not answer."""
        try:
            return await self.switch.session.flow_count()
        except (SwitchUnavailable, SwitchRefused):
            return None

    async def compared(self) -> tuple[int, Difference]:
        """Return how many flows the switch has, and how they differ from the desired ones.

        Raises SwitchUnavailable or SwitchRefused.
        """
        reported = await self.switch.session.dump()
        desired = list(self.desired.held.values())
        return len(reported), await asyncio.to_thread(difference, desired, reported)

    async def service_stats(self) -> dict[str, Any]:
        """Return the counters of services in the original's shape, read now.

        Returns an empty object while the switch does not answer.
        """
        try:
            entries = await self.switch.session.entries()
        except (SwitchUnavailable, SwitchRefused) as exc:
            about = fields(bridge=self.bridge, error=str(exc))
            log.info("service counters not available", extra=about)
            return {}
        return service_counters(self._world, entries, self._tenants())

    async def hits(self, kind: ObjectKind) -> dict[str, Hits]:
        """Return how many packets the flows of each object of a kind have handled, read now.

        By the objects' names; those without any are left out. Raises SwitchUnavailable or
        SwitchRefused.
        """
        counted = await self.switch.session.counts(kind)
        return hits_by_object(self.desired.cookies(kind), counted)

    async def guarded(self) -> dict[str, int]:
        """Return how many packets the source guard dropped of each endpoint here, read now.

        By the endpoints' keys; those without any are left out. Raises SwitchUnavailable or
        SwitchRefused.
        """
        counted = await self.switch.session.counts(ObjectKind.LOCAL)
        return guarded_by_object(self.desired.cookies(ObjectKind.LOCAL), counted)

    async def logged_packets(self) -> dict[str, int]:
        """Return how many packets rules with `log` decided about, read now, by the rules' ids.

        Those that arrive and are allowed are left out. Raises SwitchUnavailable or SwitchRefused.
        """
        rules = self._logged.by_cookie(self._world)
        counted = await self.switch.session.counts(ObjectKind.RULE) if rules else []
        return logged_rules.packets_by_rule(rules, counted)

    def _tenants(self) -> dict[int, str]:
        """Return the names of tenants by the VRF ids that flows have."""
        named = tenants(self._world)
        if mode_of(self.bridge, self._world.fwd_mode) is Mode.VLROUTER:
            return {FLAT_VRF: " ".join(sorted(named.values()))} if named else {}
        return named

    def inspect(
        self,
        identity: AgentIdentity,
        counters: Mapping[str, Any] = NO_COUNTERS,
        endpoints: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the original's JSON of an agent, as far as a World knows it.

        `counters` has what `service_stats` returned. `endpoints` are shown in place of the World's.
        """
        return bridge_report(
            self._world,
            mode_of(self.bridge, self._world.fwd_mode),
            identity,
            connected=self.connected,
            stats=self.stats,
            counters=counters,
            endpoints=endpoints,
        )

    # -- events of the switch ------------------------------------------------------------------

    def on_connected(self) -> None:
        """Reconcile at once."""
        self._asked = False
        self.sync.on_connected()

    def on_disconnected(self) -> None:
        """Fail the updates that wait for the switch."""
        self.sync.on_disconnected()

    def on_error(self, text: str) -> None:
        """Compare soon: an error that answers no request may mean that a flow is missing."""
        self.stats["SwitchError"] += 1
        log.debug("switch error", extra=fields(bridge=self.bridge, error=text))
        self.sync.compare_soon()

    def _note_forged(self, ofport: int) -> None:
        attachment = self.directory.attachment(ofport)
        if attachment is not None and attachment.endpoint is not None:
            self.forged[str(attachment.endpoint.key)] += 1

    def on_packet_in(self, packet: PacketIn) -> None:
        """Answer a packet from what the World knows."""
        if self._dropped is not None and self._note_dropped(packet, self._dropped):
            return
        if packet.table == TableId.SRV_PROXY_DNAT:
            self._refuse(packet)
            return
        if packet.table in logged_rules.TABLES:
            self._note(packet)
            return
        if packet.table == TableId.VLAN:
            self._receive_probe(packet.in_port, packet.data)
            return
        mode = mode_of(self.bridge, self._world.fwd_mode)
        reaction = react(packet, mode, self.directory, self._world, self._resolve)
        self.stats["PktRcvd"] += 1
        self.stats.update(reaction.counters)
        if not FORGED.isdisjoint(reaction.counters):
            self._note_forged(packet.in_port)
        if reaction.send is not None:
            self.send(reaction.send)
        if reaction.later is not None:
            reaction.later(self.send)
        if reaction.neighbour is not None and self._observer is not None:
            self._observer.on_neighbour(reaction.neighbour)

    def _refuse(self, packet: PacketIn) -> None:
        """Refuse a packet to a port of a service that has no provider."""
        self.stats["PktRcvd"] += 1
        answer = refusal(packet.data)
        self.stats["SvcPktRefused" if answer is not None else "SvcPktInvalid-ERROR"] += 1
        if answer is not None:
            self.switch.send_packet(answer, _BACK, in_port=packet.in_port)

    def _note_dropped(self, packet: PacketIn, notice: DropNotice) -> bool:
        """Pass on what a flow has dropped; return whether the packet came for nothing else."""
        dropping = self.dropping.by_cookie(packet.cookie)
        if dropping is None:
            return False
        found = drops.read(packet, dropping, self.directory, bridge=self.bridge, world=self._world)
        self.stats["DropPktReported" if found is not None else "DropPktInvalid-ERROR"] += 1
        if found is not None:
            notice(found)
        return dropping.only

    def _note(self, packet: PacketIn) -> None:
        """Pass on what a packet of a rule with `log` says."""
        rules = self._logged.by_cookie(self._world)
        mode = mode_of(self.bridge, self._world.fwd_mode)
        vrfs = logged_rules.vrfs_of(packet, mode, self._world)
        found = logged_rules.read(packet, rules, self.directory, vrfs)
        self.stats["PolicyPktLogged" if found is not None else "PolicyPktInvalid-ERROR"] += 1
        if found is None or self._notice is None:
            return
        # what a rule with `audit` would deny passes, and meets the rule on both hosts
        if found.rule.audit and found.source.endpoint in self._world.remote:
            return
        self._notice(found)

    # -- before a comparison -------------------------------------------------------------------

    async def _before_compare(self) -> None:
        await self._ask_datapath()
        await self._end_unknown_connections()

    async def _ask_datapath(self) -> None:
        """Ask the switch, once a connection, what its datapath can do; adapt the flows to it."""
        if self._asked:
            return
        lacking = await self.switch.refusals([neighbours.extension_probe()])
        # Open vSwitch's own datapath has the extension, the kernel's does not
        own = not lacking
        harmed = own and datapath.ends_at_unchanged_addresses(await self.switch.session.release())
        self._asked = True
        before = self._world
        self._world = replace(before, nd_extension=own, unchanged_nat=not harmed)
        if self._world != before:
            self.desired.update(self._world, EVERYTHING)
        if before.nd_extension != own:
            by = "the agent: the datapath has no ND extension" if lacking else "the switch"
            log.info(
                "sender of IPv6 neighbour advertisements changed",
                extra=fields(bridge=self.bridge, mode=by),
            )

    async def _end_unknown_connections(self) -> None:
        """End the connections to providers that went while no agent was there; once."""
        # The switch translates answers of exactly the providers that the agent before knew. They
        # are read before anything is deleted. Which of them are gone is known once all services of
        # Kubernetes are; that may be at any moment after this.
        if self._found is None:
            mode = mode_of(self.bridge, self._world.fwd_mode)
            self._found = {
                Translated(zone_of(mode, one.vrf), one.protocol, address, one.port("src"))
                for one in await self.switch.session.entries()
                if one.table == TableId.SRV_PROXY_SNAT
                and one.port("src")
                and (address := one.address("src")) is not None
            }
        if self._found and not self._world.kubernetes_partial:
            self.sync.forget(self._found.difference(answered(self.desired.whole())))
            self._found = set()

    def _log_faults(self, faults: Mapping[ObjectId, str]) -> None:
        for oid, fault in faults.items():
            about = fields(bridge=self.bridge, key=oid.name, error=fault)
            log.error("object has invalid values, no flows made for it", extra=about)


def _spared(world: World) -> frozenset[ObjectKind]:
    """Return the kinds of objects of which a World may not know all: their flows are kept."""
    routes = {ObjectKind.ROUTE} if world.learning else set[ObjectKind]()
    unknown = _OF_KUBERNETES if world.kubernetes_partial else frozenset[ObjectKind]()
    return unknown | routes
