"""Encodes questions for a port's counters and reads the answers. Pure.

`ofnet.channel.session` sends and receives; received bytes are untrusted, as in
`ofnet.channel.wire`.
"""

import struct
from typing import Final, NamedTuple

from ofnet.channel import wire

_PORT_STATS: Final = 4
_REQUESTED: Final = struct.Struct(">I4x")
_COUNTED: Final = struct.Struct(">I4xQ96x")
"""`ofp_port_stats` of OpenFlow 1.3.5, A.3.5.6: the port, and first of its counters `rx_packets`."""


class PortCount(NamedTuple):
    """How many packets have come in by a port."""

    ofport: int
    received: int


def count_request(ofport: int, xid: int) -> bytes:
    """Return the request for the counters of one port."""
    return wire.multipart_request(_PORT_STATS, xid, _REQUESTED.pack(ofport))


def counts(body: bytes) -> tuple[list[PortCount], bool]:
    """Return the ports of one part of a reply, and whether more parts follow.

    Raises MalformedOpenflow.
    """
    more = wire.has_more(body, _PORT_STATS)
    found = [
        PortCount(*wire.unpack(_COUNTED, body, offset))
        for offset in range(wire.PARTS, len(body), _COUNTED.size)
    ]
    return found, more
