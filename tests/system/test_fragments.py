"""UDP longer than the MTU reaches the port that a rule allows, whole; what it denies, no part of.

Between two hosts, in all four modes, over IPv4 and IPv6: the same fragments pass both hosts' rules.
"""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import PATIENCE, eventually
from tests.system.forging import ROUTER, Sniffer, Wire, ethernet, ipv4
from tests.system.planes import FWD_MODES, NETWORKS, add_rules, addresses, applied, planes

pytestmark = [pytest.mark.system, pytest.mark.ovs]

ALLOWED, DENIED = 7000, 7001
LONG = 4000
LATER = b"nothing before this"
RULES = {"1": ["-l", "udp", "-j", "deny"], "2": ["-l", "udp", "-P", str(ALLOWED), "-p", "10"]}


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts; into each group UDP may come to one port alone."""
    with planes(next(bed_dirs), request.param) as bed:
        for name in NETWORKS:
            add_rules(bed, f"guard-{name}", RULES)
        yield bed


@pytest.mark.parametrize("network", list(NETWORKS))
def test_fragments_go_where_the_first_may_go(bed: Bed, network: str) -> None:
    """The finding of docs/notes/trust.md §15."""
    client, server = pods = [
        bed.add_pod(host, f"{network}-{host.label}", network=network, group=group)
        for host, group in zip(bed.hosts, ("", f"web-{network}"), strict=True)
    ]
    try:
        applied(bed)
        four, six = addresses(server)
        with ExitStack() as doors:
            for address in (four, six):
                arrives = partial(arrived, doors, client, server, address, ALLOWED)
                eventually(arrives, f"{LONG} bytes arrive at {address}")
            nose = doors.enter_context(Sniffer(server.namespace))
            for address in (four, six):
                assert not arrived(doors, client, server, address, DENIED)
            bare(bed, client, server)
            eventually(partial(arrived, doors, client, server, four, ALLOWED), "what is later")
            assert nose.heard(LATER) == []
            assert nose.heard(_filling(DENIED)) == []
            assert nose.heard(_filling(ALLOWED)) != []
    finally:
        for pod in pods:
            bed.delete_pod(pod)


def arrived(doors: ExitStack, client: Pod, server: Pod, address: str, port: int) -> bool:
    """Send a long datagram; say whether it arrives whole."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def door() -> socket.socket:
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.settimeout(0.5 * PATIENCE)
        return made

    mouth = doors.enter_context(client.namespace.call(door))
    with server.namespace.call(door) as ear:
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ear.bind((address, port))
        mouth.sendto(_filling(port) * (LONG // 16), (address, port))
        try:
            return len(ear.recv(LONG + 1)) == LONG
        except TimeoutError:
            return False


def bare(bed: Bed, client: Pod, server: Pod) -> None:
    """Send later fragments of a packet that has no first one."""
    to = server.mac if bed.fwd_mode == "bridge" else ROUTER
    with Wire(client.namespace) as wire:
        for offset in (160, 320):
            packet = ipv4(client.address, server.address, 17, LATER + bytes(1261))
            whole = bytearray(packet)
            struct.pack_into(">HH", whole, 4, 4711, 0x2000 * (offset == 160) | offset)
            whole[10:12] = bytes(2)
            wire.send(ethernet(to, client.mac, 0x0800, _summed(bytes(whole))))


def _summed(packet: bytes) -> bytes:
    total = sum(struct.unpack(">10H", packet[:20]))
    total = (total & 0xFFFF) + (total >> 16)
    return packet[:10] + struct.pack(">H", ~total & 0xFFFF) + packet[12:]


def _filling(port: int) -> bytes:
    return f"to port {port:>7} ".encode()
