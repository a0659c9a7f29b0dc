"""Tells Open vSwitch that the agent lives: continuity check messages by the name service's port.

Open vSwitch takes a port for dead whose messages stay away (IEEE 802.1ag CFM, which
`netplugin.bridges.host.name_ports` asks for), and flows notice that
(`ofnet.pipelines.features.name_port`). In comes a packet socket on the far end of the port's link
(`netplugin.kernel.links.name_space`); out go frames, from a thread of their own, so that an event
loop that is busy for a second is not taken for the agent's end. One that is busy for longer is: it
answers nothing.
"""

import asyncio
import logging
import socket
import struct
import threading
import time
from itertools import count
from typing import Final

from core.logs import fields

log = logging.getLogger(__name__)

INTERVAL: Final = 150
"""Milliseconds: the port's setting. Open vSwitch looks each 525 ms whether a message came."""

PAUSE: Final = 0.1
"""Seconds between two messages: several of them must stay away to be noticed."""

BUSY: Final = 1.5
"""Seconds that the event loop may be busy. With the time that the switch needs, a resolver's third
attempt, a second after its second, is answered."""

_PULSE: Final = 0.25
"""Seconds between two turns of the event loop that are noticed."""

SWITCH: Final = 1
AGENT: Final = 2
"""The identifiers of both ends, which must differ."""

# The form is Open vSwitch's own (lib/cfm.c): a group address, level and name that CFM on other
# networks does not use.
_GROUP: Final = bytes.fromhex("012320000030")
_ETHERTYPE: Final = 0x8902
_LEVEL: Final = 0
_CONTINUITY_CHECK: Final = 1
_INTERVAL_ELSEWHERE: Final = 0
_TLV_OFFSET: Final = 70
_NAME: Final = b"\x04\x03ovs\x02\x03ovs"
_FRAME: Final = struct.Struct("!6s6sH 4BIH48s HQ7x")


def message(mac: bytes, number: int) -> bytes:
    """Return the frame of the message of this number, from this MAC address."""
    return _FRAME.pack(
        _GROUP,
        mac,
        _ETHERTYPE,
        _LEVEL,
        _CONTINUITY_CHECK,
        _INTERVAL_ELSEWHERE,
        _TLV_OFFSET,
        number & 0xFFFF_FFFF,
        AGENT,
        _NAME,
        INTERVAL,
        AGENT,
    )


class Heartbeat:
    """Sends messages by a socket, from `start` until `stop`.

    An event loop that has not turned for `busy` seconds is stuck.
    """

    def __init__(self, frames: socket.socket, mac: str, *, busy: float = BUSY) -> None:
        self._frames = frames
        self._busy = busy
        self._mac = bytes.fromhex(mac.replace(":", ""))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._turned = time.monotonic()
        self._pulse: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to send, for as long as the running event loop is not stuck."""
        self._turn()
        self._thread.start()

    def stop(self) -> None:
        """Send no more; the socket may be closed afterwards."""
        if self._pulse is not None:
            self._pulse.cancel()
        self._ended.set()
        self._thread.join()

    def _turn(self) -> None:
        self._turned = time.monotonic()
        self._pulse = asyncio.get_running_loop().call_later(_PULSE, self._turn)

    def _run(self) -> None:
        failing = False
        for number in count():
            if time.monotonic() - self._turned <= self._busy:
                failing = self._send(message(self._mac, number), failing=failing)
            if self._ended.wait(PAUSE):
                return

    def _send(self, frame: bytes, *, failing: bool) -> bool:
        """Send a message; return whether it failed. `failing`: the one before did."""
        try:
            self._frames.send(frame)
        except OSError as exc:
            # The link is gone, or not up: `netplugin.bridges.host.name_ports` finds that and stops
            # this one. Requests go on to their servers meanwhile.
            if not failing:
                log.warning("DNS port heartbeat not sent", extra=fields(error=exc))
            return True
        return False
