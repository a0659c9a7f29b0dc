"""Which connections a listener over its limits closes."""

import asyncio
import logging
import time
from typing import Any

import pytest

from core.net.connections import ConnectionGuard, ConnectionLimits
from core.net.guarded_protocols import guarded
from tests.bed.waiting import eventually_async


class Transport(asyncio.Transport):
    """A connection of a peer, which only knows whether it was ended."""

    def __init__(self, peer: str) -> None:
        super().__init__({"peername": (peer, 1) if peer else ""})
        self.ended = False

    def abort(self) -> None:
        self.ended = True

    async def has_ended(self) -> bool:
        return self.ended


class Recorded(asyncio.Protocol):
    """A protocol that notes its events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:  # noqa: ARG002 - asyncio's
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.events.append(data.decode())

    def eof_received(self) -> None:
        self.events.append("eof")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        self.events.append("lost")


def guard(**limits: Any) -> ConnectionGuard:
    return ConnectionGuard("test", ConnectionLimits(**{"total": 10, "per_peer": 10, **limits}))


def admitted(guard: ConnectionGuard, *peers: str) -> list[Transport]:
    transports = [Transport(peer) for peer in peers]
    assert all(guard.admit(transport) for transport in transports)
    return transports


def ended(transports: list[Transport]) -> list[int]:
    return [place for place, transport in enumerate(transports) if transport.ended]


def test_a_peer_over_its_limit_loses_its_oldest_connection() -> None:
    connections = admitted(guard(per_peer=2), "a", "b", "a", "b", "a")
    assert ended(connections) == [0]


def test_over_the_total_limit_the_peer_with_most_connections_loses_one() -> None:
    connections = admitted(guard(total=4), "a", "b", "b", "b", "c")
    assert ended(connections) == [1]


def test_a_connection_that_is_being_answered_is_kept() -> None:
    limited = guard(per_peer=2)
    first, second = admitted(limited, "a", "a")
    with limited.busy(first):
        (third,) = admitted(limited, "a")
        assert ended([first, second, third]) == [1]
        with limited.busy(third):
            fourth = Transport("a")
            assert not limited.admit(fourth)
            assert fourth.ended
            with limited.waiting(third):
                admitted(limited, "a")
                assert ended([first, third]) == [1]
    assert len(limited) == 2


def test_the_one_that_was_answered_last_has_waited_shortest() -> None:
    limited = guard(per_peer=2)
    first, second = admitted(limited, "a", "a")
    with limited.busy(first):
        pass
    admitted(limited, "a")
    assert ended([first, second]) == [1]


def test_an_ended_connection_counts_no_more() -> None:
    limited = guard(per_peer=1)
    (first,) = admitted(limited, "a")
    limited.release(first)
    limited.release(first)
    (second,) = admitted(limited, "a")
    assert ended([first, second]) == []


def test_unix_sockets_are_one_peer() -> None:
    limited = guard(per_peer=2)
    assert ended(admitted(limited, "", "", "")) == [0]


async def test_who_sends_no_request_is_let_go() -> None:
    limited = guard(first_request=0.01)
    silent, asking, gone = admitted(limited, "a", "a", "a")
    limited.release(gone)
    with limited.busy(asking):
        pass
    await eventually_async(silent.has_ended, "it is let go")
    await asyncio.sleep(0.02)  # longer than the others would have had
    assert ended([silent, asking, gone]) == [0]
    assert limited.counters == {"no request in time": 1}


async def test_a_request_that_waits_while_this_process_stands_still_is_answered() -> None:
    limited = guard(first_request=0.1)
    (asking,) = admitted(limited, "a")
    await asyncio.sleep(0)
    time.sleep(0.15)  # noqa: ASYNC251 - the loop stands still
    for _ in range(3):  # the turns in which the request is read and comes to who answers it
        await asyncio.sleep(0)
    with limited.busy(asking):
        await asyncio.sleep(0.15)
    assert ended([asking]) == []


async def test_who_does_not_read_is_let_go() -> None:
    limited = guard(unread=0.01)
    protocols = [guarded(limited, Recorded)() for _ in range(3)]
    reading, stuck, gone = transports = [Transport("a") for _ in range(3)]
    for protocol, transport in zip(protocols, transports, strict=True):
        protocol.connection_made(transport)
        protocol.pause_writing()
    protocols[0].resume_writing()
    protocols[2].connection_lost(None)
    await eventually_async(stuck.has_ended, "it is let go")
    await asyncio.sleep(0.02)
    assert not reading.ended
    assert not gone.ended


async def test_a_guarded_protocol_gets_every_event() -> None:
    inner = Recorded()
    protocol = guarded(guard(), lambda: inner)()
    protocol.connection_made(Transport("a"))
    protocol.data_received(b"data")
    protocol.eof_received()
    protocol.pause_writing()
    protocol.resume_writing()
    protocol.connection_lost(None)
    assert inner.events == ["made", "data", "eof", "pause", "resume", "lost"]


async def test_a_refused_connection_has_no_protocol() -> None:
    limited = guard(total=1, per_peer=1)
    (kept,) = admitted(limited, "a")
    made: list[Recorded] = []

    def factory() -> Recorded:
        made.append(Recorded())
        return made[-1]

    with limited.busy(kept):
        protocol = guarded(limited, factory)()
        refused = Transport("a")
        protocol.connection_made(refused)
        protocol.data_received(b"data")
        protocol.eof_received()
        protocol.connection_lost(None)
    assert refused.ended
    assert made == []
    assert len(limited) == 1


def test_a_flood_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        admitted(guard(per_peer=1), *["a"] * 101)
    assert [record.__dict__["count"] for record in caplog.records] == [1, 2, 4, 8, 16, 32, 64]
