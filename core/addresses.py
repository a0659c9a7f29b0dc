"""Address arithmetic for IPv4 and IPv6: subnets, ranges, host numbers, and their text.

Converts between text and whole numbers. An address is a plain `int`; its family is that of its
`Subnet`. Allocation is in `netmaster.ipam`. Malformed text raises ValueError, which the caller
turns into an error for the user.
"""

import hashlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Final

IPV4_BITS: Final = 32
IPV6_BITS: Final = 128
MAC_PREFIX: Final = "02:02"
"""A locally administered prefix; an endpoint's IPv4 address is the rest of its MAC address."""
MAC6_PREFIX: Final = "02:06"
"""That of endpoints with IPv6 alone."""


def authority(host: str, port: int | str) -> str:
    """Return `host:port` as URLs have it: an IPv6 address is in brackets."""
    return f"{url_host(host)}:{port}"


def url_host(host: str) -> str:
    """Return a host as URLs have it."""
    return f"[{host}]" if ":" in host else host


def ipv4(text: str) -> int:
    """Parse a dotted quad; leading zeros and short forms are refused."""
    # inet_pton, not inet_aton: the latter reads `010` as octal and `10.1` as 10.0.0.1.
    try:
        return int.from_bytes(socket.inet_pton(socket.AF_INET, text), "big")
    except (OSError, ValueError) as exc:
        raise ValueError(f"{text!r} is not an IPv4 address") from exc


def ipv4_text(address: int) -> str:
    """Return the dotted quad of an address."""
    return socket.inet_ntoa(address.to_bytes(4, "big"))


def ipv6(text: str) -> int:
    """Parse an IPv6 address in any of its text forms; scope ids are refused."""
    if "%" in text:
        raise ValueError(f"{text!r} has a scope id")
    return int(IPv6Address(text))


def ipv6_text(address: int) -> str:
    """Return the canonical text of an address (RFC 5952)."""
    return str(IPv6Address(address))


def mac_text(address: int) -> str:
    """Return the MAC address of the endpoint with an IPv4 address."""
    return f"{MAC_PREFIX}:{address.to_bytes(4, 'big').hex(':')}"


def mac6_text(address: int) -> str:
    """Return the MAC address of the endpoint that has an IPv6 address alone.

    It differs from that of any other address with the same first 96 bits, and most likely from
    those of all others.
    """
    upper, lower = divmod(address, 1 << 32)
    return f"{MAC6_PREFIX}:{(lower ^ _mixed(upper)).to_bytes(4, 'big').hex(':')}"


def with_mac6_of(address: int, among: int) -> int:
    """Return the address with the first 96 bits of `among` that has the MAC of an address."""
    upper, lower = divmod(address, 1 << 32)
    other = among >> 32
    return other << 32 | (lower ^ _mixed(upper) ^ _mixed(other))


def _mixed(upper: int) -> int:
    return int.from_bytes(hashlib.sha256(upper.to_bytes(12, "big")).digest()[:4], "big")


def derived_mac(ipv4_address: str, ipv6_address: str) -> str:
    """Return the MAC address that follows from an endpoint's addresses, of which one may be ""."""
    return mac_text(ipv4(ipv4_address)) if ipv4_address else mac6_text(ipv6(ipv6_address))


@dataclass(frozen=True, slots=True)
class Subnet:
    """A block of addresses that share their first `length` bits, with `bits` bits in all.

    `base` is the address whose host bits are all zero.
    """

    base: int
    length: int
    bits: int = IPV4_BITS

    @property
    def size(self) -> int:
        """Return the number of addresses."""
        return 1 << (self.bits - self.length)

    @property
    def last(self) -> int:
        """Return the address whose host bits are all one; in IPv4 the broadcast address."""
        return self.base + self.size - 1

    def __contains__(self, address: int) -> bool:
        return self.base <= address <= self.last

    def overlaps(self, other: "Subnet") -> bool:
        """Return whether the subnets share an address."""
        return self.base <= other.last and other.base <= self.last

    def text(self, address: int) -> str:
        """Return an address as text of this subnet's family."""
        return ipv4_text(address) if self.bits == IPV4_BITS else ipv6_text(address)

    def __str__(self) -> str:
        return f"{self.text(self.base)}/{self.length}"


def subnet4(address: int, length: int) -> Subnet:
    """Return the IPv4 subnet of that length around an address. Raises ValueError."""
    return _subnet(address, length, IPV4_BITS)


def subnet6(address: int, length: int) -> Subnet:
    """Return the IPv6 subnet of that length around an address. Raises ValueError."""
    return _subnet(address, length, IPV6_BITS)


def parse_subnet6(text: str) -> tuple[Subnet, str]:
    """Parse `2001:db8::/64`; return the subnet and the address part as written."""
    address, length = split_length(text)
    return subnet6(ipv6(address), length), address


def split_length(text: str) -> tuple[str, int]:
    """Split `10.1.1.0/24` at the slash."""
    address, slash, length = text.partition("/")
    if not slash or not (length.isascii() and length.isdigit()):
        raise ValueError(f"{text!r} is not of the form <address>/<length>")
    return address, int(length)


@dataclass(frozen=True, slots=True)
class AddressRange:
    """The IPv4 addresses `first`..`last` of a subnet, as a network's `subnet` field writes them.

    `bounded`: the user gave both ends (`10.1.1.10-10.1.1.20/24`). Otherwise the user gave one
    address, which is `first` including its host bits, and `last` is the subnet's last address.
    """

    subnet: Subnet
    first: int
    last: int
    bounded: bool

    @property
    def valid(self) -> bool:
        """Return whether the ends are in order and within the subnet."""
        return self.first <= self.last and self.first in self.subnet and self.last in self.subnet

    @property
    def extent(self) -> tuple[int, int]:
        """Return the first and last address it covers: the whole subnet if it is not bounded."""
        return (self.first, self.last) if self.bounded else (self.subnet.base, self.subnet.last)


def parse_range(text: str) -> AddressRange:
    """Parse `a/len` or `a-b/len`; the result may be not `valid`."""
    addresses, length = split_length(text)
    first_text, dash, last_text = addresses.partition("-")
    first = ipv4(first_text)
    subnet = subnet4(first, length)
    last = ipv4(last_text) if dash else subnet.last
    return AddressRange(subnet=subnet, first=first, last=last, bounded=bool(dash))


def parse_pool(text: str) -> tuple[int, int]:
    """Parse `a-b`, or `a` alone, into both ends."""
    first, dash, last = text.partition("-")
    low = ipv4(first)
    return low, ipv4(last) if dash else low


def parse_span(text: str) -> tuple[int, int, int]:
    """Parse `a`, `a-b` or `a/len`, of either family; return both ends and the family's bits.

    The host bits of a block must be zero, and the ends of a range in order.
    """
    of, bits = (ipv6, IPV6_BITS) if ":" in text else (ipv4, IPV4_BITS)
    if "/" in text:
        address, length = split_length(text)
        block = _subnet(of(address), length, bits)
        if block.base != of(address):
            raise ValueError(f"{text!r} has host bits")
        return block.base, block.last, bits
    first, dash, last = text.partition("-")
    low = of(first)
    high = of(last) if dash else low
    if low > high:
        raise ValueError(f"{text!r} ends before it begins")
    return low, high, bits


def _subnet(address: int, length: int, bits: int) -> Subnet:
    if not 0 <= length <= bits:
        raise ValueError(f"a prefix length of {length} does not fit {bits} bits")
    host_bits = bits - length
    return Subnet(base=address >> host_bits << host_bits, length=length, bits=bits)


def parse_match(text: str) -> tuple[int, int]:
    """Parse a rule's address field; return the first and last address it matches.

    `a` is one address, `a/len` its block; `a-n` ends at the address whose last octet is `n`, with
    or without a length. The end may precede the start: such a range matches nothing.
    """
    addresses, slash, _ = text.partition("/")
    first_text, dash, octet = addresses.partition("-")
    first = ipv4(first_text)
    if dash:
        return first, ipv4(f"{first_text.rpartition('.')[0]}.{octet}")
    if not slash:
        return first, first
    block = subnet4(first, split_length(text)[1])
    return block.base, block.last


def canonical(text: str) -> str:
    """Return an address of either family in the spelling of records. Raises ValueError."""
    return ipv6_text(ipv6(text)) if ":" in text else ipv4_text(ipv4(text))


def parse_match6(text: str) -> Subnet:
    """Parse a rule's address field of IPv6, `a` or `a/len`; return the block it matches.

    Raises ValueError.
    """
    if "/" in text:
        return parse_subnet6(text)[0]
    return subnet6(ipv6(text), IPV6_BITS)


def blocks4(first: int, last: int) -> Iterator[Subnet]:
    """Yield the smallest set of blocks that covers exactly first..last, in ascending order."""
    while first <= last:
        # Greedy is minimal: take the largest aligned block that starts at `first` (its trailing
        # zero bits) and does not pass `last`.
        host_bits = (first & -first).bit_length() - 1 if first else IPV4_BITS
        host_bits = min(host_bits, (last - first + 1).bit_length() - 1)
        yield Subnet(base=first, length=IPV4_BITS - host_bits)
        first += 1 << host_bits


HOSTS_OWN6: Final = subnet6(ipv6("fd63:6f6e:7469:7600::"), 62)
"""All addresses of IPv6 that hosts take for themselves: of tunnels, of pods towards their host."""

TUNNEL_SOURCES4: Final = subnet4(ipv4("240.0.0.0"), 5)
"""Where hosts whose tunnels end at IPv6 have an address of IPv4 for other hosts' pods."""


def tunnel_source4(address: int) -> int:
    """Return the address of IPv4 that stands for the host whose tunnels end at one of IPv6.

    It differs from that of any other address with the same first 101 bits, and most likely from
    those of all others.
    """
    upper, lower = divmod(address, TUNNEL_SOURCES4.size)
    mixed = int.from_bytes(hashlib.sha256(upper.to_bytes(13, "big")).digest()[:4], "big")
    return TUNNEL_SOURCES4.base + (lower ^ mixed % TUNNEL_SOURCES4.size)


TUNNEL_SOURCES6: Final = subnet6(ipv6("fd63:6f6e:7469:7600::"), 96)
"""Where hosts have the addresses of IPv6 under which they connect to other hosts' pods."""

PRIVATE6: Final = subnet6(ipv6("fd63:6f6e:7469:7602::"), 96)
"""Where pods have the addresses of IPv6 under which they leave for their host."""
