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
    return wire.multipart_request(_METER_CONFIG, xid, _REQUESTED.pack(_ALL))


def meters(body: bytes) -> tuple[list[Meter], bool]:
    """Return the meters of one part of a reply, and whether more parts follow.

    One of another kind than ours has rate and burst 0. Raises MalformedOpenflow.
    """
    more = wire.has_more(body, _METER_CONFIG)
    found, offset = [], wire.PARTS
    while offset < len(body):
        length, units, number = wire.unpack(_REPORTED, body, offset)
        if length < _REPORTED.size or offset + length > len(body):
            raise wire.MalformedOpenflow(f"meter of {length} bytes")
        rate = burst = 0
        if units in {_KBPS_AND_BURST, _PACKETS_AND_BURST} and length == _REPORTED.size + _BAND.size:
            _, _, rate, burst = wire.unpack(_BAND, body, offset + _REPORTED.size)
        found.append(Meter(number, rate, burst, packets=units == _PACKETS_AND_BURST))
        offset += length
    return found, more
