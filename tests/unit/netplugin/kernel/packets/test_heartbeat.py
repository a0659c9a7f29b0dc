"""The frames that tell Open vSwitch of a living agent: in its own form of IEEE 802.1ag."""

import asyncio
import socket
from contextlib import suppress

from netplugin.kernel.packets.heartbeat import AGENT, Heartbeat, message

MAC = "06:02:00:00:00:35"
RECORDED = bytes.fromhex(
    "012320000030dab02966271f89020001804600000b015d4404036f767302036f7673"
    + "00" * 38
    + "00960000000000000001"
    + "00" * 7
)
"""What Open vSwitch 3.1 sent itself at this interval, to an end from which it heard nothing."""

COMPLAINT, SHORT_ID, LONG_ID = slice(16, 17), slice(22, 24), slice(74, 82)
"""Its flag for hearing nothing (RDI), and the places of its identifier: hashed, and whole."""


def test_a_message_has_the_form_of_open_vswitch() -> None:
    wanted = bytearray(RECORDED)
    wanted[COMPLAINT] = bytes(1)
    wanted[SHORT_ID] = AGENT.to_bytes(2)
    wanted[LONG_ID] = AGENT.to_bytes(8)
    assert message(bytes.fromhex("dab02966271f"), 0x0B01) == bytes(wanted)


async def test_messages_are_numbered_and_end_when_they_are_stopped() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        heartbeat = Heartbeat(near, MAC)
        heartbeat.start()
        heard = [await asyncio.to_thread(far.recv, 200) for _ in range(3)]
        heartbeat.stop()
        mac = bytes.fromhex(MAC.replace(":", ""))
        assert heard == [message(mac, number) for number in range(3)]


async def test_an_event_loop_that_is_stuck_is_no_living_agent() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        heartbeat = Heartbeat(near, MAC, busy=0.3)
        heartbeat.start()
        await asyncio.to_thread(far.recv, 200)
        far.settimeout(1)
        with suppress(TimeoutError):
            while far.recv(200):  # the loop does not turn here
                continue
        await asyncio.to_thread(far.recv, 200)
        heartbeat.stop()
