"""Protocols behind a guard of their listener's connections, plain or TLS.

In comes the factory of a listener's protocols; out comes one to be given to the event loop. A
connection is admitted by `core.net.connections` as soon as it is accepted, before the handshake of
TLS: a peer that never finishes it counts as any other, and its time is limited. A listener that
stops leaves no connection behind that was about to be admitted.
"""

# Why not the event loop's own TLS (`ssl=` of create_server): it calls the protocol only when the
# handshake has ended, so that nothing could count, choose or close the connections before.

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ssl import SSLContext
from typing import Any, Final

from core.net.connections import ConnectionGuard, ConnectionLimits
from core.net.keepalive import PROBES, set_keepalive
from core.patience import patient
from core.step_timer import StepTimer
from core.tasks import detached

HANDSHAKE_TIME: Final = patient(10.0)
"""Seconds for the handshake of TLS."""

_NEVER: Final = 86_400.0
"""Seconds for it by the event loop's own timer, which counts those in which the process stood still
and cannot be left out."""

ProtocolFactory = Callable[[], asyncio.Protocol]


def guarded(
    guard: ConnectionGuard,
    factory: ProtocolFactory,
    tls: SSLContext | None = None,
    handshake_time: float = HANDSHAKE_TIME,
) -> ProtocolFactory:
    """Return a factory of the same protocols behind a guard; with `tls`, above TLS.

    It is for a listener without TLS of its own.
    """
    if tls is None:
        return lambda: _Guarded(guard, factory)
    return lambda: _GuardedTls(guard, factory, tls, handshake_time)


async def stop_listening(server: asyncio.AbstractServer, guard: ConnectionGuard) -> None:
    """Close a listener: of what it has accepted, what is not connected yet is ended."""
    if isinstance(server, asyncio.Server):  # uvloop's is none
        # asyncio accepts in one turn of the loop, and makes the transport in the next: a server
        # that is closed between leaves a connection open that nobody knows
        # (https://github.com/python/cpython/issues/109564). So the turns are let pass.
        loop = asyncio.get_running_loop()
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)
    server.close()
    guard.stop()


def _keep_alive(connection: socket.socket | None, idle: int) -> None:
    """Set keepalive on what is a connection of TCP; a unix socket is none."""
    if connection is not None and connection.family in {socket.AF_INET, socket.AF_INET6}:
        with suppress(OSError):  # it has ended
            set_keepalive(connection, idle=idle, interval=max(1, idle // PROBES))


def _idle(limits: ConnectionLimits) -> int:
    """Return after how many seconds a peer of TLS is probed."""
    # The kernel's time for a peer to read is one for probes too (tcp(7)): a connection ends with
    # the first probe without an answer behind it. So all of them are sent by then.
    return max(1, min(limits.keepalive, int(limits.unread) // 2 or limits.keepalive))


class _Guarded(asyncio.Protocol):
    """A protocol behind a guard: made when the connection is admitted, and handed every event."""

    def __init__(self, guard: ConnectionGuard, factory: ProtocolFactory) -> None:
        self._guard = guard
        self._factory = factory
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.BaseTransport | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._guard.admit(transport):
            _keep_alive(transport.get_extra_info("socket"), self._guard.limits.keepalive)
            self._begin(transport)

    def data_received(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        if self._inner is not None and self._transport is not None:
            self._unread = self._guard.expect_reading(self._transport)
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._stop_waiting()
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._inner is not None and self._transport is not None:
            self._guard.release(self._transport)
            self._inner.connection_lost(exc)

    def _begin(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._inner = self._factory()
        self._inner.connection_made(transport)

    def _stop_waiting(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


class _Handshake(asyncio.BaseTransport):
    """Stands for a connection in the handshake of TLS, which has no transport of its own yet."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__({"peername": connection.getpeername()})
        self.socket = connection

    def abort(self) -> None:
        """End the connection; the event loop then finds that the handshake has failed."""
        with suppress(OSError):  # it has ended
            self.socket.shutdown(socket.SHUT_RDWR)


class _GuardedTls(asyncio.Protocol):
    """Takes an accepted connection from the event loop, and gives it back for TLS above it."""

    # Not `start_tls` on the transport: uvloop starts to read when `connection_made` has returned,
    # whatever it did, so that what the peer sends at once would not reach TLS.

    def __init__(
        self,
        guard: ConnectionGuard,
        factory: ProtocolFactory,
        tls: SSLContext,
        handshake_time: float,
    ) -> None:
        self._guard = guard
        self._factory = factory
        self._tls = tls
        self._time = handshake_time

    def connection_made(self, transport: Any) -> None:
        try:
            handshake = _Handshake(transport.get_extra_info("socket").dup())
        except OSError:  # the peer has left already, or there is no room for a file
            transport.abort()
            return
        transport.abort()  # closes the loop's own descriptor; the connection has another one
        if self._guard.admit(handshake):
            self._guard.begin_handshake(handshake)
            detached("TLS handshake", self._shake_hands(handshake))
        else:
            handshake.socket.close()

    async def _shake_hands(self, handshake: _Handshake) -> None:
        unread = round(self._guard.limits.unread * 1000)
        end = partial(self._guard.drop, handshake, "TLS handshake failed")
        timer = StepTimer(self._time, end)
        try:
            handshake.socket.settimeout(0)
            _keep_alive(handshake.socket, _idle(self._guard.limits))
            # TLS tells its protocol of a peer that does not read only at the next write, and there
            # may be none: so the kernel ends such a connection (tcp(7)).
            handshake.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Secured(self._guard, self._factory, handshake),
                handshake.socket,
                ssl=self._tls,
                ssl_handshake_timeout=_NEVER,
            )
        except OSError:  # of the connection and of TLS
            end()
        finally:
            timer.cancel()
            self._guard.release(handshake)


class _Secured(_Guarded):
    """The protocol above TLS: its connection has been admitted before the handshake."""

    def __init__(
        self, guard: ConnectionGuard, factory: ProtocolFactory, handshake: _Handshake
    ) -> None:
        super().__init__(guard, factory)
        self._handshake = handshake

    def connection_made(self, transport: Any) -> None:
        if self._guard.end_handshake(self._handshake, transport):
            self._begin(transport)
        else:
            transport.abort()
