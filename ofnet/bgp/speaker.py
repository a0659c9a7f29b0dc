"""Keeps a BGP session with the peer up, and the peer's routes.

In come a peering and the addresses to announce; out come routes, with a callback when they change.
The speaker dials the peer from the host's own address and never listens. A session that ends is
started again after a back-off. `netplugin.bgp.host_bgp` runs it and gives its routes to the World.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from core.errors import PeerFailed
from core.logs import fields
from core.retry import Pace
from ofnet.bgp.connection import RESTART_TIME, Connect, dial
from ofnet.bgp.messages import (
    CEASE,
    DECONFIGURED,
    HOLD_EXPIRED,
    IPV4_ONLY,
    Address,
    Family,
    MalformedBgp,
    Open,
    Prefix,
    Restart,
    Update,
)
from ofnet.bgp.peering import Peering
from ofnet.bgp.rib import MAX_ROUTES, Rib
from ofnet.bgp.session import BgpSession, PeerEnded
from ofnet.bgp.timing import HOLD_TIME, SessionTiming

log = logging.getLogger(__name__)

NO_ANSWER: Final = (
    "the peer does not answer: is it up, and does it ask for a password (--bgp-password-file)?"
)
"""A router drops without a word what is not signed by the password that it asks for (RFC 2385)."""

DEFAULT_TIMING: Final = SessionTiming()


class Speaker:
    """One peering. `on_change` is called when `routes`, `routes_complete` or `state` has changed.

    `pauses` makes the back-off between sessions from its first and its longest pause.
    """

    # Graceful restart (RFC 4724), both ways. A peer that announced restarts keeps its routes here
    # when the session is lost, for as long as it said a restart may take; without the announcement
    # they go with the session. This host announces restarts too, and closes without a NOTIFICATION
    # when the agent stops: the peer keeps sending to the pods, whose flows stay in the switch.
    # `deconfigure` is the opposite: the peering is gone, so the peer must drop the routes at once.
    #
    # Until the peer has sent all routes once (`routes_complete`), a missing route proves nothing,
    # and the routes an earlier agent left on the switch must stay.

    def __init__(
        self,
        peering: Peering,
        on_change: Callable[[], None],
        *,
        connect: Connect = dial,
        timing: SessionTiming | None = None,
        max_routes: int = MAX_ROUTES,
        pauses: Callable[[float, float], Iterator[float]] = lambda *ends: Pace(*ends).pauses(),
    ) -> None:
        self.peering = peering
        self.state = "idle"
        """The original's words: idle, active (dialling), opensent, established."""
        self.fault: str | None = None
        """Why there is no session; None before the first attempt."""
        self.routes_complete = False
        """True once the peer has sent all of its routes since this speaker was made."""
        self.counts: Counter[str] = Counter()
        self.peer: Open | None = None
        """The peer's OPEN of this session."""
        self.hold_time = 0
        self._rib = Rib(peering, max_routes)
        self._on_change = on_change
        self._timing = timing or DEFAULT_TIMING
        self._pauses = pauses
        self._connect = connect
        self._addresses: frozenset[Address] = frozenset()
        self._expected: frozenset[Family] = frozenset()
        """The families of which the peer has not sent all routes in this session."""
        self._session: BgpSession | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def routes(self) -> Mapping[Prefix, Address]:
        """The prefixes received from the peer, with their next hops."""
        return self._rib.routes

    @property
    def established(self) -> bool:
        """True while there is a session."""
        return self.state == "established"

    @property
    def announced(self) -> frozenset[Address]:
        """The addresses announced to the peer: those of the families both ends speak of."""
        spoken = self._session.families if self._session is not None else frozenset()
        return frozenset(one for one in self._addresses if Family.of(one) in spoken)

    def announce(self, addresses: frozenset[Address]) -> None:
        """Announce these addresses to the peer, and withdraw all others."""
        self._addresses = addresses
        if self._session is not None:
            self._session.announce(addresses)

    async def run(self) -> None:
        """Keep the session up, for ever."""
        # Two back-offs. The usual one starts anew after each session that ended for another reason
        # than a violation. A peer that violates the protocol in every session, or announces too
        # many routes, waits on the longer one, which goes on from session to session: each session
        # costs this host work for every route of the peer.
        timing = self._timing
        pauses = self._pauses(timing.first_pause, timing.longest_pause)
        penalty = self._pauses(timing.first_pause, timing.longest_penalty)
        while True:
            wait = pauses
            try:
                await self._one_session()
            except PeerFailed as exc:
                if self.established and _is_violation(exc):
                    wait = penalty
                elif self.established:
                    wait = pauses = self._pauses(timing.first_pause, timing.longest_pause)
                    penalty = self._pauses(timing.first_pause, timing.longest_penalty)
                self._on_session_lost(exc)
            await asyncio.sleep(next(wait))

    async def deconfigure(self) -> None:
        """Notify the peer that the peering is removed, so that it drops the announced routes."""
        self._stop_timer()
        if self._session is not None and self.established:
            await self._session.notify(CEASE, DECONFIGURED)

    async def _one_session(self) -> None:
        self._set_state("active")
        try:
            async with asyncio.timeout(self._timing.dial):
                reader, writer = await self._connect(self.peering)
        except TimeoutError as exc:
            raise PeerFailed(NO_ANSWER) from exc
        except OSError as exc:
            raise PeerFailed(f"cannot connect: {exc.strerror or exc}") from exc
        session = BgpSession(self.peering, reader, writer, self.counts, timing=self._timing)
        try:
            self._set_state("opensent")
            peer = await session.handshake(self._own_open())
            self._on_established(session, peer)
            await session.run(self._on_update)
        finally:
            self._session = None
            session.close()

    def _own_open(self) -> Open:
        families = frozenset(Family) if self.peering.hops6 else IPV4_ONLY
        restart = Restart(
            seconds=RESTART_TIME,
            restarting=not self.routes_complete,
            families=families,
            forwarding=families,
        )
        return Open(
            asn=self.peering.asn,
            hold_time=HOLD_TIME,
            router_id=self.peering.router_id,
            families=families,
            restart=restart,
            # by IPv4 it is not offered: a peer hears what it always did
            extended_hops=self.peering.peer.version == 6,
        )

    def _on_established(self, session: BgpSession, peer: Open) -> None:
        self.fault, self.peer, self.hold_time = None, peer, session.hold_time
        self.counts["Established"] += 1
        self._session = session
        session.announce(self._addresses)
        forwarding = peer.restart.forwarding if peer.restart is not None else frozenset()
        self._rib.drop_stale(frozenset(Family) - (forwarding & session.families))
        self._expected = session.families
        # without graceful restart there is no End-of-RIB marker: a time-out takes its place
        wait = self._timing.end_of_rib if peer.restart is None else self._timing.stale
        self._start_timer(wait, self._on_routes_complete)
        log.info(
            "BGP session established", extra=fields(peer=self.peering.peer, seconds=self.hold_time)
        )
        self._set_state("established")

    def _on_update(self, update: Update) -> None:
        self._rib.apply(update)
        if update.end_of is None:
            self._on_change()
            return
        self._rib.drop_stale({update.end_of})
        self._expected -= {update.end_of}
        if self._expected:
            self._on_change()
        else:
            self._on_routes_complete()

    def _on_routes_complete(self) -> None:
        self._stop_timer()
        self._rib.drop_stale()
        self.routes_complete = True
        self._on_change()

    def _on_session_lost(self, why: PeerFailed) -> None:
        restart = self.peer.restart if self.peer is not None else None
        if self.established:
            self.counts["Flops"] += 1
            if restart is None or not restart.seconds or not _may_restart(why):
                self._clear_routes()
            else:
                self._rib.mark_stale(restart.families)
                self._start_timer(restart.seconds, self._clear_routes)
        if self.established or self.fault is None:
            log.warning("BGP session down", extra=fields(peer=self.peering.peer, error=why))
        self.fault, self.peer = str(why), None
        self._set_state("idle")

    def _clear_routes(self) -> None:
        self._stop_timer()
        self._rib.clear()
        self._on_change()

    def _set_state(self, state: str) -> None:
        self.state = state
        self._on_change()

    def _start_timer(self, seconds: float, then: Callable[[], None]) -> None:
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, then)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _may_restart(why: PeerFailed) -> bool:
    """Return whether a lost session may be a restart of the peer."""
    return not (isinstance(why, PeerEnded) or _is_violation(why))


def _is_violation(why: PeerFailed) -> bool:
    """Return whether the peer violated the protocol; an expired hold time does not count."""
    return isinstance(why, MalformedBgp) and why.code != HOLD_EXPIRED
