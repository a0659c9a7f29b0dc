"""Keeps a record of each connection that this host's switch forwards, and of what it drops.

In come dumps of the datapath's flows, every `INTERVAL` seconds, and packets that flows report as
dropped (`ofnet.drops`); out go records with names to `netplugin.flow_records.ring`. No packet of a
connection that is forwarded comes here (ADR 48).
"""

# Once: the host of the connection's source records it, with the answers. What comes from outside
# the cluster is recorded by the host of its destination. Both hosts see the same addresses and
# ports, and so agree about which end is the source.
#
# Open vSwitch forgets a datapath flow 10 s after its last packet (`max-idle`), and its counters
# with it. A dump every 5 s sees each of them at least once after its last packet.

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Protocol

from core.ids import EndpointKey
from core.retry import REMOTE, Loop, retry
from netplugin.diagnostics.policy_log import protocol_name
from netplugin.flow_records import end_names, megaflows
from netplugin.flow_records.megaflows import Count, MegaflowWay, Passed, Reporting, Tally
from netplugin.flow_records.places import End as Place
from netplugin.flow_records.places import Located, PortPlaces, ServiceNames
from netplugin.flow_records.ring import Ring
from netplugin.ovsdb.control_socket import SwitchCommands
from netplugin.ovsdb.rows import PortRow
from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow
from netplugin.world.kubernetes.kube_policies import KubePolicies
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectId, ObjectKind
from ofnet.drops import DroppedPacket
from ofnet.logged_rules import LoggedEnd, LoggedPacket
from ofnet.tables import TableId
from ofnet.world import Bridge
from state.flow_records import AUDITED, DROPPED, FORWARDED, NAMELESS, End, EndNames, FlowRecord

log = logging.getLogger(__name__)

INTERVAL: Final = 5.0
"""Seconds between two dumps."""

RESTING: Final = 30.0
"""Seconds since the last drop after which the same ends get another record."""

AT_ONCE: Final = 500
"""Ways that are looked at before others have their turn."""

_Key = tuple[Bridge, int, int, Place, Place]
_Source = tuple[Bridge, int, int, Place]
_DropKey = tuple[Bridge, str, ObjectId, int, LoggedEnd, LoggedEnd]
Rows = Callable[[EndpointKey], EndpointRow | None]


class DropCounter(Protocol):
    """Counts dropped packets, as the recorder hears of them in two ways."""

    def report(self, packet: DroppedPacket, reason: str) -> None:
        """Take a packet that the switch has reported, within its meters."""

    def count(self, link: str, owner: ObjectId, reason: str, packets: int) -> None:
        """Take what the datapath has counted lately of the packets that came by a port."""


@dataclass(slots=True)
class _Connection:
    """A connection that the datapath has; without a record if another host records it."""

    source: Place
    record: FlowRecord | None
    service: _Source | None
    seen: int = 0

    def add(self, sender: Place, passed: Passed, now: float) -> None:
        record = self.record
        if record is None:
            return
        if sender == self.source:
            record.packets += passed.packets
            record.bytes += passed.bytes
        else:
            record.answer_packets += passed.packets
            record.answer_bytes += passed.bytes
        if passed.packets:
            record.last = max(record.last, now - passed.idle)


@dataclass(frozen=True, slots=True)
class _ToService:
    """What a client has sent to a service's address, before that was translated."""

    key: str
    address: Place
    located: Located
    passed: Passed


class FlowRecorder:
    """Takes dumps and drops; `record` knows endpoints, `now` is the time in seconds of UTC."""

    def __init__(
        self,
        control: SwitchCommands,
        ports: Callable[[], Mapping[str, PortRow]],
        row: Rows,
        policies: KubePolicies,
        *,
        now: Callable[[], float],
        ring: Ring,
        interval: float = INTERVAL,
        drop_counter: DropCounter | None = None,
    ) -> None:
        self.ring = ring
        self._drop_counter = drop_counter
        self._began = now()
        self._missed = 0
        self._dropped, self._noted, self._unrecorded = 0, 0, 0
        self._reported: Mapping[str, Reporting] | None = None
        self._control = control
        self._ports = ports
        self._row = row
        self._policies = policies
        self._now = now
        self._interval = interval
        self._agents: Mapping[Bridge, BridgeAgent] = {}
        self._loop = Loop(log, "connections not recorded", patience=REMOTE)
        self._tally = Tally()
        self._open: dict[_Key, _Connection] = {}
        self._by_service: dict[_Source, _Connection] = {}
        self._located: dict[MegaflowWay, Located | None] = {}
        self._services: dict[Bridge, ServiceNames] = {one: ServiceNames() for one in Bridge}
        self._drops: dict[_DropKey, FlowRecord] = {}
        self._looks = 0

    def attach(self, agents: Mapping[Bridge, BridgeAgent]) -> None:
        """Take the agents of the bridges, whose Worlds name what is seen."""
        self._agents = agents

    @property
    def lost(self) -> dict[str, int]:
        """What was lost: `room` are records that had to go before their time.

        `dump` are dumps that were not to be had: connections may have come and gone unseen. `drop`
        are packets that the switch dropped and did not report, or that were lost on their way.
        """
        return {"room": self.ring.evicted, "dump": self._missed, "drop": self._unrecorded}

    @property
    def since(self) -> float:
        """When the records begin: when this process did, or so long ago as they are kept."""
        return max(self._began, self._now() - self.ring.age)

    async def run(self) -> None:
        """Look, for ever."""
        while True:
            await retry(self._loop, self.look)
            await asyncio.sleep(self._interval)

    async def look(self) -> None:
        """Take one dump. Raises SwitchUnavailable or SwitchRefused."""
        self._missed += 1
        dump = await self._control.call(*megaflows.COMMAND)
        self._missed -= 1
        found, reported = await asyncio.to_thread(_read, dump)
        self._compare(reported)
        self._looks += 1
        await self._take(self._tally.take(found), self._now())
        self._end(self._now())

    def note(self, packet: DroppedPacket) -> None:
        """Record a packet that was dropped, with those of the same ends before it."""
        now = self._now()
        self._noted += not packet.refused
        ends = packet.source, packet.destination
        if any(one.address.is_multicast or one.address.is_link_local for one in ends):
            return
        if self._drop_counter is not None:
            self._drop_counter.report(packet, _reason_of(packet))
        self._count(packet, DROPPED, now)

    def note_audited(self, packet: LoggedPacket, bridge: Bridge) -> None:
        """Record a packet that a rule with `audit` would have denied, as `note` one dropped."""
        would_drop = DroppedPacket(
            bridge=bridge,
            table=TableId.POLICY,
            owner=ObjectId(ObjectKind.RULE, packet.rule.id),
            refused=True,
            protocol=packet.protocol,
            source=packet.source,
            destination=packet.destination,
        )
        self._count(would_drop, AUDITED, self._now())

    def _count(self, packet: DroppedPacket, verdict: str, now: float) -> None:
        ends = packet.source, packet.destination
        key = (packet.bridge, verdict, packet.owner, packet.protocol, *ends)
        record = self._drops.get(key)
        if record is None or not self.ring.has(record):
            record = self._drops[key] = self._of_drop(packet, verdict, now)
        record.packets += 1
        record.last = now

    def _compare(self, reported: Mapping[str, Reporting]) -> None:
        """Count what was dropped, by the datapath's counters, and did not come here."""
        before, self._reported = self._reported, reported
        if before is None:
            return  # what was counted before this agent ran is nothing that it has missed
        for match, (port, cookie, packets) in reported.items():
            found = (agent.dropping.by_cookie(cookie) for agent in self._agents.values())
            dropping = next((one for one in found if one is not None), None)
            if dropping is None:
                continue
            old = before.get(match)
            known = old is not None and packets >= old.packets
            grown = packets - old.packets if old is not None and known else packets
            if dropping.only:
                self._dropped += grown
            if self._drop_counter is not None:
                why = end_names.reason(dropping.owner, dropping.table, refused=not dropping.only)
                # the packet that makes a datapath flow is not among those that it counts
                self._drop_counter.count(port, dropping.owner, why, grown + (not known))
        self._unrecorded = max(self._unrecorded, self._dropped - self._noted)

    def _of_drop(self, packet: DroppedPacket, verdict: str, now: float) -> FlowRecord:
        world = self._agents[packet.bridge].world
        policy, rule = end_names.policy_and_rule(packet, self._policies, world)
        number = self.ring.next()
        source, destination = (
            End(str(one.address), one.port, self._names(one.endpoint))
            for one in (packet.source, packet.destination)
        )
        record = FlowRecord(
            number=number,
            changed=number,
            first=now,
            last=now,
            verdict=verdict,
            protocol=protocol_name(packet.protocol),
            source=source,
            destination=destination,
            reason=_reason_of(packet),
            because=end_names.because(packet, self._policies, world),
            policy=policy,
            rule=rule,
        )
        self.ring.add(record)
        return record

    # -- connections ---------------------------------------------------------------------------

    async def _take(self, ways: Iterable[Passed], now: float) -> None:
        places = PortPlaces(self._agents, self._ports())
        located: dict[MegaflowWay, Located | None] = {}
        to_services: dict[_Source, _ToService] = {}
        begun: dict[_Key, list[tuple[Located, Passed]]] = {}
        for turn, passed in enumerate(ways):
            if turn % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
            way = passed.way
            place = self._located.get(way) or places.locate(way)
            located[way] = place
            if place is None:
                continue
            bridge, vrf, source, destination = place
            if passed.entered:
                world = self._agents[bridge].world
                service = self._services[bridge].key(world, vrf, destination[0])
                if service:
                    to_services[bridge, vrf, way.protocol, source] = _ToService(
                        service, destination, place, passed
                    )
                    continue
            self._pass(place, passed, begun, now)
        self._located = located
        for key, parts in begun.items():
            self._begin(key, parts, to_services, places, now)
        # what was sent to a service and has gone to no provider that is seen here
        alone: dict[_Key, list[tuple[Located, Passed]]] = {}
        for source_key, sent in to_services.items():
            served = self._by_service.get(source_key)
            if served is None or served.seen != self._looks:
                self._pass(sent.located, sent.passed, alone, now)
        for key, parts in alone.items():
            self._begin(key, parts, {}, places, now)

    def _pass(
        self,
        place: Located,
        passed: Passed,
        begun: dict[_Key, list[tuple[Located, Passed]]],
        now: float,
    ) -> None:
        """Count what passed for its connection, or put it to those that have begun."""
        first, second = sorted((place.source, place.destination))
        key = (place.bridge, place.vrf, passed.way.protocol, first, second)
        known = self._open.get(key)
        if known is None:
            begun.setdefault(key, []).append((place, passed))
        else:
            known.seen = self._looks
            known.add(place.source, passed, now)

    def _begin(
        self,
        key: _Key,
        parts: list[tuple[Located, Passed]],
        to_services: Mapping[_Source, _ToService],
        places: PortPlaces,
        now: float,
    ) -> None:
        bridge, vrf, protocol, *ends = key
        asked = [(bridge, vrf, protocol, end) for end in ends]
        via = next((one for one in asked if one in to_services), None)
        source = _source(ends) if via is None else via[3]
        destination = ends[1] if source == ends[0] else ends[0]
        found = places.endpoint(bridge, vrf, source[0])
        connection = _Connection(source, None, via, self._looks)
        if found is None or not found.elsewhere:
            far = places.endpoint(bridge, vrf, destination[0])
            service = to_services[via] if via is not None else None
            number = self.ring.next()
            connection.record = FlowRecord(
                number=number,
                changed=number,
                first=now,
                last=now - min(passed.idle for _, passed in parts),
                verdict=FORWARDED,
                protocol=protocol_name(protocol),
                source=End(*source, self._names(found.key if found is not None else None)),
                destination=End(*destination, self._names(far.key if far is not None else None)),
                service=service.key if service is not None else "",
                service_address=service.address[0] if service is not None else "",
                service_port=service.address[1] if service is not None else 0,
            )
            connection.record.first = min(now, connection.record.last)
            self.ring.add(connection.record)
        for place, passed in parts:
            connection.add(place.source, passed, now)
        self._open[key] = connection
        if via is not None:
            self._by_service[via] = connection

    def _end(self, now: float) -> None:
        """Take note of what the datapath does not have any more, and of drops that have ceased."""
        for key, connection in list(self._open.items()):
            if connection.seen != self._looks:
                del self._open[key]
                if connection.service is not None:
                    self._by_service.pop(connection.service, None)
                if connection.record is not None:
                    self.ring.end(connection.record)
        for drop, record in list(self._drops.items()):
            if record.last < now - RESTING:
                del self._drops[drop]
                self.ring.end(record)
        self.ring.expire(now)

    def _names(self, key: EndpointKey | None) -> EndNames:
        row = self._row(key) if key is not None else None
        return end_names.of_endpoint(row) if row is not None else NAMELESS


def _read(
    dump: str,
) -> tuple[Mapping[MegaflowWay, Mapping[str, Count]], Mapping[str, Reporting]]:
    return megaflows.ways(dump), megaflows.reports(dump)


def _reason_of(packet: DroppedPacket) -> str:
    return end_names.reason(packet.owner, packet.table, refused=packet.refused)


def _source(ends: list[Place]) -> Place:
    """Return the end that began, as far as can be told: that of the greater port.

    Of equal ports, and without any, it is the smaller address.
    """
    first, second = ends
    if first[1] != second[1]:
        return max(ends, key=lambda end: end[1])
    return min(ends, key=lambda end: ip_address(end[0]).packed)
