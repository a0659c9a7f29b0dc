"""Counters of a port, asked for as os-ken asks, and read from a switch's reply."""

import struct

import pytest
from os_ken.ofproto import ofproto_v1_3_parser as reference

from ofnet.channel import port_wire, wire
from ofnet.channel.port_wire import PortCount
from tests.unit.ofnet.channel.wire import DATAPATH, packed


def reported(*ports: PortCount, kind: int = 4, more: bool = False) -> bytes:
    stats = (struct.pack(">I4x12QII", one.ofport, one.received, *range(13)) for one in ports)
    return struct.pack(">HH4x", kind, int(more)) + b"".join(stats)


def test_one_port_is_asked_for() -> None:
    expected = reference.OFPPortStatsRequest(DATAPATH, 0, 9)
    assert port_wire.count_request(9, 7) == packed(expected, 7)


def test_the_packets_received_are_read() -> None:
    ports = [PortCount(9, 4711), PortCount(10, 2**64 - 1)]
    body = reported(*ports, more=True)
    assert port_wire.counts(body) == (ports, True)
    # the reference reads the same
    assert [
        (one.port_no, one.rx_packets)
        for one in (
            reference.OFPPortStats.parser(body, 8 + 112 * number) for number in range(len(ports))
        )
    ] == ports
    assert port_wire.counts(reported()) == ([], False)


@pytest.mark.parametrize(
    "body", [b"", reported(PortCount(9, 1))[:-1], reported(PortCount(9, 1), kind=5)]
)
def test_other_replies_are_malformed(body: bytes) -> None:
    with pytest.raises(wire.MalformedOpenflow):
        port_wire.counts(body)
