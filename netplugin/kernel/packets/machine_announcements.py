"""Hears a virtual machine that begins to run in a pod: qemu announces it by RARP (RFC 903).

In come the links of pods that await their machines; out go those on which a frame came. After a
live migration qemu sends some from the machine's MAC address, so that switches learn where it is. A
pod's own kernel sends none.
"""

import asyncio
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Final

from core.errors import HostError
from netplugin.kernel.packets.packet_socket import Instruction, filtered

if TYPE_CHECKING:
    import socket

ETH_P_RARP: Final = 0x8035
_SIZE: Final = 64
_ALL_FRAMES: Final[tuple[Instruction, ...]] = ((0x06, 0, 0, _SIZE),)


class MachineAnnouncements:
    """Listens on links, each until its first announcement; `heard` is called with the link.

    What pods send is theirs to choose. So only links that are waited for have a socket, and one
    frame ends it: no pod keeps the agent busy.
    """

    def __init__(self, heard: Callable[[str], None]) -> None:
        self._heard = heard
        self._sockets: dict[str, socket.socket] = {}

    def listen(self, links: Set[str]) -> list[HostError]:
        """Listen on these links, and on no other; return why not on some."""
        failures = []
        for link in self._sockets.keys() - links:
            self._close(link)
        for link in sorted(links - self._sockets.keys()):
            try:
                made = filtered(_ALL_FRAMES, link=link, protocol=ETH_P_RARP)
            except HostError as exc:
                failures.append(exc)
                continue
            self._sockets[link] = made
            asyncio.get_running_loop().add_reader(made.fileno(), self._readable, link)
        return failures

    def close(self) -> None:
        """Listen no more."""
        for link in tuple(self._sockets):
            self._close(link)

    def _readable(self, link: str) -> None:
        # A link that goes makes its socket readable, too.
        try:
            announced = bool(self._sockets[link].recv(_SIZE))
        except BlockingIOError:
            return
        except OSError:
            announced = False
        self._close(link)
        if announced:
            self._heard(link)

    def _close(self, link: str) -> None:
        closed = self._sockets.pop(link)
        asyncio.get_running_loop().remove_reader(closed.fileno())
        closed.close()
