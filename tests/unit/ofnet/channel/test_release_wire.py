"""The release of a switch, asked for as os-ken asks, and read from a switch's reply."""

import struct

import pytest
from os_ken.ofproto import ofproto_v1_3_parser as reference

from ofnet.channel import release_wire, wire
from tests.unit.ofnet.channel.wire import DATAPATH, packed


def reported(software: bytes, kind: int = 0) -> bytes:
    texts = (b"Nicira, Inc.", b"Open vSwitch", software)
    stats = struct.pack(">256s256s256s32s256s", *texts, b"None", b"br1")
    return struct.pack(">HH4x", kind, 0) + stats


def test_the_description_is_asked_for() -> None:
    expected = reference.OFPDescStatsRequest(DATAPATH, 0)
    assert release_wire.request(7) == packed(expected, 7)


@pytest.mark.parametrize("software", [b"3.1.0", b"", b"4.0.90\xff", b"3" * 256])
def test_the_release_is_read(software: bytes) -> None:
    read, more = release_wire.releases(reported(software))
    assert read == [software.decode("ascii", "replace")]
    assert not more


@pytest.mark.parametrize("body", [b"", reported(b"3.1.0")[:-1], reported(b"3.1.0", kind=4)])
def test_other_replies_are_malformed(body: bytes) -> None:
    with pytest.raises(wire.MalformedOpenflow):
        release_wire.releases(body)
