"""What is told to a service manager, and which sockets are taken from it."""

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.service_manager import READY, feed_watchdog, notify, passed_socket, watchdog_interval
from core.tasks import background
from tests.bed.waiting import WITHIN


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[tuple[socket.socket, dict[str, str]]]:
    """Listen as systemd does; yield the socket, and the environment that names it."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))
        listening.settimeout(WITHIN)
        yield listening, {"NOTIFY_SOCKET": str(path)}


def test_a_state_is_told(manager: tuple[socket.socket, dict[str, str]]) -> None:
    listening, environ = manager
    notify(READY, environ)
    assert listening.recv(100) == b"READY=1"


def test_an_abstract_address_is_one_too() -> None:
    name = f"contiv-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(WITHIN)
        notify(READY, {"NOTIFY_SOCKET": f"@{name}"})
        assert listening.recv(100) == b"READY=1"


def test_without_a_manager_nothing_is_said_and_a_dead_one_ends_nothing(tmp_path: Path) -> None:
    notify(READY, {})
    notify(READY, {"NOTIFY_SOCKET": str(tmp_path / "gone")})


@pytest.mark.parametrize(
    ("environ", "interval"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 30.0),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
    ],
)
def test_the_watchdog_is_fed_twice_in_its_time(
    environ: dict[str, str], interval: float | None
) -> None:
    assert watchdog_interval(environ) == interval


async def test_the_loop_feeds_the_watchdog(
    manager: tuple[socket.socket, dict[str, str]],
) -> None:
    listening, environ = manager
    async with background("watchdog", feed_watchdog({**environ, "WATCHDOG_USEC": "2000"})):
        for _ in range(3):
            assert await asyncio.to_thread(listening.recv, 100) == b"WATCHDOG=1"


def test_sockets_of_another_process_are_not_taken(tmp_path: Path) -> None:
    assert passed_socket(tmp_path / "x", {"LISTEN_FDS": "1", "LISTEN_PID": "1"}) is None
    assert passed_socket(tmp_path / "x", {}) is None
