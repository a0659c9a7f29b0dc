"""Limits of a listener's connections: how many in all, how many of one peer, and how long idle.

In come connections, as transports; out goes the decision which of them are closed. A listener over
its limit closes the connection that has waited longest, of the peer that has most: a peer that
opens many connections displaces its own. One that is being answered is never closed for another.
Used by the listeners of both daemons, by `core.net.guarded_protocols`; knows no protocol.
"""

import asyncio
import logging
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

from core.logs import fields
from core.step_timer import StepTimer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of one listener: numbers of connections, and seconds.

    `first_request`: until the first request is complete but for its body, with the handshake of
    TLS; 0 for never. `unread`: for a peer to read what was sent to it, before more is sent; 0 for
    ever. `keepalive`: without a byte from a peer, after which its host is probed
    (`core.net.keepalive`); the connection ends after at most as many seconds again without an
    answer.
    """

    total: int
    per_peer: int
    first_request: float = 0.0
    unread: float = 0.0
    keepalive: int = 45


class _Connection:
    """One connection: its peer, and whether a request of it is being answered."""

    __slots__ = ("busy", "deadline", "peer", "transport")

    def __init__(self, transport: asyncio.BaseTransport, peer: str) -> None:
        self.transport = transport
        self.peer = peer
        self.busy = 0
        self.deadline: StepTimer | None = None


class _Counted:
    """Counts a connection as busy, or as less so, for the length of a body."""

    # A class, not a generator: each request enters it, and that costs a quarter.

    __slots__ = ("_change", "_connection", "_of_peer")

    def __init__(
        self, connection: _Connection, of_peer: dict[_Connection, None], change: int
    ) -> None:
        self._connection = connection
        self._of_peer = of_peer
        self._change = change

    def __enter__(self) -> None:
        connection = self._connection
        if connection.deadline is not None:
            connection.deadline.cancel()
            connection.deadline = None
        connection.busy += self._change

    def __exit__(self, *_: object) -> None:
        connection, of_peer = self._connection, self._of_peer
        connection.busy -= self._change
        # Among the idle, the one that was answered last has waited shortest.
        if of_peer.pop(connection, True) is None:
            of_peer[connection] = None


class ConnectionGuard:
    """Admits the connections of one listener. `counters` counts those it closed, by reason."""

    def __init__(self, listener: str, limits: ConnectionLimits) -> None:
        self.counters: Counter[str] = Counter()
        self._listener = listener
        self.limits = limits
        self._all: dict[asyncio.BaseTransport, _Connection] = {}
        self._peers: dict[str, dict[_Connection, None]] = {}  # each in the order of their arrival
        self._handshakes: set[asyncio.BaseTransport] = set()
        self._stopped = False

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._all)

    def admit(self, transport: asyncio.BaseTransport) -> bool:
        """Take a connection in, or close it and return False; another may be closed instead."""
        if self._stopped:
            _abort(transport)
            return False
        peer = peer_of(transport)
        if len(self._peers.get(peer, ())) >= self.limits.per_peer:
            admitted = self._displace(peer, "too many of one peer")
        elif len(self._all) >= self.limits.total:
            admitted = self._displace(self._largest(), "too many")
        else:
            admitted = True
        if not admitted:
            self._close(transport, peer, "refused")
            return False
        self._add(_Connection(transport, peer))
        return True

    def release(self, transport: asyncio.BaseTransport) -> None:
        """Forget a connection that has ended."""
        self._handshakes.discard(transport)
        connection = self._all.pop(transport, None)
        if connection is None:
            return
        if connection.deadline is not None:
            connection.deadline.cancel()
            connection.deadline = None
        of_peer = self._peers[connection.peer]
        of_peer.pop(connection, None)
        if not of_peer:
            del self._peers[connection.peer]

    def busy(self, transport: asyncio.BaseTransport | None) -> AbstractContextManager[None]:
        """Keep a connection for the length of the body: it has sent a request."""
        return self._counted(transport, 1)

    def waiting(self, transport: asyncio.BaseTransport | None) -> AbstractContextManager[None]:
        """Within `busy`: the rest of the request is waited for, so the connection may be closed."""
        return self._counted(transport, -1)

    def begin_handshake(self, transport: asyncio.BaseTransport) -> None:
        """Note that a connection that was admitted is in the handshake of TLS."""
        self._handshakes.add(transport)

    def end_handshake(
        self, transport: asyncio.BaseTransport, secured: asyncio.BaseTransport
    ) -> bool:
        """Go on with the transport above another one, which is TLS; False if that has ended."""
        self._handshakes.discard(transport)
        connection = self._all.pop(transport, None)
        if connection is None:
            return False
        connection.transport = secured
        self._all[secured] = connection
        return True

    def start(self) -> None:
        """Admit connections, after `stop` too."""
        self._stopped = False

    def stop(self) -> None:
        """Admit no connection any more, and end those in the handshake: the listener stops."""
        self._stopped = True
        for transport in tuple(self._handshakes):
            self._end(transport, "listener stops")

    def end_all(self) -> None:
        """End every connection."""
        for transport in tuple(self._all):
            self.release(transport)
            _abort(transport)

    def drop(self, transport: asyncio.BaseTransport, reason: str) -> None:
        """End a connection and count it, unless it has ended."""
        if transport in self._all:
            self._end(transport, reason)

    def expect_reading(self, transport: asyncio.BaseTransport) -> asyncio.TimerHandle | None:
        """Close a connection whose peer does not read; cancel what is returned if it does."""
        if not self.limits.unread:
            return None
        loop = asyncio.get_running_loop()
        return loop.call_later(self.limits.unread, self._end, transport, "peer does not read")

    def _counted(
        self, transport: asyncio.BaseTransport | None, change: int
    ) -> AbstractContextManager[None]:
        connection = self._all.get(transport) if transport is not None else None
        if connection is None:
            return nullcontext()
        return _Counted(connection, self._peers[connection.peer], change)

    def _add(self, connection: _Connection) -> None:
        self._all[connection.transport] = connection
        self._peers.setdefault(connection.peer, {})[connection] = None
        if self.limits.first_request:
            # The transport is looked up when the time is over: TLS has replaced it by then.
            connection.deadline = StepTimer(
                self.limits.first_request,
                lambda: self._end(connection.transport, "no request in time"),
            )

    def _largest(self) -> str:
        return max(self._peers, key=lambda peer: len(self._peers[peer]))

    def _displace(self, peer: str, reason: str) -> bool:
        """Close the connection of a peer that has waited longest; False if all are answered."""
        idle = next((one for one in self._peers[peer] if one.busy <= 0), None)
        if idle is None:
            return False
        self._end(idle.transport, reason)
        return True

    def _end(self, transport: asyncio.BaseTransport, reason: str) -> None:
        connection = self._all.get(transport)
        self.release(transport)
        self._close(transport, connection.peer if connection else "", reason)

    def _close(self, transport: asyncio.BaseTransport, peer: str, reason: str) -> None:
        _abort(transport)
        self.counters[reason] += 1
        count = self.counters[reason]
        if is_logged(count):
            log.warning(
                "connection closed",
                extra=fields(listener=self._listener, peer=peer, error=reason, count=count),
            )


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the address of a connection's other end; empty for a unix socket."""
    address: Any = transport.get_extra_info("peername")
    return str(address[0]) if isinstance(address, tuple) and address else ""


def _abort(transport: asyncio.BaseTransport) -> None:
    # a cast: uvloop's transports do not inherit from asyncio's, but have the same methods
    cast("asyncio.Transport", transport).abort()


def is_logged(count: int) -> bool:
    """Return whether the event of this number is logged: 1, 2, 4, 8, ... A flood fills no log."""
    return count & (count - 1) == 0
