"""Encodes groups and the flushing of connections, and reads the groups of a switch. Pure.

Groups are OpenFlow 1.3's; flushing is an extension of Open vSwitch 3.1. `ofnet.channel.session`
sends and receives; received bytes are untrusted, as in `ofnet.channel.wire`.
"""

import struct
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from ofnet.channel import wire
from ofnet.openflow.actions import Bucket, SelectGroup
from ofnet.translations import Translated

_NICIRA: Final = 0x00002320
_EXPERIMENTER: Final = struct.Struct(">BBHIII")
_NXT_CT_FLUSH: Final = 32
_GROUP_MOD: Final = struct.Struct(">BBHIHBxI")
_ADD_OR_MODIFY: Final = 0x8000
_DELETE: Final = 2
_SELECT: Final = 1
_BUCKET: Final = struct.Struct(">HHII4x")
_ANY: Final = 0xFFFFFFFF
_GROUP_DESC: Final = 7
_REPORTED: Final = struct.Struct(">HBxI")

Address = IPv4Address | IPv6Address


def group_add(group: SelectGroup, xid: int) -> bytes:
    """Return the message that adds a group, or replaces the one with its number."""
    buckets = b"".join(map(_bucket, group.buckets))
    length = _GROUP_MOD.size + len(buckets)
    head = (wire.VERSION, wire.GROUP_MOD, length, xid, _ADD_OR_MODIFY, _SELECT, group.id)
    return _GROUP_MOD.pack(*head) + buckets


def group_delete(number: int, xid: int) -> bytes:
    """Return the message that deletes a group, and the flows that use it."""
    head = (wire.VERSION, wire.GROUP_MOD, _GROUP_MOD.size, xid, _DELETE, _SELECT, number)
    return _GROUP_MOD.pack(*head)


def group_dump(xid: int) -> bytes:
    """Return the request for all groups."""
    return wire.multipart_request(_GROUP_DESC, xid)


def groups(body: bytes) -> tuple[list[int], bool]:
    """Return the numbers of the groups of one part of a reply, and whether more parts follow.

    Raises MalformedOpenflow.
    """
    more = wire.has_more(body, _GROUP_DESC)
    found, offset = [], wire.PARTS
    while offset < len(body):
        length, _, number = wire.unpack(_REPORTED, body, offset)
        if length < _REPORTED.size or offset + length > len(body):
            raise wire.MalformedOpenflow(f"group of {length} bytes")
        found.append(number)
        offset += length
    return found, more


def connection_flush(flushed: Translated, xid: int) -> bytes:
    """Return the message that has connections forgotten: their next packets begin new ones."""
    body = struct.pack(">B7x", flushed.protocol)
    if flushed.address is not None:
        body += _tuple(0, _ends(1, flushed.address, 3, flushed.service_port))
    body += _tuple(1, _ends(0, flushed.provider, 2, flushed.port))
    body += struct.pack(">HHH2x", 2, 8, flushed.zone)
    return _extension(_NXT_CT_FLUSH, xid, body)


def _extension(subtype: int, xid: int, body: bytes) -> bytes:
    length = _EXPERIMENTER.size + len(body)
    head = (wire.VERSION, wire.EXPERIMENTER, length, xid, _NICIRA, subtype)
    return _EXPERIMENTER.pack(*head) + body


def _bucket(bucket: Bucket) -> bytes:
    actions = b"".join([action.pack() for action in bucket.actions])
    return _BUCKET.pack(_BUCKET.size + len(actions), bucket.weight, _ANY, _ANY) + actions


def _tuple(kind: int, ends: bytes) -> bytes:
    return struct.pack(">HH4x", kind, 8 + len(ends)) + ends


def _ends(address_kind: int, address: Address, port_kind: int, port: int) -> bytes:
    mapped = address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed
    return struct.pack(">HH16s4xHHH2x", address_kind, 20, mapped, port_kind, 8, port)
