"""One BGP session: a connection to the peer, from OPEN to its end.

In come the connection, who we are and the addresses to tell of; out go the peer's updates, one by
one, for `ofnet.bgp.speaker` to act upon. A session lives until the peer ends it, breaks the rules
or is silent for longer than its hold time; then it raises PeerFailed. Nothing here knows a route.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network
from typing import Final, NoReturn

from core.errors import PeerFailed
from core.tasks import background
from ofnet.bgp import messages, reading
from ofnet.bgp.messages import (
    Keepalive,
    MalformedBgp,
    Message,
    Notification,
    Open,
    Refresh,
    Update,
)
from ofnet.bgp.peering import Peering

HANDSHAKE: Final = 30.0
"""Seconds that the beginning of a session may take."""

SIGNS: Final = 3
"""How often we show within the hold time that we live."""


class BgpSession:
    """A session over a connection that is there. `counts` has the messages of each kind."""

    def __init__(
        self,
        peering: Peering,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        counts: Counter[str],
    ) -> None:
        self._peering = peering
        self._reader = reader
        self._writer = writer
        self._counts = counts
        self._wanted: frozenset[IPv4Address] = frozenset()
        self._told: frozenset[IPv4Address] = frozenset()
        self._news = asyncio.Event()
        self.peer: Open | None = None
        """What the peer said of itself, once it has."""
        self.hold_time = 0

    async def begin(self, own: Open) -> Open:
        """Exchange who we are and return what the peer said. Raises PeerFailed."""
        try:
            async with asyncio.timeout(HANDSHAKE):
                await self._send("Open", messages.open_message(own))
                peer = await self._read()
                if not isinstance(peer, Open):
                    raise self._unexpected(peer)
                self._check(peer)
                self.peer, self.hold_time = peer, min(own.hold_time, peer.hold_time)
                await self._send("Keepalive", messages.keepalive())
                confirmed = await self._read()
                if not isinstance(confirmed, Keepalive):
                    raise self._unexpected(confirmed)
        except TimeoutError as exc:
            raise PeerFailed("the peer does not answer") from exc
        except MalformedBgp as exc:
            await self.end(exc.code, exc.subcode)
            raise
        return peer

    def tell(self, addresses: frozenset[IPv4Address]) -> None:
        """Have the peer know these addresses, and no others."""
        self._wanted = addresses
        self._news.set()

    async def follow(self, learn: Callable[[Update], None]) -> NoReturn:
        """Pass the peer's updates on; tell it of addresses and that we live. Raises PeerFailed.

        What `learn` cannot accept it raises as Malformed.
        """
        try:
            async with (
                background("BGP keepalives", self._keep_alive()),
                background("BGP routes", self._keep_telling()),
            ):
                while True:
                    self._take(await self._next(), learn)
                    await asyncio.sleep(0)  # others' turn, for what is read already is not awaited
        except MalformedBgp as exc:
            await self.end(exc.code, exc.subcode)
            raise

    def _take(self, message: Message, learn: Callable[[Update], None]) -> None:
        match message:
            case Update():
                learn(message)
            case Refresh():
                self._told = frozenset()
                self._news.set()
            case Keepalive():
                return
            case _:
                raise self._unexpected(message)

    async def end(self, code: int, subcode: int = 0) -> None:
        """Tell the peer that the session is over, if it still listens."""
        try:
            async with asyncio.timeout(1.0):
                await self._send("Notification", messages.notification(code, subcode))
        except (PeerFailed, TimeoutError):
            return

    def close(self) -> None:
        """Let the connection go without a word."""
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
            body = await self._reader.readexactly(reading.body_length(header))
        except asyncio.IncompleteReadError as exc:
            raise PeerFailed("the peer hung up") from exc
        except OSError as exc:
            raise PeerFailed(f"the connection is lost: {exc.strerror}") from exc
        message = reading.read(header, body, four_octets=four_octets)
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
        if peer.router_id == self._peering.router.ip or peer.router_id == IPv4Address(0):
            what = f"the peer calls itself {peer.router_id}"
            raise MalformedBgp(what, messages.OPEN_ERROR, messages.BAD_IDENTIFIER)

    def _unexpected(self, message: Message) -> PeerFailed:
        if isinstance(message, Notification):
            return PeerEnded(f"the peer ended the session: {message}")
        what = f"{type(message).__name__} at the wrong time"
        return MalformedBgp(what, messages.STATE_ERROR)

    async def _keep_alive(self) -> None:
        while self.hold_time:
            await asyncio.sleep(self.hold_time / SIGNS)
            await self._send("Keepalive", messages.keepalive())

    async def _keep_telling(self) -> None:
        """Tell the peer of addresses that are to be known to it, and of those no more."""
        end = [messages.end_of_routes()]
        while True:
            self._news.clear()
            gone, new = self._told - self._wanted, self._wanted - self._told
            self._told = self._wanted
            updates = [*messages.withdrawals(_hosts(gone)), *self._announcements(_hosts(new))]
            await self._send("Update", *updates, *end)
            end = []
            await self._news.wait()

    def _announcements(self, prefixes: list[IPv4Network]) -> list[bytes]:
        path = [self._peering.asn] if self._peering.external else []
        four_octets = self.peer is not None and self.peer.four_octets
        hop = self._peering.router.ip
        return [*messages.announcements(prefixes, hop, path, four_octets=four_octets)]


class PeerEnded(PeerFailed):
    """The peer said that the session is over: what it told holds no more."""


def _hosts(addresses: frozenset[IPv4Address]) -> list[IPv4Network]:
    return [IPv4Network(address) for address in sorted(addresses)]
