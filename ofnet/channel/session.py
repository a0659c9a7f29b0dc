"""One connection of a switch: handshake, keep-alive, and requests matched to answers.

Bytes come in from the transport and are taken apart by `ofnet.channel.wire`; what they mean for the
flows is `ofnet.channel.switch`'s business. A peer that breaks the protocol, goes silent or does not
answer in time is dropped, and whoever waited for it gets SwitchUnavailable. The session never
raises into the event loop.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from core.errors import SwitchRefused, SwitchUnavailable
from ofnet.channel import flow_stats, wire
from ofnet.channel.flow_stats import FlowEntry
from ofnet.diff import FlowStamp
from ofnet.flows import Flow
from ofnet.openflow.actions import PacketAction

T = TypeVar("T")

MAX_DUMP: Final = 2_000_000
"""Flows after which a dump is taken for nonsense."""

MAX_UNSENT: Final = 4 * 1024 * 1024
"""Bytes a switch may leave unread before packets for it are thrown away."""

_CHUNK: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long a switch may take, in seconds."""

    handshake: float = 5.0
    echo: float = 5.0
    silence: float = 15.0
    reply: float = 20.0


class FlowsRefused(SwitchRefused):
    """The switch refused flows; `flows` says which, and why. Of the others nothing is certain."""

    def __init__(self, flows: Sequence[tuple[Flow, str]]) -> None:
        flow, reason = flows[0]
        super().__init__(f"switch refused {len(flows)} flow(s), first: {flow}: {reason}")
        self.flows = tuple(flows)


class Observer(Protocol):
    """Who is told what happens on a session."""

    def ready(self, session: "SwitchSession") -> None:
        """Hear that the handshake is complete."""

    def lost(self, session: "SwitchSession", reason: str) -> None:
        """Hear that the connection is gone; nothing will be answered any more."""

    def packet_in(self, session: "SwitchSession", packet: wire.PacketIn) -> None:
        """Take a packet that a flow sent up."""

    def complaint(self, session: "SwitchSession", text: str) -> None:
        """Hear of an error nobody waits for."""


@dataclass(slots=True)
class _Batch:
    first: int
    size: int
    errors: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Dump(Generic[T]):
    done: asyncio.Future[list[T]]
    read: Callable[[bytes], tuple[list[T], bool]]
    found: list[T] = field(default_factory=list)

    def add(self, part: bytes) -> None:
        """Take a part of the answer; the last one completes it. Raises Malformed."""
        found, more = self.read(part)
        self.found += found
        if len(self.found) > MAX_DUMP:
            raise wire.MalformedOpenflow(f"dump of more than {MAX_DUMP} flows")
        if not more and not self.done.done():
            self.done.set_result(self.found)


class SwitchSession(asyncio.Protocol):
    """The protocol object of one TCP connection."""

    def __init__(self, observer: Observer, timing: Timing) -> None:
        self.datapath_id: int | None = None
        self._observer = observer
        self._timing = timing
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._buffer = bytearray()
        self._greeted = False
        self.began = self._heard = self._loop.time()
        self._next_xid = 1
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._dumps: dict[int, _Dump[Any]] = {}
        self._batches: list[_Batch] = []
        self._reason = "closed by the switch"

    # what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the switch."""
        # a cast: uvloop's transports are asyncio's in all but name
        self._transport = cast("asyncio.Transport", transport)
        self._send(wire.message(wire.HELLO, self._take()))
        self._tick()

    def data_received(self, data: bytes) -> None:
        """Handle every message that is complete; drop a peer that does not speak OpenFlow 1.3."""
        self._heard = self._loop.time()
        self._buffer += data
        try:
            for message in wire.frames(self._buffer):
                if self._transport is None or self._transport.is_closing():
                    return
                self._handle(message)
        except wire.MalformedOpenflow as exc:
            self.drop(f"protocol violation: {exc}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail everything that waits."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if exc is not None:
            self._reason = str(exc)
        gone = SwitchUnavailable(f"connection to the switch lost: {self._reason}")
        for future in self._waiting.values():
            _fail(future, gone)
        for dump in self._dumps.values():
            _fail(dump.done, gone)
        self._waiting.clear()
        self._dumps.clear()
        self._observer.lost(self, self._reason)

    # what the switch door calls

    @property
    def open(self) -> bool:
        """True while the connection can be written to."""
        return self._transport is not None and not self._transport.is_closing()

    def drop(self, reason: str) -> None:
        """End the connection at once."""
        if self.open and self._transport is not None:
            self._reason = reason
            self._transport.abort()

    async def write_flows(self, add: Sequence[Flow], delete: Sequence[FlowStamp]) -> None:
        """Send flow-mods and a barrier in one write; return when the switch has done them."""
        batch = self._batch(len(add) + len(delete))
        mods = b"".join(_mods(add, delete, batch.first))
        try:
            await self._request(mods, wire.BARRIER_REQUEST)
        finally:
            self._batches.remove(batch)
        _raise_refusals(batch, add)

    async def write_bundle(self, add: Sequence[Flow], delete: Sequence[FlowStamp]) -> None:
        """Send flow-mods as one atomic bundle; nothing is committed if one of them is refused."""
        bundle = self._take()
        batch = self._batch(len(add) + len(delete))
        try:
            await self._control(bundle, wire.BUNDLE_OPEN)
            self._send_bundled(bundle, batch, add, delete)
            await self._request(b"", wire.BARRIER_REQUEST)
            if batch.errors:
                await self._control(bundle, wire.BUNDLE_DISCARD)
            else:
                await self._control(bundle, wire.BUNDLE_COMMIT)
        except SwitchRefused:
            # the flow that failed a commit is named by an error of its own
            _raise_refusals(batch, add)
            raise
        finally:
            self._batches.remove(batch)
        _raise_refusals(batch, add)

    async def dump(self) -> list[FlowStamp]:
        """Return table and cookie of every flow of the switch."""
        return await self._collected(wire.stamps)

    async def entries(self) -> list[FlowEntry]:
        """Return every flow of services' clients, with what it does and has counted."""
        return await self._collected(
            flow_stats.entries, cookie=flow_stats.COOKIE, mask=flow_stats.COOKIE_MASK
        )

    async def _collected(
        self, read: Callable[[bytes], tuple[list[T], bool]], *, cookie: int = 0, mask: int = 0
    ) -> list[T]:
        xid = self._take()
        dump = _Dump(self._loop.create_future(), read)
        self._dumps[xid] = dump
        self._send(wire.flow_dump(xid, cookie=cookie, mask=mask))
        try:
            return await self._answer(dump.done)
        finally:
            self._dumps.pop(xid, None)

    def send_packet(self, data: bytes, actions: Sequence[PacketAction], *, in_port: int) -> bool:
        """Send a packet out; False if the switch reads too slowly and the packet is dropped."""
        if not self.open or self._transport is None:
            return False
        if self._transport.get_write_buffer_size() > MAX_UNSENT:
            return False
        self._send(wire.packet_out(self._take(), data, actions, in_port=in_port))
        return True

    # messages

    def _handle(self, message: wire.OpenflowMessage) -> None:
        if not self._greeted:
            self._greet(message)
        elif message.version != wire.VERSION:
            raise wire.MalformedOpenflow(f"message of OpenFlow version {message.version}")
        elif self.datapath_id is None:
            self._introduce(message)
        else:
            self._serve(message)

    def _greet(self, message: wire.OpenflowMessage) -> None:
        if message.type != wire.HELLO or message.version < wire.VERSION:
            raise wire.MalformedOpenflow(
                f"message of type {message.type}, version {message.version} instead of a hello"
            )
        self._greeted = True
        self._send(wire.message(wire.FEATURES_REQUEST, self._take()))

    def _introduce(self, message: wire.OpenflowMessage) -> None:
        if message.type == wire.FEATURES_REPLY:
            self.datapath_id = wire.datapath_id(message.body)
            self._observer.ready(self)
        elif message.type == wire.ECHO_REQUEST:
            self._send(wire.message(wire.ECHO_REPLY, message.xid, message.body))
        elif message.type == wire.ERROR:
            raise wire.MalformedOpenflow(f"handshake refused: {wire.error_text(message.body)}")

    def _serve(self, message: wire.OpenflowMessage) -> None:
        match message.type:
            case wire.PACKET_IN:
                self._observer.packet_in(self, wire.packet_in(message.body))
            case wire.BARRIER_REPLY | wire.EXPERIMENTER:
                self._resolve(message.xid)
            case wire.MULTIPART_REPLY:
                self._collect(message)
            case wire.ECHO_REQUEST:
                self._send(wire.message(wire.ECHO_REPLY, message.xid, message.body))
            case wire.ERROR:
                self._error(message)
            case _:
                # port status, flow removed, echo reply: known from elsewhere or a sign of life
                return

    def _resolve(self, xid: int) -> None:
        future = self._waiting.pop(xid, None)
        if future is not None and not future.done():
            future.set_result(None)

    def _collect(self, message: wire.OpenflowMessage) -> None:
        dump = self._dumps.get(message.xid)
        if dump is not None:
            dump.add(message.body)

    def _error(self, message: wire.OpenflowMessage) -> None:
        text = wire.error_text(message.body)
        refused = SwitchRefused(f"switch refused a request: {text}")
        if (waiting := self._waiting.pop(message.xid, None)) is not None:
            _fail(waiting, refused)
            return
        if (dump := self._dumps.get(message.xid)) is not None:
            _fail(dump.done, refused)
            return
        for batch in self._batches:
            if batch.first <= message.xid < batch.first + batch.size:
                batch.errors[message.xid - batch.first] = text
                return
        self._observer.complaint(self, text)

    # sending

    def _send(self, data: bytes) -> None:
        if self.open and self._transport is not None:
            self._transport.write(data)

    def _take(self, count: int = 1) -> int:
        if self._next_xid + count > wire.MAX_XID:
            self._next_xid = 1
        first = self._next_xid
        self._next_xid += count
        return first

    def _batch(self, size: int) -> _Batch:
        batch = _Batch(self._take(size), size)
        self._batches.append(batch)
        return batch

    def _send_bundled(
        self, bundle: int, batch: _Batch, add: Sequence[Flow], delete: Sequence[FlowStamp]
    ) -> None:
        # in portions, so that the switch reads the first while we pack the next
        portion: list[bytes] = []
        for xid, mod in enumerate(_mods(add, delete, batch.first), batch.first):
            portion.append(wire.in_bundle(bundle, xid, mod))
            if len(portion) == _CHUNK:
                self._send(b"".join(portion))
                portion.clear()
        self._send(b"".join(portion))

    async def _control(self, bundle: int, request: int) -> None:
        xid = self._take()
        await self._await(xid, wire.bundle_control(bundle, xid, request))

    async def _request(self, before: bytes, kind: int) -> None:
        xid = self._take()
        await self._await(xid, before + wire.message(kind, xid))

    async def _await(self, xid: int, data: bytes) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting[xid] = future
        self._send(data)
        try:
            await self._answer(future)
        finally:
            self._waiting.pop(xid, None)

    async def _answer(self, future: asyncio.Future[T]) -> T:
        if not self.open:
            raise SwitchUnavailable("the switch is not connected")
        try:
            async with asyncio.timeout(self._timing.reply):
                return await future
        except TimeoutError as exc:
            self.drop("no answer in time")
            raise SwitchUnavailable(
                f"the switch did not answer within {self._timing.reply:g} s"
            ) from exc

    # keep-alive

    def _tick(self) -> None:
        now = self._loop.time()
        if self.datapath_id is None and now - self.began >= self._timing.handshake:
            self.drop("handshake not completed in time")
        elif now - self._heard >= self._timing.silence:
            self.drop(f"silent for {self._timing.silence:g} s")
        else:
            if self._greeted and now - self._heard >= self._timing.echo:
                self._send(wire.message(wire.ECHO_REQUEST, self._take()))
            pause = min(self._timing.handshake, self._timing.echo) / 2
            self._timer = self._loop.call_later(pause, self._tick)


def _mods(add: Sequence[Flow], delete: Sequence[FlowStamp], first: int) -> Iterator[bytes]:
    for xid, flow in enumerate(add, first):
        yield wire.flow_add(flow, xid)
    for xid, stamp in enumerate(delete, first + len(add)):
        yield wire.flow_delete(stamp, xid)


def _fail(future: asyncio.Future[T], exc: Exception) -> None:
    if not future.done():
        future.set_exception(exc)


def _raise_refusals(batch: _Batch, add: Sequence[Flow]) -> None:
    flows = [(add[index], text) for index, text in batch.errors.items() if index < len(add)]
    if flows:
        raise FlowsRefused(flows)
    for text in batch.errors.values():
        raise SwitchRefused(f"switch refused a deletion: {text}")
