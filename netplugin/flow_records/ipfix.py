"""Records of flows as messages of IPFIX (RFC 7011), with names as enterprise elements. Pure.

In come portions of records (`netplugin.flow_records.export`); out go datagrams for a collector. A
connection is two flows, as IPFIX has them: one of each direction that has sent something.
"""

# Counts are deltas: what a portion adds to those before it. Templates are sent with each batch, as
# datagrams and collectors may be lost. Names are of the connection's ends, source and destination
# of its first packet, in flows of both directions alike, so that a collector finds both by them.

import struct
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from typing import Final, NamedTuple

from state.flow_records import DROPPED, FlowRecord
from state.policy_rules import PROTOCOLS

VERSION: Final = 10
LARGEST: Final = 1400
"""Bytes of a message; a datagram of this size is not cut on its way."""

ENTERPRISE: Final = 32473
"""The number that RFC 5612 keeps for documentation: this project has none of its own."""

_IPV4_SET, _IPV6_SET, _TEMPLATES = 256, 257, 2
_ENTERPRISE_BIT, _VARIABLE = 0x8000, 0xFFFF
_LONGEST: Final = 80
"""Bytes of a name; what is longer is cut, so that a record fits into a message."""
_HEADER: Final = struct.Struct("!HHIII")
_SET: Final = struct.Struct("!HH")
_NUMBERS: Final = struct.Struct("!HHBQQQQBB")
_FIXED: Final = (
    (7, 2),  # sourceTransportPort
    (11, 2),  # destinationTransportPort
    (4, 1),  # protocolIdentifier
    (1, 8),  # octetDeltaCount
    (2, 8),  # packetDeltaCount
    (152, 8),  # flowStartMilliseconds
    (153, 8),  # flowEndMilliseconds
    (136, 1),  # flowEndReason
    (89, 1),  # forwardingStatus
)
_IDLE, _ACTIVE = 1, 2
"""Why a flow is told: no packet came for a while, or it goes on for long."""
_FORWARDED, _DROPPED = 64, 128
_PROTOCOLS: Final = {**PROTOCOLS, "icmpv6": 58, "sctp": 132}

NAMES: Final[tuple[tuple[str, Callable[[FlowRecord], str]], ...]] = (
    ("sourceTenant", lambda one: one.source.names.tenant),
    ("sourceNetwork", lambda one: one.source.names.network),
    ("sourceGroup", lambda one: one.source.names.group),
    ("sourceNamespace", lambda one: one.source.names.namespace),
    ("sourcePod", lambda one: one.source.names.pod),
    ("destinationTenant", lambda one: one.destination.names.tenant),
    ("destinationNetwork", lambda one: one.destination.names.network),
    ("destinationGroup", lambda one: one.destination.names.group),
    ("destinationNamespace", lambda one: one.destination.names.namespace),
    ("destinationPod", lambda one: one.destination.names.pod),
    ("service", lambda one: one.service),
    ("dropReason", lambda one: one.reason),
    ("policy", lambda one: one.policy),
    ("rule", lambda one: one.rule),
)
"""The enterprise elements, strings, in the order of their numbers from 1."""


class Portion(NamedTuple):
    """A record, and what it has counted since it was told before."""

    record: FlowRecord
    packets: int
    bytes: int
    answer_packets: int
    answer_bytes: int


def messages(
    portions: Iterable[Portion], *, at: float, sequence: int, domain: int
) -> Iterator[tuple[bytes, int]]:
    """Yield the messages of a batch, each with how many flows it has.

    `at` is the time in seconds of UTC, `sequence` how many flows were told before, `domain` the
    number of this host.
    """
    body, flows = templates(), 0
    for number, flow in (one for portion in portions for one in _flows(portion)):
        if _HEADER.size + len(body) + _SET.size + len(flow) > LARGEST:
            yield _message(body, at, sequence, domain), flows
            sequence, body, flows = (sequence + flows) % (1 << 32), b"", 0
        body += _SET.pack(number, _SET.size + len(flow)) + flow
        flows += 1
    if flows:
        yield _message(body, at, sequence, domain), flows


def templates() -> bytes:
    """Return the set of templates: one of flows of each address family."""
    told = b"".join(_template(*one) for one in ((_IPV4_SET, 8, 12, 4), (_IPV6_SET, 27, 28, 16)))
    return _SET.pack(_TEMPLATES, _SET.size + len(told)) + told


def _template(number: int, source: int, destination: int, size: int) -> bytes:
    fields = ((source, size), (destination, size), *_FIXED)
    own = (
        struct.pack("!HHI", _ENTERPRISE_BIT | element, _VARIABLE, ENTERPRISE)
        for element in range(1, len(NAMES) + 1)
    )
    told = b"".join((*(struct.pack("!HH", *one) for one in fields), *own))
    return struct.pack("!HH", number, len(fields) + len(NAMES)) + told


def _message(body: bytes, at: float, sequence: int, domain: int) -> bytes:
    return _HEADER.pack(VERSION, _HEADER.size + len(body), int(at), sequence, domain) + body


def _flows(portion: Portion) -> Iterator[tuple[int, bytes]]:
    """Yield the flows of both directions, with the numbers of their templates."""
    record = portion.record
    ends = tuple(
        (ip_address(one.address).packed, one.port) for one in (record.source, record.destination)
    )
    number = _IPV4_SET if len(ends[0][0]) == len(ends[1][0]) == 4 else _IPV6_SET
    names = b"".join(_text(name(record)) for _, name in NAMES)
    for (sender, receiver), packets, size in (
        (ends, portion.packets, portion.bytes),
        (ends[::-1], portion.answer_packets, portion.answer_bytes),
    ):
        if packets:
            numbers = _NUMBERS.pack(
                sender[1],
                receiver[1],
                protocol(record.protocol),
                size,
                packets,
                int(record.first * 1000),
                int(record.last * 1000),
                _IDLE if record.ended else _ACTIVE,
                _DROPPED if record.verdict == DROPPED else _FORWARDED,
            )
            yield number, sender[0] + receiver[0] + numbers + names


def protocol(name: str) -> int:
    """Return the number of a record's protocol."""
    return _PROTOCOLS[name] if name in _PROTOCOLS else int(name)


def _text(text: str) -> bytes:
    cut = text.encode()[:_LONGEST].decode(errors="ignore").encode()
    return bytes((len(cut),)) + cut
