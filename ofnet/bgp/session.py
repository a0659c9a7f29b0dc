"""One BGP session: a connection to the peer, from OPEN to its end.

In come the connection, this host's OPEN and the addresses to announce; out go the peer's UPDATEs,
one by one, to `ofnet.bgp.speaker`. A session lasts until the peer ends it, violates the protocol or
is silent for longer than the hold time; then it raises PeerFailed. Routes are not kept here.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, ip_network
from typing import NoReturn

from core.errors import PeerFailed
from core.tasks import background
from ofnet.bgp import message_reading, messages
from ofnet.bgp.messages import (
    Address,
    Family,
    Keepalive,
    MalformedBgp,
    Message,
    NextHop,
    Notification,
    Open,
    Prefix,
    Refresh,
    Update,
)
from ofnet.bgp.peering import Peering
from ofnet.bgp.timing import SessionTiming


class BgpSession:
    """A session over an open connection. `counts` counts the messages of each kind."""

    def __init__(
        self,
        peering: Peering,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        counts: Counter[str],
        *,
        timing: SessionTiming,
    ) -> None:
        # Announced and wanted addresses are sets, and what is sent is their difference: a pod that
        # comes and goes while the peer reads slowly costs no message, and nothing queues up.
        self._peering = peering
        self._reader = reader
        self._writer = writer
        self._counts = counts
        self._timing = timing
        self._wanted: frozenset[Address] = frozenset()
        self._sent: frozenset[Address] = frozenset()
        self._changed = asyncio.Event()
        self.peer: Open | None = None
        """The peer's OPEN, once it has come."""
        self.families: frozenset[Family] = frozenset()
        """The families both ends speak of, with a next hop of this host."""
        self.hold_time = 0
        self._extended = False
        """Whether IPv4 routes have IPv6 next hops (RFC 8950)."""

    async def handshake(self, own: Open) -> Open:
        """Exchange OPENs and the first KEEPALIVEs; return the peer's OPEN. Raises PeerFailed."""
        try:
            async with asyncio.timeout(self._timing.handshake):
                await self._send("Open", messages.open_message(own))
                peer = await self._read()
                if not isinstance(peer, Open):
                    raise self._unexpected(peer)
                self._extended = own.extended_hops and peer.extended_hops
                common = own.families & peer.families
                self.families = frozenset(one for one in common if self._next_hop(one))
                self._check(peer)
                self.peer, self.hold_time = peer, min(own.hold_time, peer.hold_time)
                await self._send("Keepalive", messages.keepalive())
                confirmed = await self._read()
                if not isinstance(confirmed, Keepalive):
                    raise self._unexpected(confirmed)
        except TimeoutError as exc:
            raise PeerFailed("the peer does not answer") from exc
        except MalformedBgp as exc:
            await self.notify(exc.code, exc.subcode)
            raise
        return peer

    def announce(self, addresses: frozenset[Address]) -> None:
        """Announce these addresses to the peer, and withdraw all others.

        Those of a family that the peer does not speak of are left out.
        """
        self._wanted = addresses
        self._changed.set()

    async def run(self, on_update: Callable[[Update], None]) -> NoReturn:
        """Pass the peer's UPDATEs on; send announcements and KEEPALIVEs. Raises PeerFailed.

        `on_update` raises MalformedBgp for an UPDATE that it does not accept.
        """
        try:
            async with (
                background("BGP keepalives", self._keep_alive()),
                background("BGP routes", self._keep_announcing()),
            ):
                while True:
                    self._handle(await self._next(), on_update)
                    # a full table comes in one burst, whose reads never wait: let other tasks run
                    await asyncio.sleep(0)
        except MalformedBgp as exc:
            await self.notify(exc.code, exc.subcode)
            raise

    def _handle(self, message: Message, on_update: Callable[[Update], None]) -> None:
        match message:
            case Update():
                # what was not agreed on is passed over (RFC 4760 §7), for here it has no way
                on_update(message.announcing(self.families))
            case Refresh():
                self._sent = frozenset()
                self._changed.set()
            case Keepalive():
                return
            case _:
                raise self._unexpected(message)

    async def notify(self, code: int, subcode: int = 0) -> None:
        """Send a NOTIFICATION, which ends the session, if the peer still reads."""
        try:
            async with asyncio.timeout(1.0):
                await self._send("Notification", messages.notification(code, subcode))
        except (PeerFailed, TimeoutError):
            return

    def close(self) -> None:
        """Close the connection without a NOTIFICATION: the peer keeps the routes for a restart."""
        self._writer.close()

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(self.hold_time or None):
                return await self._read()
        except TimeoutError as exc:
            silence = f"the peer was silent for {self.hold_time} s"
            raise MalformedBgp(silence, messages.HOLD_EXPIRED) from exc

    async def _read(self) -> Message:
        four_octets = self.peer is not None and self.peer.four_octets
        try:
            header = await self._reader.readexactly(messages.HEADER)
            body = await self._reader.readexactly(message_reading.body_length(header))
        except asyncio.IncompleteReadError as exc:
            raise PeerFailed("the peer closed the connection") from exc
        except OSError as exc:
            raise PeerFailed(f"the connection is lost: {exc.strerror}") from exc
        message = message_reading.read(header, body, four_octets=four_octets)
        self._counts[f"Received{type(message).__name__}"] += 1
        return message

    async def _send(self, kind: str, *packed: bytes) -> None:
        try:
            self._writer.writelines(packed)
            await self._writer.drain()
        except OSError as exc:
            raise PeerFailed(f"the connection is lost: {exc.strerror}") from exc
        self._counts[f"Sent{kind}"] += len(packed)

    def _check(self, peer: Open) -> None:
        if peer.asn != self._peering.peer_asn:
            what = f"the peer is of AS {peer.asn}, not {self._peering.peer_asn}"
            raise MalformedBgp(what, messages.OPEN_ERROR, messages.BAD_AS)
        if peer.router_id == self._peering.router_id or peer.router_id == IPv4Address(0):
            what = f"the peer calls itself {peer.router_id}"
            raise MalformedBgp(what, messages.OPEN_ERROR, messages.BAD_IDENTIFIER)
        if not self.families:
            what = "the peer has no address family in common with this host"
            raise MalformedBgp(what, messages.OPEN_ERROR, messages.BAD_CAPABILITY)

    def _next_hop(self, family: Family) -> NextHop | None:
        """Return the next hop of this host's pods, None or () if it has none of that family."""
        peering = self._peering
        if family is Family.IPV6 or self._extended:
            return peering.hops6
        return peering.router.ip if peering.router is not None else None

    def _unexpected(self, message: Message) -> PeerFailed:
        if isinstance(message, Notification):
            return PeerEnded(f"the peer ended the session: {message}")
        what = f"{type(message).__name__} at the wrong time"
        return MalformedBgp(what, messages.STATE_ERROR)

    async def _keep_alive(self) -> None:
        while self.hold_time:
            await asyncio.sleep(self.hold_time / self._timing.keepalives)
            await self._send("Keepalive", messages.keepalive())

    async def _keep_announcing(self) -> None:
        """Send announcements and withdrawals as the wanted addresses change."""
        families = sorted(self.families)
        end = [messages.end_of_rib(family) for family in families]
        while True:
            self._changed.clear()
            gone, new = self._sent - self._wanted, self._wanted - self._sent
            self._sent = self._wanted
            updates = [message for one in families for message in self._updates(one, gone, new)]
            await self._send("Update", *updates, *end)
            end = []
            await self._changed.wait()

    def _updates(
        self, family: Family, gone: frozenset[Address], new: frozenset[Address]
    ) -> Iterator[bytes]:
        """Yield the withdrawals and announcements of one family."""
        yield from messages.withdrawals(_hosts(gone, family), family)
        hop = self._next_hop(family)
        if not hop:
            return
        path = [self._peering.asn] if self._peering.external else []
        four_octets = self.peer is not None and self.peer.four_octets
        hosts = _hosts(new, family)
        yield from messages.announcements(hosts, family, hop, path, four_octets=four_octets)


class PeerEnded(PeerFailed):
    """The peer ended the session with a NOTIFICATION: its routes are not valid any more."""


def _hosts(addresses: frozenset[Address], family: Family) -> list[Prefix]:
    of_family = [address for address in addresses if Family.of(address) is family]
    return [ip_network(address) for address in sorted(of_family, key=int)]
