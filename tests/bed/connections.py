"""Connections that a network namespace holds, as its kernel lists them.

Must not know who makes them.
"""

from pathlib import Path
from typing import Final

from tests.bed.netns import Namespace
from tests.bed.waiting import eventually

_TABLES: Final = (Path("/proc/thread-self/net/tcp"), Path("/proc/thread-self/net/tcp6"))
_LISTENING: Final = "0A"


def wait_without(inside: Namespace, port: int) -> None:
    """Wait until the namespace holds no connection of TCP at a port of its own.

    A client that ends a connection by a reset has its port back before the reset arrives. Open
    vSwitch's datapath in user space may let the first packet of the next connection overtake it (a
    packet that misses the flow table leaves before those of its batch that do not), and connection
    tracking then takes the two connections for one and finds the answers of the second invalid.

    Raises TimeoutError.
    """
    eventually(lambda: not inside.call(lambda: _holds(port)), f"no connection at port {port}")


def _holds(port: int) -> bool:
    """Say whether this thread's namespace holds one, by the tables of proc_net_tcp(5)."""
    lines = (line.split() for table in _TABLES for line in table.read_text().splitlines()[1:])
    return any(
        int(local.rpartition(":")[2], 16) == port and state != _LISTENING
        for _, local, _, state, *_ in lines
    )
