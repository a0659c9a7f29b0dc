"""Match fields, OpenFlow's and Open vSwitch's own: how a value is packed and how OVS prints it.

A field's value is what the rest of the package uses: int, MAC text, `ipaddress` object or
`fields.Bits`; a mask travels inside the value (`aa:…/ff:…`, a network, Bits).
`ofnet.openflow.match` and `ofnet.openflow.actions` use this table.
"""

import struct
from collections.abc import Callable
from functools import lru_cache, partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from socket import AF_INET6, inet_ntop
from typing import Any, Final, NamedTuple, overload

from ofnet.openflow.fields import Bits, CtState, Flags, Fragment, Ports

BASIC_CLASS: Final = 0x8000
NICIRA_CLASS: Final = 0x0001
"""Open vSwitch's own fields (NXM_NX): connection tracking, fragments."""

ND_CLASS: Final = 0x1000
"""Open vSwitch's own fields of neighbour discovery."""

EXPERIMENTER_CLASS: Final = 0xFFFF
ONF: Final = 0x4F4E4600
"""The Open Networking Foundation as experimenter: fields and messages of later versions."""
VLAN_PRESENT: Final = 0x1000
ETH_IPV4: Final = 0x0800
ETH_ARP: Final = 0x0806
ETH_IPV6: Final = 0x86DD
ETH_VLAN: Final = 0x8100
PROTO_ICMP: Final = 1
PROTO_TCP: Final = 6
PROTO_UDP: Final = 17
IPV6_FRAGMENT: Final = 44
"""What Open vSwitch takes for the protocol of later fragments of IPv6, which do not tell theirs."""
PROTO_ICMP6: Final = 58
PROTO_SCTP: Final = 132
ND_SOLICIT: Final = 135
ND_ADVERT: Final = 136

Address = IPv4Address | IPv4Network
Address6 = IPv6Address | IPv6Network


class OxmField(NamedTuple):
    """One match field: its wire form, and its names in a match and in a `set_field`."""

    pack: Callable[[Any], bytes]
    match_name: str
    set_name: str
    text: Callable[[Any], str] = str
    match_text: Callable[[Any], str] | None = None
    """How a match prints the value, where a `set_field` prints it differently."""


def header(number: int, size: int, *, masked: bool = False, oxm_class: int = BASIC_CLASS) -> bytes:
    """Return the four bytes before a field's value; with a mask the payload is twice as long."""
    length = size * 2 if masked else size
    return struct.pack(">HBB", oxm_class, number << 1 | masked, length)


@lru_cache(maxsize=4096)
def mac_bytes(mac: str) -> bytes:
    """Return the six bytes of MAC text. Raises ValueError for anything else."""
    raw = bytes.fromhex(mac.replace(":", ""))
    if len(raw) != 6:
        raise ValueError(f"{mac!r} is not a MAC address")
    return raw


@overload
def shortest(network: IPv4Network) -> Address: ...
@overload
def shortest(network: IPv6Network) -> Address6: ...
def shortest(network: IPv4Network | IPv6Network) -> Address | Address6:
    """Return a network of one address as that address, which needs no mask."""
    return network.network_address if network.prefixlen == network.max_prefixlen else network


def _integer(
    number: int, form: str, *, flag: int = 0, oxm_class: int = BASIC_CLASS
) -> Callable[[int], bytes]:
    packer = struct.Struct(">4s" + form)
    head = header(number, packer.size - 4, oxm_class=oxm_class)
    if flag:
        return lambda value: packer.pack(head, value | flag)
    return partial(packer.pack, head)


def _port(number: int) -> Callable[[int | Ports], bytes]:
    exact, masked = struct.Struct(">4sH"), struct.Struct(">4sHH")
    exact_header, masked_header = header(number, 2), header(number, 2, masked=True)

    def pack(value: int | Ports) -> bytes:
        if isinstance(value, Ports):
            return masked.pack(masked_header, value.value, value.mask)
        return exact.pack(exact_header, value)

    return pack


def _mac(number: int) -> Callable[[str], bytes]:
    exact, masked = header(number, 6), header(number, 6, masked=True)

    def pack(value: str) -> bytes:
        if "/" not in value:
            return exact + mac_bytes(value)
        mac, _, mask = value.partition("/")
        return masked + mac_bytes(mac) + mac_bytes(mask)

    return pack


def _ipv4(number: int, *, oxm_class: int = BASIC_CLASS) -> Callable[[Address], bytes]:
    exact = header(number, 4, oxm_class=oxm_class)
    masked = header(number, 4, masked=True, oxm_class=oxm_class)

    def pack(value: Address) -> bytes:
        if isinstance(value, IPv4Address):
            return exact + value.packed
        return masked + value.network_address.packed + value.netmask.packed

    return pack


def _ipv6(number: int, *, oxm_class: int = BASIC_CLASS) -> Callable[[Address6], bytes]:
    exact = header(number, 16, oxm_class=oxm_class)
    masked = header(number, 16, masked=True, oxm_class=oxm_class)

    def pack(value: Address6) -> bytes:
        if isinstance(value, IPv6Address):
            return exact + value.packed
        return masked + value.network_address.packed + value.netmask.packed

    return pack


def _hex(value: int) -> str:
    return f"{value:#x}" if value else "0"


def _ipv6_text(value: Address6) -> str:
    # Open vSwitch prints as the C library does, which keeps dotted quads in ::/96
    if isinstance(value, IPv6Address):
        return inet_ntop(AF_INET6, value.packed)
    return f"{inet_ntop(AF_INET6, value.network_address.packed)}/{value.prefixlen}"


def _tos(dscp: int) -> str:
    # Open vSwitch matches the whole byte, of which DSCP is the upper six bits
    return str(dscp << 2)


def _tcp_flags(value: Flags) -> bytes:
    # a field of OpenFlow 1.5; ONF's extension adds it to 1.3
    return _TCP_FLAGS.pack(EXPERIMENTER_CLASS, 42 << 1 | 1, 8, ONF, value.value, value.mask)


_TCP_FLAGS: Final = struct.Struct(">HBBIHH")


def _metadata(value: Bits) -> bytes:
    return _METADATA.pack(_METADATA_HEADER, value.value, value.mask)


_METADATA: Final = struct.Struct(">4sQQ")
_METADATA_HEADER: Final = header(2, 8, masked=True)


def _ct_state(value: CtState) -> bytes:
    return _CT_STATE.pack(NICIRA_CLASS, 105 << 1 | 1, 8, value.value, value.mask)


_CT_STATE: Final = struct.Struct(">HBBII")


def _fragment(value: Fragment) -> bytes:
    return _FRAGMENT.pack(NICIRA_CLASS, 26 << 1 | 1, 2, value.value, value.mask)


_FRAGMENT: Final = struct.Struct(">HBBBB")

FIELDS: Final = {
    "in_port": OxmField(_integer(0, "I"), "in_port", "in_port"),
    "metadata": OxmField(_metadata, "metadata", "metadata"),
    "eth_dst": OxmField(_mac(3), "dl_dst", "eth_dst"),
    "eth_src": OxmField(_mac(4), "dl_src", "eth_src"),
    "eth_type": OxmField(_integer(5, "H"), "dl_type", "eth_type", hex),
    "vlan_vid": OxmField(_integer(6, "H", flag=VLAN_PRESENT), "dl_vlan", "vlan_vid"),
    "ip_dscp": OxmField(_integer(8, "B"), "nw_tos", "ip_dscp", match_text=_tos),
    "ip_proto": OxmField(_integer(10, "B"), "nw_proto", "ip_proto"),
    "ipv4_src": OxmField(_ipv4(11), "nw_src", "ip_src"),
    "ipv4_dst": OxmField(_ipv4(12), "nw_dst", "ip_dst"),
    "tcp_src": OxmField(_port(13), "tp_src", "tcp_src"),
    "tcp_dst": OxmField(_port(14), "tp_dst", "tcp_dst"),
    "udp_src": OxmField(_port(15), "tp_src", "udp_src"),
    "udp_dst": OxmField(_port(16), "tp_dst", "udp_dst"),
    "sctp_dst": OxmField(_port(18), "tp_dst", "sctp_dst"),
    "icmp_type": OxmField(_integer(19, "B"), "icmp_type", "icmp_type"),
    "arp_op": OxmField(_integer(21, "H"), "arp_op", "arp_op"),
    "arp_spa": OxmField(_ipv4(22), "arp_spa", "arp_spa"),
    "arp_tpa": OxmField(_ipv4(23), "arp_tpa", "arp_tpa"),
    "arp_sha": OxmField(_mac(24), "arp_sha", "arp_sha"),
    "arp_tha": OxmField(_mac(25), "arp_tha", "arp_tha"),
    "ipv6_src": OxmField(_ipv6(26), "ipv6_src", "ipv6_src", _ipv6_text),
    "ipv6_dst": OxmField(_ipv6(27), "ipv6_dst", "ipv6_dst", _ipv6_text),
    "icmpv6_type": OxmField(_integer(29, "B"), "icmp_type", "icmpv6_type"),
    "nd_target": OxmField(_ipv6(31), "nd_target", "nd_target", _ipv6_text),
    "nd_tll": OxmField(_mac(33), "nd_tll", "nd_tll"),
    "nd_reserved": OxmField(_integer(1, "I", oxm_class=ND_CLASS), "nd_reserved", "nd_reserved"),
    "nd_options_type": OxmField(
        _integer(2, "B", oxm_class=ND_CLASS), "nd_options_type", "nd_options_type"
    ),
    "tunnel_id": OxmField(_integer(38, "Q"), "tun_id", "tun_id", hex),
    "tcp_flags": OxmField(_tcp_flags, "tcp_flags", "tcp_flags"),
    "reg0": OxmField(_integer(0, "I", oxm_class=NICIRA_CLASS), "reg0", "reg0", _hex),
    "reg1": OxmField(_integer(1, "I", oxm_class=NICIRA_CLASS), "reg1", "reg1", _hex),
    "reg2": OxmField(_integer(2, "I", oxm_class=NICIRA_CLASS), "reg2", "reg2", _hex),
    "reg3": OxmField(_integer(3, "I", oxm_class=NICIRA_CLASS), "reg3", "reg3", _hex),
    "reg4": OxmField(_integer(4, "I", oxm_class=NICIRA_CLASS), "reg4", "reg4", _hex),
    "ip_frag": OxmField(_fragment, "nw_frag", "nw_frag"),
    "conj_id": OxmField(_integer(37, "I", oxm_class=NICIRA_CLASS), "conj_id", "conj_id"),
    "ct_state": OxmField(_ct_state, "ct_state", "ct_state"),
    "ct_zone": OxmField(_integer(106, "H", oxm_class=NICIRA_CLASS), "ct_zone", "ct_zone"),
    "ct_nw_proto": OxmField(
        _integer(119, "B", oxm_class=NICIRA_CLASS), "ct_nw_proto", "ct_nw_proto"
    ),
    "ct_nw_dst": OxmField(_ipv4(121, oxm_class=NICIRA_CLASS), "ct_nw_dst", "ct_nw_dst"),
    "ct_ipv6_dst": OxmField(
        _ipv6(123, oxm_class=NICIRA_CLASS), "ct_ipv6_dst", "ct_ipv6_dst", _ipv6_text
    ),
    "ct_tp_src": OxmField(_integer(124, "H", oxm_class=NICIRA_CLASS), "ct_tp_src", "ct_tp_src"),
    "ct_tp_dst": OxmField(_integer(125, "H", oxm_class=NICIRA_CLASS), "ct_tp_dst", "ct_tp_dst"),
}
"""In the order of their numbers, Open vSwitch's own last: each is after its prerequisites.

The `ct_` fields but `ct_state` are of the connection's first packet, and need a `ct_state` that is
tracked and not invalid.
"""
