"""A host behind a bridge's uplink: a namespace with one end of a link, and its packets."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from ofnet.openflow import packets
from ofnet.openflow.packets import Arp
from tests.bed.netns import Namespace, fresh_name
from tests.integration.ofnet.dialled import Dialled

SOL_PACKET, PACKET_AUXDATA = 263, 8
ETH_P_ALL = 3
UPLINK = 30
"""The number of the uplink's port."""


@contextmanager
def behind_uplink(bridge: Dialled) -> Iterator[socket.socket]:
    """Put an uplink on the bridge; give what listens at its other end."""
    outside = Namespace(fresh_name("outside")).create()
    port = f"u{bridge.name}"
    try:
        bridge.ovs.namespace.run(
            [
                *("ip", "link", "add", port, "up", "type", "veth", "peer", "name", "eth0"),
                *("netns", outside.name),
            ]
        )
        outside.run(["ip", "link", "set", "eth0", "up"])
        bridge.ovs.vsctl(
            *("add-port", bridge.name, port),
            *("--", "set", "interface", port, f"ofport_request={UPLINK}"),
        )
        with outside.call(_listener) as ear:
            yield ear
    finally:
        outside.delete()


def _listener() -> socket.socket:
    ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    ear.bind(("eth0", ETH_P_ALL))
    ear.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    ear.setblocking(False)
    return ear


def arps(ear: socket.socket) -> Iterator[tuple[Arp, bytes, int]]:
    """Take the ARP packets that have come in, with the MAC they were sent to and their VLAN."""
    while True:
        try:
            frame, ancillary, _, _ = ear.recvmsg(2048, 256)
        except BlockingIOError:
            return
        arp = packets.parse_arp(frame)
        if arp is not None:
            yield arp, frame[:6], _vlan(frame, ancillary)


def _vlan(frame: bytes, ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return the VLAN of a frame; the kernel may have taken the tag off it."""
    if packets.is_tagged(frame):
        return packets.vlan(frame)
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            return int(struct.unpack("=IIIHHHH", data)[5]) & 0xFFF
    return 0
