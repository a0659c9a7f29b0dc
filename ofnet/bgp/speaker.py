"""Keeps a BGP session with the peer up, and what the peer told.

In come a peering and the addresses the peer is to know; out come routes, and the news that they are
others. It dials the peer from the host's own address and never listens. A session that ends is
begun again after a pause. A peer that announced restarts has its routes kept for as long as one may
take (RFC 4724); otherwise they go with the session. We announce the same of ourselves: what the
peer knows of our pods stays while an agent is restarted. Next: `netplugin.bgp.host`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from core.errors import PeerFailed
from core.logs import fields
from core.tasks import backoff
from ofnet.bgp.connection import RESTART_TIME, Connect, dial
from ofnet.bgp.messages import (
    CEASE,
    DECONFIGURED,
    HOLD_EXPIRED,
    MalformedBgp,
    Open,
    Restart,
    Update,
)
from ofnet.bgp.peering import Peering
from ofnet.bgp.rib import Rib
from ofnet.bgp.session import BgpSession, PeerEnded

log = logging.getLogger(__name__)

HOLD_TIME: Final = 90
STALE_TIME: Final = 120.0
"""Seconds a peer that is back may take to tell all again."""
UNMARKED: Final = 10.0
"""Seconds after which a peer that never says so is taken to have told all."""
DIAL_TIMEOUT: Final = 10.0
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 10.0
LONGEST_PENANCE: Final = 300.0


class Speaker:
    """One peering. `changed` is called when `routes`, `told_all` or `state` may be others."""

    def __init__(
        self, peering: Peering, changed: Callable[[], None], *, connect: Connect = dial
    ) -> None:
        self.peering = peering
        self.state = "idle"
        """The original's words: idle, active (dialling), opensent, established."""
        self.fault: str | None = None
        """Why there is no session, once one was tried."""
        self.told_all = False
        """True once the peer has told all its routes since this speaker began."""
        self.counts: Counter[str] = Counter()
        self.peer: Open | None = None
        """What the peer said of itself in this session."""
        self.hold_time = 0
        self._rib = Rib(peering)
        self._changed = changed
        self._connect = connect
        self._addresses: frozenset[IPv4Address] = frozenset()
        self._session: BgpSession | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def routes(self) -> Mapping[IPv4Network, IPv4Address]:
        """The prefixes the peer told of, with their next hops."""
        return self._rib.routes

    @property
    def established(self) -> bool:
        """True while there is a session."""
        return self.state == "established"

    @property
    def announced(self) -> frozenset[IPv4Address]:
        """The addresses the peer is to know."""
        return self._addresses

    def announce(self, addresses: frozenset[IPv4Address]) -> None:
        """Have the peer know these addresses, and no others."""
        self._addresses = addresses
        if self._session is not None:
            self._session.tell(addresses)

    async def run(self) -> None:
        """Keep the session up, for ever.

        A peer that breaks the rules in every session, or tells of too many routes, is left alone
        for longer and longer: each of its sessions costs as much as it has routes.
        """
        pauses, penance = _pauses(LONGEST_PAUSE), _pauses(LONGEST_PENANCE)
        while True:
            wait = pauses
            try:
                await self._one_session()
            except PeerFailed as exc:
                if self.established and _broke_rules(exc):
                    wait = penance
                elif self.established:
                    wait = pauses = _pauses(LONGEST_PAUSE)
                    penance = _pauses(LONGEST_PENANCE)
                self._lost(exc)
            await asyncio.sleep(next(wait))

    async def retire(self) -> None:
        """Tell the peer that it is no peer any more: it forgets what it was told."""
        self._disarm()
        if self._session is not None and self.established:
            await self._session.end(CEASE, DECONFIGURED)

    async def _one_session(self) -> None:
        self._show("active")
        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                reader, writer = await self._connect(self.peering)
        except TimeoutError as exc:
            raise PeerFailed("the peer does not answer") from exc
        except OSError as exc:
            raise PeerFailed(f"cannot connect: {exc.strerror or exc}") from exc
        session = BgpSession(self.peering, reader, writer, self.counts)
        try:
            self._show("opensent")
            peer = await session.begin(self._own())
            self._established(session, peer)
            await session.follow(self._learn)
        finally:
            self._session = None
            session.close()

    def _own(self) -> Open:
        restart = Restart(seconds=RESTART_TIME, restarting=not self.told_all, forwarding=True)
        return Open(
            asn=self.peering.asn,
            hold_time=HOLD_TIME,
            router_id=self.peering.router.ip,
            restart=restart,
        )

    def _established(self, session: BgpSession, peer: Open) -> None:
        self.fault, self.peer, self.hold_time = None, peer, session.hold_time
        self.counts["Established"] += 1
        self._session = session
        session.tell(self._addresses)
        if peer.restart is None or not peer.restart.forwarding:
            self._rib.drop_stale()
        self._arm(UNMARKED if peer.restart is None else STALE_TIME, self._all_told)
        log.info("BGP session", extra=fields(peer=self.peering.peer, seconds=self.hold_time))
        self._show("established")

    def _learn(self, update: Update) -> None:
        self._rib.apply(update)
        if update.is_end:
            self._all_told()
        else:
            self._changed()

    def _all_told(self) -> None:
        self._disarm()
        self._rib.drop_stale()
        self.told_all = True
        self._changed()

    def _lost(self, why: PeerFailed) -> None:
        restart = self.peer.restart if self.peer is not None else None
        if self.established:
            self.counts["Flops"] += 1
            if restart is None or not restart.seconds or not _may_restart(why):
                self._forget()
            else:
                self._rib.expect_again()
                self._arm(restart.seconds, self._forget)
        if self.established or self.fault is None:
            log.warning("no BGP session", extra=fields(peer=self.peering.peer, error=why))
        self.fault, self.peer = str(why), None
        self._show("idle")

    def _forget(self) -> None:
        self._disarm()
        self._rib.clear()
        self._changed()

    def _show(self, state: str) -> None:
        self.state = state
        self._changed()

    def _arm(self, seconds: float, then: Callable[[], None]) -> None:
        self._disarm()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _may_restart(why: PeerFailed) -> bool:
    """Tell whether a session that ended like this may be one that goes on after a restart."""
    return not (isinstance(why, PeerEnded) or _broke_rules(why))


def _broke_rules(why: PeerFailed) -> bool:
    """Tell whether a session ended for what the peer said; that it said nothing is no offence."""
    return isinstance(why, MalformedBgp) and why.code != HOLD_EXPIRED


def _pauses(longest: float) -> Iterator[float]:
    return backoff(first=FIRST_PAUSE, limit=longest)
