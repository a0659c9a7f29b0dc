"""The OpenFlow endpoint of one bridge: listens, and uses the newest connection of the switch.

`apply` and `dump` return when the switch has answered, or raise within a limit; `ofnet.agent`
decides what to send. Only this module and `ofnet.channel.session` talk to a switch.
"""

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, Protocol

from core.errors import SwitchRefused, SwitchUnavailable
from core.logs import fields
from core.net.unix_socket import peer_uid
from ofnet.channel import wire
from ofnet.channel.requests import FlowsRefused
from ofnet.channel.session import ChannelTiming, SwitchSession
from ofnet.channel.workload import Workload
from ofnet.diff import FlowStamp, additions_in_order, deletions_in_order, is_whole
from ofnet.flows import AnyFlow
from ofnet.openflow.actions import PacketAction
from ofnet.openflow.meters import Meter

log = logging.getLogger(__name__)

SMALL: Final = 64
"""Up to so many flow-mods are sent one by one; more of them are sent as a bundle."""

# A bundle is atomic but needs three round trips (open, fill with barrier, commit), plain flow-mods
# need one. A pod's own flows are a few, and its start waits for them. Plain flow-mods expose the
# states in between to packets; `ofnet.diff` orders them so that each of these states is safe. A
# connect or a change of policy sends thousands: there the switch must show all of them or none, as
# with the few changes that `ofnet.diff.is_whole` names.

MAX_HANDSHAKES: Final = 8
"""Connections that may be without a completed handshake at the same time.

A port is open to every process that reaches it, so idle connections must not add up.
"""


class SwitchObserver(Protocol):
    """Is notified of the events of a bridge."""

    def on_connected(self) -> None:
        """Handle a new connection; which flows the switch has is unknown."""

    def on_disconnected(self) -> None:
        """Handle the loss of the switch."""

    def on_packet_in(self, packet: wire.PacketIn) -> None:
        """Handle a packet that a flow sent to the controller."""

    def on_error(self, text: str) -> None:
        """Handle an error that answers no open request."""


class Switch:
    """The OpenFlow endpoint of a bridge. `counters` counts sessions, flow-mods and packets.

    `target` is the address as Open vSwitch's controllers name it. `datapath_id`, if given, is that
    of the only switch that is accepted. `users`, for a unix socket, are the ids of the only users
    whose processes may connect. `workload` is that of the switch's process: its bridges share it.
    """

    def __init__(
        self,
        bridge: str,
        *,
        target: str = "",
        datapath_id: int | None = None,
        users: Collection[int] | None = None,
        timing: ChannelTiming | None = None,
        workload: Workload | None = None,
    ) -> None:
        self.counters: Counter[str] = Counter()
        self.target = target
        self._bridge = bridge
        self._users = users
        self._expected = datapath_id
        self._timing = timing or ChannelTiming()
        self._workload = workload or Workload()
        self._server: asyncio.Server | None = None
        self._observer: SwitchObserver | None = None
        self._session: SwitchSession | None = None
        self._handshakes: set[SwitchSession] = set()

    def attach(self, observer: SwitchObserver) -> None:
        """Notify `observer` of all events from now on."""
        self._observer = observer

    async def start(self, listening: socket.socket) -> None:
        """Listen on a bound socket, TCP or unix. Raises SwitchUnavailable."""
        loop = asyncio.get_running_loop()
        try:
            if listening.family == socket.AF_UNIX:
                self._server = await loop.create_unix_server(self._accept, sock=listening)
            else:
                self._server = await loop.create_server(self._accept, sock=listening)
        except OSError as exc:
            raise SwitchUnavailable(
                f"cannot listen for the switch at {self.target}: {exc}"
            ) from exc

    async def close(self) -> None:
        """End all connections; the flows stay in the switch."""
        if self._server is not None:
            self._server.close()
        for session in (*self._handshakes, *([self._session] if self._session else [])):
            session.drop("agent stops")
        if self._server is not None:
            await self._server.wait_closed()

    @property
    def port(self) -> int:
        """The TCP port listened on, also when it was given as 0."""
        if self._server is None:
            raise SwitchUnavailable("OpenFlow listener not started")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def connected(self) -> bool:
        """True while a switch is connected and its handshake complete."""
        return self._session is not None

    @property
    def session(self) -> SwitchSession:
        """The connection of the switch, for requests. Raises SwitchUnavailable if there is none."""
        if self._session is None:
            raise SwitchUnavailable(f"no switch is connected for bridge {self._bridge}")
        return self._session

    async def apply(self, add: Sequence[AnyFlow], delete: Sequence[FlowStamp]) -> None:
        """Add, with the groups and meters of the flows, then delete; return when all is processed.

        Additions come first, so that a replaced flow leaves no gap for packets.

        Raises FlowsRefused (then no flow of a large number is installed), SwitchRefused or
        SwitchUnavailable.
        """
        session = self.session
        if not add and not delete:
            return
        self.counters["flow_mods"] += len(add) + len(delete)
        await self._set_meters(session, add)
        if len(add) + len(delete) <= SMALL and not is_whole(add, delete):
            await session.write_flows(additions_in_order(add), deletions_in_order(delete))
        else:
            await session.write_bundle(add, delete)

    async def refusals(self, flows: Sequence[AnyFlow]) -> dict[AnyFlow, str]:
        """Return which of the flows the switch would refuse, with its reasons; install none.

        Raises SwitchRefused or SwitchUnavailable.
        """
        session = self.session
        try:
            await self._set_meters(session, flows)
        except FlowsRefused as exc:
            unmetered = dict(exc.flows)
            left = [flow for flow in flows if flow not in unmetered]
            return unmetered | await session.refusals(left)
        return await session.refusals(flows)

    async def set_meters(self, meters: Sequence[Meter]) -> None:
        """Change meters. Raises SwitchRefused or SwitchUnavailable."""
        for meter, reason in (await self.session.set_meters(meters)).items():
            raise SwitchRefused(f"switch refused {meter}: {reason}")

    def send_packet(self, data: bytes, actions: Sequence[PacketAction], *, in_port: int) -> bool:
        """Send a packet out; one that cannot be sent now is dropped and counted, and False."""
        session = self._session
        sent = session is not None and session.send_packet(data, actions, in_port=in_port)
        self.counters["packet_out" if sent else "packet_out_dropped"] += 1
        return sent

    def refusal(self, transport: asyncio.BaseTransport) -> str:
        """Refuse a process of another user than the switch's."""
        # Before the handshake: a datapath id is no secret, every local user can read it.
        if self._users is None or (uid := peer_uid(transport)) in self._users:
            return ""
        return f"not the switch's user: {'unknown' if uid is None else uid}"

    def on_ready(self, session: SwitchSession) -> None:
        """Let the newest connection replace the one before."""
        # A switch that restarted, or whose network path broke, dials again while the old connection
        # still looks alive here for up to the silence limit. The newest one is the live one.
        self._handshakes.discard(session)
        if self._expected is not None and session.datapath_id != self._expected:
            session.drop(f"not this bridge: datapath {session.datapath_id:#x}")
            return
        old, self._session = self._session, session
        if old is not None:
            old.drop("replaced by a new connection")
        self.counters["sessions"] += 1
        log.info("switch connected", extra=fields(bridge=self._bridge))
        if self._observer is not None:
            self._observer.on_connected()

    def on_lost(self, session: SwitchSession, reason: str) -> None:
        """Remove a connection; notify the observer if it was the current one."""
        self._handshakes.discard(session)
        self.counters[f"lost: {reason.partition(':')[0]}"] += 1
        log.info("switch disconnected", extra=fields(bridge=self._bridge, error=reason))
        if session is self._session:
            self._session = None
            if self._observer is not None:
                self._observer.on_disconnected()

    def on_packet_in(self, session: SwitchSession, packet: wire.PacketIn) -> None:
        """Pass a packet on."""
        self.counters["packet_in"] += 1
        if session is self._session and self._observer is not None:
            self._observer.on_packet_in(packet)

    def on_error(self, session: SwitchSession, text: str) -> None:
        """Count and pass on an error that answers no request."""
        self.counters["errors"] += 1
        log.warning("switch sent an error", extra=fields(bridge=self._bridge, error=text))
        if session is self._session and self._observer is not None:
            self._observer.on_error(text)

    def _accept(self) -> SwitchSession:
        session = SwitchSession(self, self._timing, self._workload)
        if len(self._handshakes) >= MAX_HANDSHAKES:
            oldest = min(self._handshakes, key=lambda other: other.began)
            oldest.drop("too many connections without a handshake")
        self._handshakes.add(session)
        return session

    async def _set_meters(self, session: SwitchSession, flows: Sequence[AnyFlow]) -> None:
        # Open vSwitch takes no meters in bundles, so they are set before the flows that use them.
        # Few flows have any, so the others must cost next to nothing.
        used = (meter for flow in flows for meter in flow.meters)
        meters = tuple({meter.id: meter for meter in used}.values())
        refused = await session.set_meters(meters) if meters else {}
        if refused:
            raise FlowsRefused([(f, refused[m]) for f in flows for m in f.meters if m in refused])
