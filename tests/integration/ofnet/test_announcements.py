"""A pod that comes is heard of behind the uplink, on its VLAN."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from core.tasks import background
from ofnet import packets
from ofnet.announcements import ROUNDS
from ofnet.changes import Changes
from ofnet.world import Bridge, FwdMode, Uplink
from tests.bed.netns import Namespace, fresh_name
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import Dialled, dialled, looked_after, until
from tests.unit.ofnet.worlds import address, local, mac, world

pytestmark = pytest.mark.ovs

SOL_PACKET, PACKET_AUXDATA = 263, 8
ETH_P_ALL = 3
UPLINK = 30
GROUP_VLAN = 700


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


def announced(ear: socket.socket) -> Iterator[tuple[IPv4Address, str, int]]:
    """Take the announcements that have come in: whose, at which MAC, on which VLAN."""
    while True:
        try:
            frame, ancillary, _, _ = ear.recvmsg(2048, 256)
        except BlockingIOError:
            return
        arp = packets.parse_arp(frame)
        if arp is not None and arp.operation == packets.ARP_REQUEST:
            assert arp.sender_ip == arp.target_ip
            assert frame[:6] == b"\xff" * 6
            yield arp.sender_ip, arp.sender_mac, _vlan(frame, ancillary)


def _vlan(frame: bytes, ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return the VLAN of a frame; the kernel may have taken the tag off it."""
    if packets.is_tagged(frame):
        return int.from_bytes(frame[14:16], "big") & 0xFFF
    for level, kind, data in ancillary:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            return int(struct.unpack("=IIIHHHH", data)[5]) & 0xFFF
    return 0


async def test_a_pod_is_announced_at_once_and_its_group_in_rounds(ovs_module: OvsHost) -> None:
    uplink = Uplink(ofport=UPLINK, mac="52:54:00:00:00:0a")
    empty = replace(world(), fwd_mode=FwdMode.BRIDGE, uplinks=(uplink,))
    member = replace(local(2), group_id=5, group_vlan=GROUP_VLAN)
    came = replace(empty, local={local(1).key: local(1), member.key: member})
    heard: list[tuple[IPv4Address, str, int]] = []
    async with dialled(ovs_module) as bridge:
        with behind_uplink(bridge) as ear:
            async with (
                looked_after(bridge, empty, bridge_name=Bridge.VLAN) as agent,
                background("announcements", agent.announcer.run(period=0.01)),
            ):
                await agent.update(came, Changes(local=frozenset(came.local)))

                def count() -> int:
                    heard.extend(announced(ear))
                    return len(heard)

                await until(lambda: count() >= ROUNDS + 2, "all announcements")
    assert heard.count((address(1), mac(1), 1)) == 1
    assert heard.count((address(2), mac(2), 1)) == 1
    assert heard.count((address(2), mac(2), GROUP_VLAN)) == ROUNDS
    assert len(heard) == ROUNDS + 2
