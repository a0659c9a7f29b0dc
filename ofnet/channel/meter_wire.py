"""Encodes meters and reads those of a switch. Pure.

`ofnet.channel.session` sends and receives; received bytes are untrusted, as in
`ofnet.channel.wire`.
"""

import struct
from collections.abc import Iterable
from typing import Final

from ofnet.channel import wire
from ofnet.openflow.meters import Meter

MESSAGES: Final = 2
"""How many messages set a meter."""
_METER_MOD: Final = struct.Struct(">HHI")
_ADD, _MODIFY, _DELETE = 0, 1, 2
_KBPS_AND_BURST: Final = 0b101
_PACKETS_AND_BURST: Final = 0b110
_BAND: Final = struct.Struct(">HHII4x")
_DROP: Final = 1
_METER_CONFIG: Final = 10
_MULTIPART: Final = struct.Struct(">HH4x")
_REQUESTED: Final = struct.Struct(">I4x")
_REPORTED: Final = struct.Struct(">HHI")
_ALL: Final = 0xFFFFFFFF


def meters_set(meters: Iterable[Meter], first: int) -> bytes:
    """Return the messages that add meters, or change those of their numbers.

    OpenFlow adds a meter that is not there, and changes one that is. So there are two messages for
    each, of which the switch refuses the first if the meter is there.
    """
    out = []
    for number, meter in enumerate(meters):
        band = _BAND.pack(_DROP, _BAND.size, meter.rate, meter.burst)
        for command in (_ADD, _MODIFY):
            units = _PACKETS_AND_BURST if meter.packets else _KBPS_AND_BURST
            body = _METER_MOD.pack(command, units, meter.id) + band
            out.append(wire.message(wire.METER_MOD, first + MESSAGES * number + command, body))
    return b"".join(out)


def meter_delete(number: int, xid: int) -> bytes:
    """Return the message that deletes a meter, and the flows that use it."""
    return wire.message(wire.METER_MOD, xid, _METER_MOD.pack(_DELETE, 0, number))


def meter_dump(xid: int) -> bytes:
    """Return the request for all meters."""
    body = _MULTIPART.pack(_METER_CONFIG, 0) + _REQUESTED.pack(_ALL)
    return wire.message(wire.MULTIPART_REQUEST, xid, body)


def meters(body: bytes) -> tuple[list[Meter], bool]:
    """Return the meters of one part of a reply, and whether more parts follow.

    One of another kind than ours has rate and burst 0. Raises MalformedOpenflow.
    """
    kind, flags = wire.unpack(_MULTIPART, body, 0)
    if kind != _METER_CONFIG:
        raise wire.MalformedOpenflow(f"multipart reply of type {kind} was not requested")
    found, offset = [], _MULTIPART.size
    while offset < len(body):
        length, units, number = wire.unpack(_REPORTED, body, offset)
        if length < _REPORTED.size or offset + length > len(body):
            raise wire.MalformedOpenflow(f"meter of {length} bytes")
        rate = burst = 0
        if units in {_KBPS_AND_BURST, _PACKETS_AND_BURST} and length == _REPORTED.size + _BAND.size:
            _, _, rate, burst = wire.unpack(_BAND, body, offset + _REPORTED.size)
        found.append(Meter(number, rate, burst, packets=units == _PACKETS_AND_BURST))
        offset += length
    return found, bool(flags & 1)
