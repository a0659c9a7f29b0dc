"""What a daemon tells the service manager that started it, and the sockets it was given.

systemd passes an address and a watchdog's interval in the environment (sd_notify(3),
sd_watchdog_enabled(3)), and listening sockets as open files (sd_listen_fds(3)). Without these, as
when started from a shell, nothing is said and no socket is given.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from core.logs import fields

log = logging.getLogger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_ALIVE: Final = "WATCHDOG=1"
_FIRST_FILE: Final = 3
"""The first file descriptor that systemd passes."""


def notify(state: str, environ: Mapping[str, str] = os.environ) -> None:
    """Tell the service manager a state, if there is one."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    target = f"\0{address[1:]}" if address.startswith("@") else address
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sender:
        try:
            sender.sendto(state.encode(), target)
        except OSError as exc:
            # It cannot be told otherwise; where a state must be known, it ends the daemon itself.
            log.warning("sd_notify failed", extra=fields(state=state, error=exc))


def watchdog_interval(environ: Mapping[str, str] = os.environ) -> float | None:
    """Return how often to tell that this process works, in seconds; None for never."""
    limit = environ.get("WATCHDOG_USEC", "")
    if not limit.isdigit() or environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(limit) / 1e6 / 2 or None


async def feed_watchdog(environ: Mapping[str, str] = os.environ) -> None:
    """Tell that the event loop runs, again and again, for ever; never, where nobody listens."""
    # From the loop itself: a thread would go on while the loop hangs, and hide just that.
    interval = watchdog_interval(environ)
    if interval is None:
        await asyncio.Event().wait()
        return
    while True:
        notify(_ALIVE, environ)
        await asyncio.sleep(interval)


def passed_socket(path: Path, environ: Mapping[str, str] = os.environ) -> socket.socket | None:
    """Return the unix socket at a path that the service manager listens on for this process."""
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(os.getpid()) or not count.isdigit():
        return None
    for number in range(_FIRST_FILE, _FIRST_FILE + int(count)):
        # A copy: who gets it may close it, and the passed one stays for those after.
        try:
            found = socket.socket(fileno=os.dup(number))
        except OSError as exc:
            log.warning("passed file is no socket", extra=fields(number=number, error=exc))
            continue
        if found.family == socket.AF_UNIX and found.getsockname() == str(path):
            return found
        found.close()
    return None
