"""One connection of a switch: handshake, keep-alive, flow writes, dumps and packets.

Bytes come in from the transport and are decoded by `ofnet.channel.wire`; `ofnet.channel.requests`
matches answers to requests. A peer that breaks the protocol, goes silent or does not answer in time
is dropped, and its open requests fail with SwitchUnavailable; `ofnet.channel.workload` knows how
much longer a busy one may take. The session never raises into the event loop.
`ofnet.channel.switch` owns it and decides what is sent.
"""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar, cast

from core.errors import SwitchRefused, SwitchUnavailable
from core.patience import patient
from ofnet.changes import ObjectKind
from ofnet.channel import flow_stats, group_wire, meter_wire, port_wire, release_wire, wire
from ofnet.channel.flow_stats import FlowCount, FlowEntry
from ofnet.channel.requests import MAX_DUMP, Batch, ReadPart, Requests, Writes
from ofnet.channel.workload import Workload
from ofnet.diff import FlowStamp
from ofnet.flows import AnyFlow, cookie_of_kind
from ofnet.openflow.actions import PacketAction
from ofnet.openflow.meters import Meter
from ofnet.translations import Translated

T = TypeVar("T")

MAX_UNSENT: Final = 4 * 1024 * 1024
"""Bytes a switch may leave unread before packets for it are dropped."""

_PASSES: Final = 6
"""Requests that connections be forgotten; each one finds most of what the one before left."""

_CHUNK: Final = 256
"""Flow-mods of a bundle that are written at once."""

_UNREAD: Final = 1024 * 1024
"""Bytes that wait for the switch to read them before the rest of a bundle waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTiming:
    """How long a switch may take that is not at work (`ofnet.channel.workload`), in seconds."""

    handshake: float = patient(5.0)
    echo: float = patient(5.0)
    silence: float = patient(15.0)
    reply: float = patient(20.0)


class SessionObserver(Protocol):
    """Is notified of the events of a session."""

    def refusal(self, transport: asyncio.BaseTransport) -> str:
        """Return why a new connection is dropped before anything is said; "" to accept it."""
        ...

    def on_ready(self, session: "SwitchSession") -> None:
        """Handle the end of the handshake."""

    def on_lost(self, session: "SwitchSession", reason: str) -> None:
        """Handle the end of the connection; no request will be answered any more."""

    def on_packet_in(self, session: "SwitchSession", packet: wire.PacketIn) -> None:
        """Handle a packet that a flow sent to the controller."""

    def on_error(self, session: "SwitchSession", text: str) -> None:
        """Handle an error that answers no open request."""


class SwitchSession(asyncio.Protocol):
    """The protocol object of one connection."""

    def __init__(
        self,
        observer: SessionObserver,
        timing: ChannelTiming,
        workload: Workload,
        *,
        max_dump: int = MAX_DUMP,
    ) -> None:
        self.datapath_id: int | None = None
        self._observer = observer
        self._timing = timing
        self._workload = workload
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._buffer = bytearray()
        self._writable = asyncio.Event()
        self._writable.set()
        self._greeted = False
        self.began = self._check_at = self._loop.time()
        self._received = workload.moment(self.began)
        self._requests = Requests(max_dump=max_dump)
        self._reason = "closed by the switch"

    # -- called by the event loop --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the hello, to a peer that the observer accepts."""
        # a cast: uvloop's transports do not inherit from asyncio's, but have the same methods
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_UNREAD)
        if refusal := self._observer.refusal(transport):
            self.drop(refusal)
            return
        self._send(wire.message(wire.HELLO, self._requests.take_xids()))
        self._check_alive()

    def data_received(self, data: bytes) -> None:
        """Handle every complete message; drop a peer that does not speak OpenFlow 1.3."""
        self._received = self._workload.moment(self._loop.time())
        self._buffer += data
        try:
            for message in wire.frames(self._buffer):
                if self._transport is None or self._transport.is_closing():
                    return
                self._handle(message)
        except wire.MalformedOpenflow as exc:
            self.drop(f"protocol violation: {exc}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail every open request."""
        self._transport = None
        self._writable.set()
        if self._timer is not None:
            self._timer.cancel()
        if exc is not None:
            self._reason = str(exc)
        self._requests.fail_all(self._reason)
        self._observer.on_lost(self, self._reason)

    def pause_writing(self) -> None:
        """Have bundles wait: the switch reads more slowly than it is written to."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let bundles go on."""
        self._writable.set()

    # -- called by `ofnet.channel.switch` ------------------------------------------------------

    @property
    def open(self) -> bool:
        """True while the connection can be written to."""
        return self._transport is not None and not self._transport.is_closing()

    def drop(self, reason: str) -> None:
        """End the connection at once."""
        if self.open and self._transport is not None:
            self._reason = reason
            self._transport.abort()

    # What an acknowledgement proves. A switch answers no flow-mod, only a wrong one, with an error
    # that has the flow-mod's xid. It answers a barrier after it has processed everything before it
    # and sent the errors of that. So once the barrier reply is here, a flow-mod without an error
    # is in the flow table. Without the reply (time-out, lost connection) nothing is known: the
    # session is dropped, and `ofnet.flow_sync` compares after the reconnect.

    async def write_flows(self, add: Sequence[AnyFlow], delete: Sequence[FlowStamp]) -> None:
        """Send flow-mods and a barrier in one write; return when the switch has processed them.

        Not atomic: packets meet every state between two flow-mods, and after an error the rest is
        installed. Raises FlowsRefused, SwitchRefused or SwitchUnavailable.
        """
        writes = Writes(add, delete)
        with self._workload.of(len(writes)), self._requests.batch(len(writes)) as batch:
            mods = b"".join(_mods(writes, batch.first))
            await self._request(mods, wire.BARRIER_REQUEST)
        batch.raise_errors(writes)

    async def write_bundle(self, add: Sequence[AnyFlow], delete: Sequence[FlowStamp]) -> None:
        """Send flow-mods as one atomic bundle; nothing is installed if one of them is refused.

        Raises as `write_flows`.
        """
        # The switch checks a flow-mod when it is added to the bundle, so the barrier before the
        # commit brings every error of that check. Committing regardless would fail as a whole but
        # name a single flow; discarding here names all of them, and `ofnet.flow_sync` needs one
        # further round instead of one for each. A commit can still fail for what only shows on
        # execution, as a full table: then the guilty flow-mod has an error of its own besides the
        # commit's. A bundle that is neither committed nor discarded ends with the connection, or
        # when nothing is added to it for 10 s. Open vSwitch reports that as an error of the request
        # that opened it, and puts what is added afterwards into a new bundle: half of the flows.
        writes = Writes(add, delete)
        bundle = self._requests.take_xids()
        with (
            self._workload.of(len(writes)),
            self._requests.batch(1) as opening,
            self._requests.batch(len(writes)) as batch,
        ):
            try:
                await self._bundle_request(bundle, wire.BUNDLE_OPEN, opening.first)
                await self._send_bundled(bundle, batch, writes)
                await self._request(b"", wire.BARRIER_REQUEST)
                refused = batch.errors or opening.errors
                end = wire.BUNDLE_DISCARD if refused else wire.BUNDLE_COMMIT
                await self._bundle_request(bundle, end, self._requests.take_xids())
            except SwitchRefused:
                batch.raise_errors(writes)
                raise
        batch.raise_errors(writes)
        for text in opening.errors.values():
            raise SwitchRefused(f"switch gave up a bundle: {text}")

    async def refusals(self, flows: Sequence[AnyFlow]) -> dict[AnyFlow, str]:
        """Return which of the flows the switch would refuse, with its reasons; install none.

        Raises SwitchRefused when the switch refuses to be asked, or SwitchUnavailable.
        """
        # Asked of the table of flows itself, in a bundle that is discarded: the answer is right for
        # every version and datapath, and needs no right but that to send flows.
        writes, bundle = Writes(flows), self._requests.take_xids()
        with self._requests.batch(1) as opening, self._requests.batch(len(writes)) as batch:
            await self._bundle_request(bundle, wire.BUNDLE_OPEN, opening.first)
            await self._send_bundled(bundle, batch, writes)
            await self._request(b"", wire.BARRIER_REQUEST)
            await self._bundle_request(bundle, wire.BUNDLE_DISCARD, self._requests.take_xids())
        return {flow: text for i, text in batch.errors.items() for flow in writes.concerned(i)}

    async def set_meters(self, meters: Sequence[Meter]) -> dict[Meter, str]:
        """Add meters, or change those of their numbers; return the refused ones with the reason.

        Raises SwitchUnavailable.
        """
        size = meter_wire.MESSAGES * len(meters)
        with self._requests.batch(size) as batch:
            mods = meter_wire.meters_set(meters, batch.first)
            await self._request(mods, wire.BARRIER_REQUEST)
        # the last message of a meter tells whether it is set
        last = range(meter_wire.MESSAGES - 1, size, meter_wire.MESSAGES)
        return {
            meter: batch.errors[index]
            for meter, index in zip(meters, last, strict=True)
            if index in batch.errors
        }

    async def remove_meters(self, numbers: Collection[int]) -> None:
        """Delete meters. Raises SwitchRefused or SwitchUnavailable."""
        with self._requests.batch(len(numbers)) as batch:
            mods = [
                meter_wire.meter_delete(one, xid) for xid, one in enumerate(numbers, batch.first)
            ]
            await self._request(b"".join(mods), wire.BARRIER_REQUEST)
        batch.raise_errors(Writes())

    async def meters(self) -> list[Meter]:
        """Return every meter of the switch."""
        xid = self._requests.take_xids()
        with self._requests.dump_of(xid, meter_wire.meters) as done:
            self._send(meter_wire.meter_dump(xid))
            return await self._answer(done)

    async def remove_groups(self, numbers: Collection[int]) -> None:
        """Delete groups. Raises SwitchRefused or SwitchUnavailable."""
        with self._requests.batch(len(numbers)) as batch:
            mods = [
                group_wire.group_delete(one, xid) for xid, one in enumerate(numbers, batch.first)
            ]
            await self._request(b"".join(mods), wire.BARRIER_REQUEST)
        batch.raise_errors(Writes())

    async def forget(self, ended: Collection[Translated]) -> None:
        """Have connections forgotten. Raises SwitchRefused or SwitchUnavailable."""
        # Open vSwitch walks its table of connections while it removes some of them, and misses
        # others by that: of 60 connections a first request left 15.
        passes = list(ended) * _PASSES
        with self._requests.batch(len(passes)) as batch:
            mods = [
                group_wire.connection_flush(one, xid) for xid, one in enumerate(passes, batch.first)
            ]
            await self._request(b"".join(mods), wire.BARRIER_REQUEST)
        batch.raise_errors(Writes())

    async def groups(self) -> list[int]:
        """Return the number of every group of the switch."""
        xid = self._requests.take_xids()
        with self._requests.dump_of(xid, group_wire.groups) as done:
            self._send(group_wire.group_dump(xid))
            return await self._answer(done)

    async def dump(self) -> list[FlowStamp]:
        """Return table and cookie of every flow of the switch."""
        return await self._dump(wire.stamps)

    async def flow_count(self) -> int:
        """Return how many flows the switch has."""
        xid = self._requests.take_xids()
        with self._requests.dump_of(xid, wire.flow_counts) as done:
            self._send(wire.table_dump(xid))
            counts = await self._answer(done)
        return sum(counts)

    async def entries(self) -> list[FlowEntry]:
        """Return every flow of services, with its match and counters."""
        return await self._dump(
            flow_stats.entries, cookie=flow_stats.COOKIE, mask=flow_stats.COOKIE_MASK
        )

    async def counts(self, kind: ObjectKind) -> list[FlowCount]:
        """Return the counters of every flow of objects of a kind."""
        return await self._dump(
            flow_stats.counts, cookie=cookie_of_kind(kind), mask=flow_stats.COOKIE_MASK
        )

    async def received_by(self, ofport: int) -> int:
        """Return how many packets have come in by a port. Raises SwitchRefused."""
        xid = self._requests.take_xids()
        with self._requests.dump_of(xid, port_wire.counts) as done:
            self._send(port_wire.count_request(ofport, xid))
            return sum(one.received for one in await self._answer(done))

    async def release(self) -> str:
        """Return the release of the switch's software. Raises SwitchRefused."""
        xid = self._requests.take_xids()
        with self._requests.dump_of(xid, release_wire.releases) as done:
            self._send(release_wire.request(xid))
            found = await self._answer(done)
            return "".join(found)

    def send_packet(self, data: bytes, actions: Sequence[PacketAction], *, in_port: int) -> bool:
        """Send a packet out; False if the switch reads too slowly and the packet is dropped."""
        if not self.open or self._transport is None:
            return False
        # Pods can cause packets faster than a busy switch reads them; unlike flow-mods they may be
        # lost, and must not fill the agent's memory or delay the flow-mods behind them.
        if self._transport.get_write_buffer_size() > MAX_UNSENT:
            return False
        xid = self._requests.take_xids()
        self._send(wire.packet_out(xid, data, actions, in_port=in_port))
        return True

    async def barrier(self) -> None:
        """Return when the switch has processed all that was sent. Raises SwitchUnavailable."""
        await self._request(b"", wire.BARRIER_REQUEST)

    # -- received messages ---------------------------------------------------------------------

    def _handle(self, message: wire.OpenflowMessage) -> None:
        if not self._greeted:
            self._handle_hello(message)
        elif message.version != wire.VERSION:
            raise wire.MalformedOpenflow(f"message of OpenFlow version {message.version}")
        elif self.datapath_id is None:
            self._handle_features(message)
        else:
            self._handle_message(message)

    def _handle_hello(self, message: wire.OpenflowMessage) -> None:
        if message.type != wire.HELLO or message.version < wire.VERSION:
            raise wire.MalformedOpenflow(
                f"message of type {message.type}, version {message.version} instead of a hello"
            )
        self._greeted = True
        self._send(wire.message(wire.FEATURES_REQUEST, self._requests.take_xids()))

    def _handle_features(self, message: wire.OpenflowMessage) -> None:
        if message.type == wire.FEATURES_REPLY:
            self.datapath_id = wire.datapath_id(message.body)
            self._observer.on_ready(self)
            self._send(wire.set_config(self._requests.take_xids()))
        elif message.type == wire.ECHO_REQUEST:
            self._send(wire.message(wire.ECHO_REPLY, message.xid, message.body))
        elif message.type == wire.ERROR:
            raise wire.MalformedOpenflow(f"handshake refused: {wire.error_text(message.body)}")

    def _handle_message(self, message: wire.OpenflowMessage) -> None:
        match message.type:
            case wire.PACKET_IN:
                self._observer.on_packet_in(self, wire.packet_in(message.body))
            case wire.BARRIER_REPLY | wire.EXPERIMENTER:
                self._requests.on_reply(message.xid)
            case wire.MULTIPART_REPLY:
                self._requests.on_dump_part(message.xid, message.body)
            case wire.ECHO_REQUEST:
                self._send(wire.message(wire.ECHO_REPLY, message.xid, message.body))
            case wire.ERROR:
                text = wire.error_text(message.body)
                if not self._requests.on_error(message.xid, text):
                    self._observer.on_error(self, text)
            case _:
                # port status is known from OVSDB; an echo reply has reset the silence already
                return

    # -- sending -------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        if self.open and self._transport is not None:
            self._transport.write(data)

    async def _send_bundled(self, bundle: int, batch: Batch, writes: Writes) -> None:
        # In portions: the switch reads the first while the next is packed, other tasks of the agent
        # run in between, and an echo request or a packet waits behind `_UNREAD` bytes, not behind
        # all of the bundle.
        portion: list[bytes] = []
        for xid, mod in enumerate(_mods(writes, batch.first), batch.first):
            if len(portion) == _CHUNK:
                self._send(b"".join(portion))
                portion.clear()
                await asyncio.sleep(0)
                await self._writable.wait()
                if not self.open:
                    return  # the request that follows raises it
            portion.append(wire.in_bundle(bundle, xid, mod))
        self._send(b"".join(portion))

    async def _bundle_request(self, bundle: int, request: int, xid: int) -> None:
        with self._requests.reply_to(xid) as reply:
            self._send(wire.bundle_control(bundle, xid, request))
            await self._answer(reply)

    async def _request(self, before: bytes, kind: int) -> None:
        xid = self._requests.take_xids()
        with self._requests.reply_to(xid) as reply:
            self._send(before + wire.message(kind, xid))
            await self._answer(reply)

    async def _dump(self, read: ReadPart[T], *, cookie: int = 0, mask: int = 0) -> list[T]:
        # the switch passes over all its flows, also those that do not match
        flows = await self.flow_count()
        xid = self._requests.take_xids()
        with self._workload.of(flows), self._requests.dump_of(xid, read) as done:
            self._send(wire.flow_dump(xid, cookie=cookie, mask=mask))
            return await self._answer(done)

    async def _answer(self, future: asyncio.Future[T]) -> T:
        if not self.open:
            raise SwitchUnavailable("the switch is not connected")
        asked = self._workload.moment(self._loop.time())
        while not future.done():
            deadline = self._workload.deadline(asked, self._timing.reply)
            left = deadline - self._loop.time()
            if left <= 0:
                # The switch may or may not have done it. The only way to know is to compare, and
                # every new connection starts with that.
                self.drop("no answer in time")
                limit = deadline - asked.time
                raise SwitchUnavailable(f"the switch did not answer within {limit:.3g} s")
            # other bridges may have given the switch work meanwhile, then the wait goes on
            await asyncio.wait([future], timeout=left)
        return future.result()

    # -- keep-alive ----------------------------------------------------------------------------

    def _check_alive(self) -> None:
        now = self._loop.time()
        pause = min(self._timing.handshake, self._timing.echo) / 2
        # while the agent itself is busy, an answer may wait unread: that is no silence
        heard = min(now, self._received.time + max(0.0, now - self._check_at))
        self._received = self._received._replace(time=heard)
        self._check_at = now + pause
        if self.datapath_id is None and now - self.began >= self._timing.handshake:
            self.drop("handshake not completed in time")
        elif now >= self._workload.deadline(self._received, self._timing.silence):
            self.drop(f"silent for {now - self._received.time:.3g} s")
        else:
            if self._greeted and now - self._received.time >= self._timing.echo:
                self._send(wire.message(wire.ECHO_REQUEST, self._requests.take_xids()))
            self._timer = self._loop.call_later(pause, self._check_alive)


def _mods(writes: Writes, first: int) -> Iterator[bytes]:
    # a flow needs its group, so groups come first
    xid = first
    for group in writes.groups:
        yield group_wire.group_add(group, xid)
        xid += 1
    for flow in writes.add:
        yield wire.flow_add(flow, xid)
        xid += 1
    for stamp in writes.delete:
        yield wire.flow_delete(stamp, xid)
        xid += 1
