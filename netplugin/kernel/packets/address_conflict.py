"""Notices that another machine says that it has an address of this host (RFC 5227, 2.4; RFC 4862).

In comes the address; frames of ARP, or advertisements of neighbours, that come by the link that has
it are looked at, and an error names the other machine's MAC. Nothing is sent, and the address is
not given up: whose it is, is for an administrator to say. What pods send comes by other links and
is not looked at.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from core.errors import HostError
from netplugin.kernel.links import host_links
from netplugin.kernel.netlink.requests import Address
from netplugin.kernel.packets import packet_socket
from netplugin.kernel.packets.packet_socket import Instruction

if TYPE_CHECKING:
    import socket

KEPT: Final = 60.0
"""Seconds for which a machine that was heard counts: machines say what they have now and then."""
NAMED: Final = 3
"""Machines that are named at most: a hostile one says so under ever new MACs."""
MOST: Final = 256
"""Frames that are looked at in one go."""
_ETH_P_ARP: Final = 0x0806
_ETH_P_IPV6: Final = 0x86DD
_FRAME: Final = 96
_MAC4: Final = slice(22, 28)
"""Where a frame of ARP has its sender's MAC; behind it is the sender's address."""
_MAC6: Final = slice(6, 12)
"""Where an advertisement has it: that of the frame, for the option with the target's may lack."""
_ADDRESS: Final = 28
_TAKE: Final = (0x06, 0, 0, _FRAME)
_REFUSE: Final = (0x06, 0, 0, 0)


def _filter(address: Address) -> list[Instruction]:
    """Return what takes the frames whose sender says that it has an address."""
    if address.version == 4:
        wanted = [((0x20, 0, 0, _ADDRESS), int(address))]
    else:
        words = (int(address) >> shift & 0xFFFFFFFF for shift in (96, 64, 32, 0))
        wanted = [
            ((0x30, 0, 0, 20), 58),  # the next header: ICMPv6
            ((0x30, 0, 0, 54), 136),  # an advertisement
            *(((0x20, 0, 0, 62 + 4 * at), word) for at, word in enumerate(words)),  # its target
        ]
    last = len(wanted) - 1
    tests = [
        one
        for at, (load, number) in enumerate(wanted)
        # past what is left to be tested, and past the taking
        for one in (load, (0x15, 0, 2 * (last - at) + 1, number))
    ]
    return [*tests, _TAKE, _REFUSE]


class AddressConflict:
    """The watch of one address; `look` is called every few seconds. `clock` is monotonic."""

    def __init__(self, address: Address, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._address = address
        self._clock = clock
        self._link = ""
        self._door: socket.socket | None = None
        self._heard: dict[str, float] = {}

    async def look(self) -> None:
        """Raise HostError if another machine has said lately that it has the address."""
        door = self._opened(await asyncio.to_thread(host_links.holder, self._address))
        now = self._clock()
        others = self._others(door)
        self._heard = {mac: at for mac, at in self._heard.items() if now - at < KEPT}
        for mac in sorted(others, key=lambda one: (one not in self._heard, one))[:NAMED]:
            if mac in self._heard or len(self._heard) < NAMED:
                self._heard[mac] = now
        if self._heard:
            raise HostError(
                f"another machine says that it has {self._address}, the address of this host's "
                f"tunnels: give one of them another address; its MAC is {', '.join(self._heard)}"
            )

    def close(self) -> None:
        """Stop looking."""
        if self._door is not None:
            self._door.close()
            self._door = None

    def _opened(self, link: str) -> "socket.socket":
        if self._door is not None and link == self._link:
            return self._door
        self.close()
        kind = _ETH_P_ARP if self._address.version == 4 else _ETH_P_IPV6
        instructions = _filter(self._address)
        self._door = packet_socket.filtered(instructions, link=link, protocol=kind)
        self._link = link
        return self._door

    def _others(self, door: "socket.socket") -> set[str]:
        """Return the MACs of other machines in the frames that have come."""
        found: set[bytes] = set()
        place = _MAC4 if self._address.version == 4 else _MAC6
        try:
            for _ in range(MOST):
                found.add(door.recv(_FRAME)[place])
        except BlockingIOError:
            pass
        except OSError:
            self.close()  # the link has gone, or is down: the next look opens it anew
            return set()
        own: bytes = door.getsockname()[4]
        return {mac.hex(":") for mac in found - {own}}
