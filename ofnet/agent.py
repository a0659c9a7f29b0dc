"""Keeps one bridge equal to its World.

In come Worlds with the names of what changed (from `netplugin`); out go flows to
`ofnet.channel.switch`, and packets to answer come back the same way. One task (`run`) sends
everything, so that what is on the wire has one order: changes as they come, and after every
connect, error and audit interval the difference between what the switch reports and what it should
have. Must not know the store or the kernel.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol

from core.errors import ContivError, Invalid, SwitchRefused, SwitchUnavailable
from core.logs import fields
from core.tasks import backoff
from ofnet.changes import EVERYTHING, Changes, ObjectId, ObjectKind
from ofnet.channel.flow_stats import adopted
from ofnet.channel.session import FlowsRefused
from ofnet.channel.switch import Switch
from ofnet.channel.wire import PacketIn
from ofnet.desired import Desired, FlowDelta
from ofnet.diff import Difference, FlowStamp, difference
from ofnet.directory import Directory
from ofnet.flows import Flow, FlowKey
from ofnet.garp_sender import GarpSender
from ofnet.inspection import AgentIdentity, bridge_report, tenants
from ofnet.names import Resolver, nobody
from ofnet.openflow.packets import Arp
from ofnet.packetin import PacketOut, react
from ofnet.services.proxy import ServiceProxy
from ofnet.services.stats import counted
from ofnet.tables import TableId, mode_of
from ofnet.world import Bridge, World

log = logging.getLogger(__name__)

AUDIT_INTERVAL: Final = 60.0
MAX_ROUNDS: Final = 5
"""Comparisons in a row after which a switch that does not come to rest is left until later."""

NO_CLIENTS: Final[Mapping[str, Any]] = MappingProxyType({})
MAX_WAITING: Final = 1000
"""Updates and first packets that may wait for the switch at once, before more packets are lost."""

UPDATE_LIMIT: Final = 60.0
"""Seconds after which an update is given up; the switch's own limits come first."""


@dataclass(slots=True)
class _Ticket:
    done: asyncio.Future[None]
    touched: frozenset[FlowKey]


@dataclass(slots=True)
class _Outbox:
    """Changes not sent yet, in an order that is right whatever came first: adds, then deletes."""

    add: dict[FlowKey, Flow] = field(default_factory=dict)
    delete: dict[FlowStamp, None] = field(default_factory=dict)
    tickets: list[_Ticket] = field(default_factory=list)

    def put(self, add: tuple[Flow, ...], delete: tuple[Flow, ...]) -> None:
        for flow in add:
            self.add[flow.key] = flow
            self.delete.pop(FlowStamp(flow.table, flow.cookie), None)
        # a flow still waiting to be added stays: it must replace what it was to replace
        self.delete.update(dict.fromkeys(FlowStamp(flow.table, flow.cookie) for flow in delete))


class BridgeObserver(Protocol):
    """Who wants to know what a bridge has, and what is said beyond its uplink."""

    def realised(self, world: World) -> None:
        """Hear of a World that was taken over."""

    def heard(self, arp: Arp) -> None:
        """Hear what somebody on the BGP peer's network said of itself."""


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
        resolve: Resolver = nobody,
    ) -> None:
        self.bridge = bridge
        self.stats: Counter[str] = Counter()
        self._switch = switch
        self._audit_interval = audit_interval
        self._resolve = resolve
        self._world = world
        self._desired = Desired(bridge)
        self._directory = Directory()
        self._services = ServiceProxy(bridge)
        self._log_faults(self._desired.update(world, EVERYTHING).faults)
        touched = self._directory.update(world, EVERYTHING)
        self._services.update(world, EVERYTHING, self._directory, touched)
        self._outbox = _Outbox()
        self._refused: dict[FlowKey, tuple[Flow, str]] = {}
        self._wake = asyncio.Event()
        self._audit_at = 0.0
        self._pauses = _pauses()
        self._adopted = False
        self._settled = asyncio.Event()
        self._observer: Callable[[], None] = _nobody
        self._attendant: BridgeObserver | None = None
        self.announcer = GarpSender(switch, bridge, world, self.stats, self.wait_settled)
        switch.attach(self)

    def observe(self, observer: Callable[[], None]) -> None:
        """Have one observer called whenever `in_step`, `refused` or `faults` may have changed."""
        self._observer = observer

    def inform(self, attendant: BridgeObserver) -> None:
        """Have one attendant hear of Worlds and neighbours."""
        self._attendant = attendant

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
        self.announcer.note(world, changes)
        try:
            await self._take_over(world, changes)
        finally:
            self.announcer.wake()

    async def _take_over(self, world: World, changes: Changes) -> None:
        touched = self._directory.update(world, changes)
        altered = self._services.update(world, changes, self._directory, touched)
        world = replace(world, served=dict(self._services.served))
        delta = self._desired.update(world, changes | Changes.of(ObjectKind.SERVED, altered))
        absence_counts = _missing_is_gone(world) and not _missing_is_gone(self._world)
        self._world = world
        if self._attendant is not None:
            self._attendant.realised(world)
        self._log_faults(delta.faults)
        if not self._switch.connected:
            raise SwitchUnavailable(f"no switch is connected for bridge {self.bridge}")
        if absence_counts:
            self._audit_at = 0.0
        ticket = self._send(delta)
        try:
            async with asyncio.timeout(UPDATE_LIMIT):
                await ticket.done
        except TimeoutError as exc:
            self._doubt()
            raise SwitchUnavailable(f"bridge {self.bridge} was not updated in time") from exc
        for oid, fault in delta.faults.items():
            if oid.kind is ObjectKind.LOCAL:
                raise Invalid(f"endpoint {oid.name} cannot be forwarded to: {fault}")

    def _send(self, delta: FlowDelta) -> _Ticket:
        """Have a change sent; the ticket is done when the switch has acknowledged it."""
        self._outbox.put(delta.add, delta.delete if self._world.complete else ())
        ticket = _Ticket(asyncio.get_running_loop().create_future(), delta.touched)
        self._outbox.tickets.append(ticket)
        self._wake.set()
        return ticket

    async def run(self) -> None:
        """Send changes and compare, for ever."""
        try:
            while True:
                await self._work_waiting()
                if self._switch.connected:
                    await self._turn()
                else:
                    self._give_up(SwitchUnavailable(f"the switch of {self.bridge} is gone"))
        finally:
            self._give_up(SwitchUnavailable(f"bridge {self.bridge} is no longer looked after"))

    # how far we are

    @property
    def world(self) -> World:
        """The World last taken over."""
        return self._world

    @property
    def connected(self) -> bool:
        """True while a switch is connected."""
        return self._switch.connected

    @property
    def settled(self) -> bool:
        """True when a comparison has found nothing left to do, and nothing has failed since."""
        return self._settled.is_set() and self._switch.connected

    @property
    def in_step(self) -> bool:
        """True when the switch has acknowledged all of every update that has ended."""
        return self.settled and not self._refused

    async def wait_settled(self) -> None:
        """Return when a switch is connected and a comparison has found nothing left to do."""
        await self._settled.wait()

    @property
    def refused(self) -> Mapping[FlowKey, tuple[Flow, str]]:
        """The flows the switch refuses, with its reason; they are tried again at every audit."""
        return self._refused

    @property
    def faults(self) -> Mapping[ObjectId, str]:
        """The objects whose values no flow can have, with what is wrong."""
        return self._desired.faults

    @property
    def flows(self) -> Mapping[FlowKey, Flow]:
        """The flows the bridge must have."""
        return self._desired.flows

    async def service_stats(self) -> dict[str, Any]:
        """Return the counters of services' clients as the original has them, read now.

        There are none while the switch does not answer.
        """
        try:
            entries = await self._switch.entries()
        except (SwitchUnavailable, SwitchRefused) as exc:
            log.info("no counters of services", extra=fields(bridge=self.bridge, error=str(exc)))
            return {}
        return counted(entries, tenants(self._world))

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

    # what the switch tells us

    def switch_connected(self) -> None:
        """Compare at once: what the switch holds is unknown."""
        self._settled.clear()
        self._audit_at = 0.0
        self._pauses = _pauses()
        self._wake.set()

    def switch_lost(self) -> None:
        """Let nobody wait for a switch that is gone."""
        self._settled.clear()
        self._wake.set()
        self._observer()

    def complaint(self, text: str) -> None:
        """Compare soon: an error nobody waits for may mean that a flow is missing."""
        self.stats["SwitchError"] += 1
        log.debug("switch error", extra=fields(bridge=self.bridge, error=text))
        self._compare_soon()

    def packet_in(self, packet: PacketIn) -> None:
        """Answer a packet from what the World knows."""
        if packet.table == TableId.SRV_PROXY_DNAT:
            self._first_packet(packet)
            return
        mode = mode_of(self.bridge, self._world.fwd_mode)
        reaction = react(packet, mode, self._directory, self._world, self._resolve)
        self.stats["PktRcvd"] += 1
        self.stats.update(reaction.counters)
        if reaction.send is not None:
            self.send(reaction.send)
        if reaction.heard is not None and self._attendant is not None:
            self._attendant.heard(reaction.heard)

    def _first_packet(self, packet: PacketIn) -> None:
        """Have a service's client served, and its packet go on once the switch has the flows."""
        self.stats["PktRcvd"] += 1
        if not self._adopted or len(self._outbox.tickets) >= MAX_WAITING:
            self.stats["SvcPktDropped"] += 1
            return
        response = self._services.packet_in(packet, self._world, self._directory)
        self.stats[response.counter] += 1
        if response.send is None:
            return
        self._world = replace(self._world, served=dict(self._services.served))
        changes = Changes.of(ObjectKind.SERVED, {response.name})
        ticket = self._send(self._desired.update(self._world, changes))
        ticket.done.add_done_callback(partial(self._goes_on, response.send))

    def _goes_on(self, out: PacketOut, done: asyncio.Future[None]) -> None:
        if done.cancelled() or done.exception() is not None:
            self.stats["SvcPktDropped"] += 1
        else:
            self._switch.send_packet(out.data, out.actions, in_port=out.in_port)

    # the one sender

    async def _work_waiting(self) -> None:
        pause = None
        if self._switch.connected:
            pause = max(0.0, self._audit_at - asyncio.get_running_loop().time())
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._wake.wait()
        self._wake.clear()

    async def _turn(self) -> None:
        try:
            now = asyncio.get_running_loop().time()
            if now >= self._audit_at:
                # set first, so that a wish for an earlier comparison during this one is kept
                self._audit_at = now + self._audit_interval
                if self._refused:
                    self._settled.clear()
                    self._refused.clear()
                await self._compare([])
                self._pauses = _pauses()
            else:
                await self._flush()
        except (SwitchUnavailable, SwitchRefused) as exc:
            self.stats["SwitchFailure"] += 1
            log.warning("bridge not updated", extra=fields(bridge=self.bridge, error=str(exc)))
            self._doubt()
        self._observer()

    async def _flush(self) -> None:
        box = self._take_outbox()
        self._forget_refusals(box)
        with _failing(box.tickets):
            try:
                await self._switch.apply(tuple(box.add.values()), tuple(box.delete))
            except FlowsRefused as exc:
                self._note(exc)
                await self._compare(box.tickets)
                return
        self._answer(box.tickets)

    async def _compare(self, tickets: list[_Ticket]) -> None:
        with _failing(tickets):
            for _ in range(MAX_ROUNDS):
                if self._world.complete and not self._adopted:
                    await self._adopt()
                reported = await self._switch.dump()
                # what was put into the outbox until now is part of the difference
                tickets += self._take_outbox().tickets
                wanted = self._difference(reported)
                if not wanted:
                    self._answer(tickets)
                    self._settled.set()
                    return
                await self._correct(wanted)
            raise SwitchRefused(f"bridge {self.bridge} does not come to rest")

    async def _adopt(self) -> None:
        """Go on with whom an agent before this one has had served: the switch knows (once)."""
        found = list(adopted(await self._switch.entries()))
        names = self._services.adopt(found, self._world, self._directory)
        self._adopted = True
        self._world = replace(self._world, served=dict(self._services.served))
        self._desired.update(self._world, Changes.of(ObjectKind.SERVED, names))

    def _difference(self, reported: list[FlowStamp]) -> Difference:
        flows = self._desired.flows.items()
        wanted = difference((flow for key, flow in flows if key not in self._refused), reported)
        if not self._world.complete:
            return Difference(add=wanted.add, delete=())
        return wanted.sparing(ObjectKind.ROUTE) if self._world.learning else wanted

    async def _correct(self, wanted: Difference) -> None:
        log.info(
            "bridge differs from its World",
            extra=fields(bridge=self.bridge, flows=len(wanted.add), count=len(wanted.delete)),
        )
        try:
            await self._switch.apply(wanted.add, wanted.delete)
        except FlowsRefused as exc:
            self._note(exc)

    def _note(self, refusal: FlowsRefused) -> None:
        log.error("flows refused", extra=fields(bridge=self.bridge, error=str(refusal)))
        self.stats["FlowsRefused"] += len(refusal.flows)
        self._refused.update({flow.key: (flow, text) for flow, text in refusal.flows})

    def _log_faults(self, faults: Mapping[ObjectId, str]) -> None:
        for oid, fault in faults.items():
            about = fields(bridge=self.bridge, key=oid.name, error=fault)
            log.error("object has no flows", extra=about)

    def _forget_refusals(self, box: _Outbox) -> None:
        flows = self._desired.flows
        for key, (flow, _) in list(self._refused.items()):
            if key in box.add or flows.get(key) != flow:
                del self._refused[key]

    def _doubt(self) -> None:
        """Rely on nothing until a comparison has found nothing left to do."""
        self._settled.clear()
        self._compare_soon()

    def _compare_soon(self) -> None:
        soon = asyncio.get_running_loop().time() + next(self._pauses)
        self._audit_at = min(self._audit_at, soon)
        self._wake.set()

    def _take_outbox(self) -> _Outbox:
        box, self._outbox = self._outbox, _Outbox()
        return box

    def _answer(self, tickets: list[_Ticket]) -> None:
        for ticket in tickets:
            refused = [self._refused[key] for key in self._refused.keys() & ticket.touched]
            if refused:
                _fail([ticket], FlowsRefused(refused))
            elif not ticket.done.done():
                ticket.done.set_result(None)
        tickets.clear()

    def _give_up(self, exc: SwitchUnavailable) -> None:
        _fail(self._take_outbox().tickets, exc)


def _missing_is_gone(world: World) -> bool:
    """Tell whether all that a World does not have may be deleted."""
    return world.complete and not world.learning


def _nobody() -> None:
    """Observe nothing."""


def _pauses() -> Iterator[float]:
    return backoff(first=0.2, limit=5.0)


@contextmanager
def _failing(tickets: list[_Ticket]) -> Iterator[None]:
    """Tell those who wait what went wrong; the error goes on."""
    try:
        yield
    except (SwitchUnavailable, SwitchRefused) as exc:
        _fail(tickets, exc)
        raise
    except asyncio.CancelledError:
        _fail(tickets, SwitchUnavailable("the agent stops"))
        raise


def _fail(tickets: list[_Ticket], exc: ContivError) -> None:
    for ticket in tickets:
        if not ticket.done.done():
            ticket.done.set_exception(exc)
