"""A BGP router without a network: streams in memory, messages by the packet library (os-ken).

An independent library encodes what it sends and decodes what it receives.
"""

import asyncio
import struct
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import Any

from os_ken.lib.packet import bgp

from ofnet.bgp.connection import Streams
from ofnet.bgp.peering import Peering
from tests.bed.waiting import WITHIN

ROUTER_AS = 65000
ROUTER = "50.1.1.2"


class FakeWriter:
    """The writing end of a connection; what is written arrives at once."""

    def __init__(self, towards: asyncio.StreamReader) -> None:
        self._towards = towards
        self.closed = False

    def writelines(self, chunks: Iterable[bytes]) -> None:
        if self.closed:
            raise ConnectionResetError(104, "Connection reset by peer")
        for chunk in chunks:
            self._towards.feed_data(chunk)

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._towards.feed_eof()


class FakeRouter:
    """The peer of hosts. It takes one connection after the other; `down` refuses them."""

    def __init__(self, asn: int = ROUTER_AS) -> None:
        self.asn = asn
        self.down = False
        self.dialled = 0
        self._accepted = 0
        self._connected = 0
        self._came = asyncio.Event()
        self.host_reads = asyncio.StreamReader()
        self.reads = asyncio.StreamReader()
        self.host_writes: FakeWriter = FakeWriter(self.reads)

    async def connect(self, _peering: Peering) -> Streams:
        """Be connected to."""
        self.dialled += 1
        if self.down:
            raise ConnectionRefusedError(111, "Connection refused")
        self.host_reads, self.reads = asyncio.StreamReader(), asyncio.StreamReader()
        self.host_writes = FakeWriter(self.reads)
        self._connected += 1
        self._came.set()
        return self.host_reads, self.host_writes  # type: ignore[return-value]

    async def accept(self) -> None:
        """Wait for a connection that was not there before."""
        async with asyncio.timeout(WITHIN):
            while self._accepted == self._connected:
                self._came.clear()
                await self._came.wait()
        self._accepted = self._connected

    def say(self, message: Any) -> None:
        """Send a message."""
        self.host_reads.feed_data(bytes(message.serialize()))

    def hang_up(self) -> None:
        """Close the connection."""
        self.host_reads.feed_eof()

    async def hear(self, kind: type) -> Any:
        """Return the next message of a kind, passing over others."""
        async with asyncio.timeout(WITHIN):
            while True:
                header = await self.reads.readexactly(19)
                body = await self.reads.readexactly(int.from_bytes(header[16:18], "big") - 19)
                message, _, rest = bgp.BGPMessage.parser(header + body)
                assert not rest
                if isinstance(message, kind):
                    return message

    async def greet(
        self,
        *,
        hold_time: int = 90,
        restart: int | None = None,
        forwarding: bool = True,
        ipv6: bool = False,
        extended: bool = False,
    ) -> Any:
        """Begin a session as a router does; return what the host said of itself."""
        await self.accept()
        said = await self.hear(bgp.BGPOpen)
        capabilities: list[Any] = [
            bgp.BGPOptParamCapabilityMultiprotocol(afi=1, safi=1),
            bgp.BGPOptParamCapabilityFourOctetAsNumber(as_number=self.asn),
        ]
        if ipv6:
            capabilities.append(bgp.BGPOptParamCapabilityMultiprotocol(afi=2, safi=1))
        if extended:
            value = struct.pack(">HHH", 1, 1, 2)
            capabilities.append(bgp.BGPOptParamCapabilityUnknown(5, value))
        if restart is not None:
            flags = 0x80 if forwarding else 0
            tuples = [(afi, 1, flags) for afi in ((1, 2) if ipv6 else (1,))]
            capabilities.append(
                bgp.BGPOptParamCapabilityGracefulRestart(flags=0, time=restart, tuples=tuples)
            )
        opened = bgp.BGPOpen(
            my_as=self.asn, hold_time=hold_time, bgp_identifier=ROUTER, opt_param=capabilities
        )
        self.say(opened)
        self.say(bgp.BGPKeepAlive())
        await self.hear(bgp.BGPKeepAlive)
        return said

    def announce(
        self, *prefixes: str, hop: str = ROUTER, path: tuple[int, ...] = (ROUTER_AS,)
    ) -> None:
        """Announce routes."""
        attributes = [
            bgp.BGPPathAttributeOrigin(0),
            bgp.BGPPathAttributeAsPath([list(path)], as_pack_str="!I"),
            bgp.BGPPathAttributeNextHop(hop),
        ]
        self.say(bgp.BGPUpdate(path_attributes=attributes, nlri=_nlri(prefixes)))

    def withdraw(self, *prefixes: str) -> None:
        """Take routes back."""
        self.say(bgp.BGPUpdate(withdrawn_routes=_nlri(prefixes)))

    def announce_by6(self, prefix: str, *, hop: str) -> None:
        """Announce a route of IPv4 with a next hop of IPv6 (RFC 8950)."""
        network, next_hop = IPv4Network(prefix), IPv6Address(hop).packed
        size = -(-network.prefixlen // 8)
        packed = bytes((network.prefixlen,)) + network.network_address.packed[:size]
        value = struct.pack(">HBB", 1, 1, len(next_hop)) + next_hop + b"\0" + packed
        attributes = [
            bgp.BGPPathAttributeUnknown(value, type_=14),
            bgp.BGPPathAttributeOrigin(0),
            bgp.BGPPathAttributeAsPath([[ROUTER_AS]], as_pack_str="!I"),
        ]
        self.say(bgp.BGPUpdate(path_attributes=attributes))

    def announce6(self, *prefixes: str, hop: str, path: tuple[int, ...] = (ROUTER_AS,)) -> None:
        """Announce IPv6 routes."""
        attributes = [
            bgp.BGPPathAttributeMpReachNLRI(afi=2, safi=1, next_hop=hop, nlri=_nlri6(prefixes)),
            bgp.BGPPathAttributeOrigin(0),
            bgp.BGPPathAttributeAsPath([list(path)], as_pack_str="!I"),
        ]
        self.say(bgp.BGPUpdate(path_attributes=attributes))

    def withdraw6(self, *prefixes: str) -> None:
        """Take IPv6 routes back; none are the End-of-RIB marker."""
        gone = bgp.BGPPathAttributeMpUnreachNLRI(afi=2, safi=1, withdrawn_routes=_nlri6(prefixes))
        self.say(bgp.BGPUpdate(path_attributes=[gone]))

    async def hear_attribute(self, kind: int) -> Any:
        """Return the next UPDATE that has an attribute which names routes."""
        while True:
            update = await self.hear(bgp.BGPUpdate)
            found = update.pathattr_map.get(kind)
            if found is not None and (getattr(found, "nlri", None) or found.withdrawn_routes):
                return update

    def end_of_rib(self) -> None:
        """Send the End-of-RIB marker of IPv4."""
        self.say(bgp.BGPUpdate())


def _nlri(prefixes: Iterable[str]) -> list[Any]:
    return [
        bgp.BGPNLRI(length=int(length), addr=str(IPv4Address(address)))
        for address, _, length in (prefix.partition("/") for prefix in prefixes)
    ]


def _nlri6(prefixes: Iterable[str]) -> list[Any]:
    return [
        bgp.IP6AddrPrefix(length=int(length), addr=address)
        for address, _, length in (prefix.partition("/") for prefix in prefixes)
    ]
