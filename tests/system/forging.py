"""Forged frames, and who hears them.

`frames` makes frames of one kind with fields drawn at random; all carry a mark. A `Wire` sends
frames as they are from a namespace's link, a `Sniffer` hears marked frames that come to one. Must
not know what is allowed.
"""

import random
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Self

from tests.bed.netns import Namespace

MARK: Final = b"forged by a pod"
ETH_ALL: Final = 3
VXLAN_PORT: Final = 4789
BROADCAST: Final = "ff:ff:ff:ff:ff:ff"
ROUTER: Final = "00:00:11:11:11:11"
OPENFLOW_PORTS: Final = (6633, 6634, 6640)
RPC_PORTS: Final = (9001, 9002, 9003, 9090, 9999, 2379)


@dataclass(frozen=True, slots=True, kw_only=True)
class Party:
    """Somebody on the network: a pod, or a host, which has no IPv6 address."""

    mac: str
    ip: str
    ip6: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgery:
    """Who forges, against whom: pods of another tenant, and hosts; with the numbers in use."""

    forger: Party
    pods: tuple[Party, ...]
    hosts: tuple[Party, ...]
    vnis: tuple[int, ...]

    @property
    def everybody(self) -> tuple[Party, ...]:
        return (*self.pods, *self.hosts)


class Wire:
    """A link of a namespace, to which frames can be written as they are."""

    def __init__(self, namespace: Namespace, link: str = "eth0") -> None:
        self._door = namespace.call(_raw)
        self._door.bind((link, 0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()

    def send(self, frame: bytes) -> None:
        self._door.send(frame)


class Sniffer:
    """Hears what comes in by a link and has a mark."""

    def __init__(self, namespace: Namespace, link: str = "eth0") -> None:
        self._door = namespace.call(_raw)
        self._door.bind((link, ETH_ALL))
        self._door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._door.setblocking(False)
        self._heard: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()

    def heard(self, mark: bytes = MARK) -> list[bytes]:
        """Return the frames with a mark that came until now."""
        with suppress(BlockingIOError):
            while True:
                frame, (_, _, kind, *_) = self._door.recvfrom(65535)
                if kind != socket.PACKET_OUTGOING:
                    self._heard.append(frame)
        return [frame for frame in self._heard if mark in frame]


def _raw() -> socket.socket:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_ALL))


def ethernet(to: str, sender: str, kind: int, body: bytes) -> bytes:
    return _mac(to) + _mac(sender) + struct.pack(">H", kind) + body


def ipv4(sender: str, to: str, protocol: int, body: bytes) -> bytes:
    """Return an IPv4 packet with a right checksum, since kernels drop others unseen."""
    ends = IPv4Address(sender).packed + IPv4Address(to).packed
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0) + ends
    return head[:10] + struct.pack(">H", _checksum(head)) + head[12:] + body


def udp(source: int, port: int, payload: bytes) -> bytes:
    """Return a UDP datagram without checksum."""
    return struct.pack(">HHHH", source, port, 8 + len(payload), 0) + payload


def vxlan(vni: int, frame: bytes) -> bytes:
    return struct.pack(">II", 0x08000000, vni << 8) + frame


def arp(operation: int, sender: tuple[str, str], target: tuple[str, str]) -> bytes:
    """Return an ARP packet; both ends are MAC and address."""
    ends = b"".join(_mac(mac) + IPv4Address(ip).packed for mac, ip in (sender, target))
    return struct.pack(">HHBBH", 1, 0x0800, 6, 4, operation) + ends


def _advert(sender: str, to: str, target: str, mac: str, kind: int) -> bytes:
    option = struct.pack(">BB", 2 if kind == 136 else 1, 1) + _mac(mac)
    body = struct.pack(">BBHI", kind, 0, 0, 0x60000000) + IPv6Address(target).packed + option
    ends = IPv6Address(sender).packed + IPv6Address(to).packed
    whole = ends + struct.pack(">II", len(body), 58) + body
    body = body[:2] + struct.pack(">H", _checksum(whole)) + body[4:]
    return struct.pack(">IHBB", 0x60000000, len(body), 58, 255) + ends + body


def tcp(sender: str, to: str, port: int, flags: int, payload: bytes) -> bytes:
    """Return a TCP segment with a right checksum."""
    head = struct.pack(">HHIIBBHHH", 40000, port, 1, 1, 0x50, flags, 1024, 0, 0) + payload
    ends = IPv4Address(sender).packed + IPv4Address(to).packed
    whole = ends + struct.pack(">HH", 6, len(head)) + head
    return head[:16] + struct.pack(">H", _checksum(whole)) + head[18:]


def frames(kind: str, number: int, forgery: Forgery, seed: int) -> Iterator[bytes]:
    """Yield forged frames of a kind of `KINDS`, the same for the same seed."""
    dice = random.Random(f"{kind} {seed}")
    for _ in range(number):
        yield KINDS[kind](dice, forgery)


def _forged_vxlan(dice: random.Random, forgery: Forgery) -> bytes:
    victim = dice.choice(forgery.pods)
    inner_source = dice.choice([_address(dice), *(pod.ip for pod in forgery.pods)])
    inner = ipv4(inner_source, victim.ip, 17, udp(dice.randrange(1, 65536), 5555, MARK))
    frame = ethernet(dice.choice([victim.mac, ROUTER]), _random_mac(dice), 0x0800, inner)
    vni = dice.choice([*forgery.vnis, dice.randrange(1 << 24)])
    outer = udp(dice.randrange(1, 65536), VXLAN_PORT, vxlan(vni, frame))
    return _outward(dice, forgery, 17, lambda _sender, _to: outer)


def _forged_arp(dice: random.Random, forgery: Forgery) -> bytes:
    victim, claimed = dice.choice(forgery.everybody), dice.choice(forgery.everybody)
    mac = dice.choice([forgery.forger.mac, _random_mac(dice)])
    told = arp(dice.choice([1, 2]), (mac, claimed.ip), (victim.mac, victim.ip))
    to = dice.choice([BROADCAST, victim.mac, ROUTER])
    return ethernet(to, dice.choice([mac, forgery.forger.mac]), 0x0806, told + MARK)


def _forged_nd(dice: random.Random, forgery: Forgery) -> bytes:
    victim, claimed = dice.choice(forgery.pods), dice.choice(forgery.pods)
    source = dice.choice([claimed.ip6, forgery.forger.ip6, "fe80::1"])
    # the target's address is the mark: the message has no room for another
    told = _advert(source, victim.ip6, claimed.ip6, forgery.forger.mac, dice.choice([135, 136]))
    to = dice.choice([victim.mac, ROUTER, "33:33:00:00:00:01"])
    return ethernet(to, forgery.forger.mac, 0x86DD, told + MARK)


def _forged_openflow(dice: random.Random, forgery: Forgery) -> bytes:
    message = struct.pack(">BBHI", 4, dice.choice([0, 14, 18]), 8, dice.randrange(1 << 32)) + MARK
    return _segment(dice, forgery, OPENFLOW_PORTS, message)


def _forged_rpc(dice: random.Random, forgery: Forgery) -> bytes:
    call = b'{"method":"OfnetAgent.AddMaster","params":[{}],"id":%d}' % dice.randrange(1 << 16)
    return _segment(dice, forgery, RPC_PORTS, call + MARK)


def _segment(
    dice: random.Random, forgery: Forgery, ports: tuple[int, ...], payload: bytes
) -> bytes:
    port, flags = dice.choice(ports), dice.choice([0x02, 0x10, 0x18])
    return _outward(dice, forgery, 6, lambda sender, to: tcp(sender, to, port, flags, payload))


def _outward(
    dice: random.Random, forgery: Forgery, protocol: int, body: Callable[[str, str], bytes]
) -> bytes:
    """Return a packet to a host or a pod, half of them in the forger's own name."""
    to = dice.choice(forgery.everybody)
    sender = dice.choice([forgery.forger.ip, dice.choice(forgery.everybody).ip])
    mac = dice.choice([forgery.forger.mac, forgery.forger.mac, _random_mac(dice)])
    packet = ipv4(sender, to.ip, protocol, body(sender, to.ip))
    return ethernet(dice.choice([to.mac, ROUTER]), mac, 0x0800, packet)


KINDS: Final[Mapping[str, Callable[[random.Random, Forgery], bytes]]] = {
    "vxlan": _forged_vxlan,
    "arp": _forged_arp,
    "nd": _forged_nd,
    "openflow": _forged_openflow,
    "rpc": _forged_rpc,
}


def _address(dice: random.Random) -> str:
    return str(IPv4Address(dice.randrange(1 << 24, 0xE0000000)))


def _random_mac(dice: random.Random) -> str:
    return (b"\x02" + dice.randbytes(5)).hex(":")


def _mac(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def _checksum(data: bytes) -> int:
    padded = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
