"""Messages of IPFIX: sizes, sequence, directions; `tests/integration/netplugin` has them read."""

import struct
from dataclasses import replace

import pytest

from netplugin.flow_records import ipfix
from netplugin.flow_records.ipfix import Portion, messages
from state.flow_records import DROPPED, End, EndNames, FlowRecord
from tests.unit.state.flow_records import RECORD

FOUR = replace(RECORD, destination=End("10.1.0.9", 8080), ended=True)
SIX = replace(RECORD, source=End("fd00::1", 4000))


def told(*portions: Portion, sequence: int = 0) -> list[tuple[bytes, int]]:
    return list(messages(portions, at=1000.5, sequence=sequence, domain=7))


def sets_of(message: bytes) -> list[tuple[int, bytes]]:
    """Return the sets of a message: number and content."""
    found, at = [], 16
    while at < len(message):
        number, size = struct.unpack_from("!HH", message, at)
        found.append((number, message[at + 4 : at + size]))
        at += size
    assert at == len(message)
    return found


def test_each_direction_is_a_flow_of_its_family_with_what_was_counted_since() -> None:
    ((message, flows),) = told(Portion(FOUR, 10, 1000, 5, 500), Portion(SIX, 1, 60, 0, 0))
    assert struct.unpack_from("!HHIII", message) == (10, len(message), 1000, 0, 7)
    assert flows == 3
    (template, _), *data = sets_of(message)
    assert (template, [number for number, _ in data]) == (2, [256, 256, 257])
    there, back = (struct.unpack_from("!4s4sHHBQQQQBB", one) for _, one in data[:2])
    assert there[:7] == (bytes((10, 1, 0, 2)), bytes((10, 1, 0, 9)), 40000, 8080, 6, 1000, 10)
    assert there[7:] == (1_000_250, 1_010_500, 1, 64)
    assert back[:7] == (there[1], there[0], 8080, 40000, 6, 500, 5)
    assert data[2][1][:16].hex() == "fd00" + "0" * 27 + "1"
    assert b"\x04blue\x03sea\x03web\x04shop\x05web-1" in data[1][1]


def test_what_was_dropped_says_so_and_why() -> None:
    dropped = replace(FOUR, verdict=DROPPED, ended=False)
    ((message, _),) = told(Portion(dropped, 3, 0, 0, 0))
    (_, flow) = sets_of(message)[1]
    assert struct.unpack_from("!4s4sHHBQQQQBB", flow)[-2:] == (2, 128)
    assert flow.endswith(b"\x07db:blue\x06policy\x05doors\x013")


def test_messages_are_small_and_numbered_by_the_flows_before() -> None:
    many = told(*[Portion(FOUR, 1, 60, 1, 60)] * 100, sequence=(1 << 32) - 5)
    assert sum(flows for _, flows in many) == 200
    assert all(len(message) <= ipfix.LARGEST for message, _ in many)
    expected = (1 << 32) - 5
    for message, flows in many:
        assert struct.unpack_from("!I", message, 8) == (expected,)
        expected = (expected + flows) % (1 << 32)
    assert [number for number, _ in sets_of(many[1][0])].count(2) == 0
    assert told() == []


def test_names_are_cut_so_that_a_flow_fits() -> None:
    text = "é" * 1000
    long = EndNames(tenant=text, network=text, group=text, namespace=text, pod=text)
    record = replace(
        FOUR,
        source=End("fd00::1", 1, long),
        destination=End("fd00::2", 2, long),
        service=text,
        reason=text,
        policy=text,
        rule=text,
    )
    found = told(Portion(record, 1, 60, 1, 60))
    assert sum(flows for _, flows in found) == 2
    assert all(len(message) <= ipfix.LARGEST for message, _ in found)
    (_, flow) = sets_of(found[-1][0])[-1]
    assert flow.count("é".encode() * 40) == len(ipfix.NAMES)
    assert "é".encode() * 41 not in flow


@pytest.mark.parametrize(
    ("name", "number"), [("tcp", 6), ("icmpv6", 58), ("sctp", 132), ("47", 47), ("igmp", 2)]
)
def test_protocols_are_numbers(name: str, number: int) -> None:
    assert ipfix.protocol(name) == number


def test_every_record_has_every_name() -> None:
    empty = FlowRecord(
        number=1,
        changed=1,
        first=0.0,
        last=0.0,
        verdict="forwarded",
        protocol="tcp",
        source=End("10.0.0.1", 1),
        destination=End("10.0.0.2", 2),
    )
    ((message, _),) = told(Portion(empty, 1, 60, 0, 0))
    (_, flow) = sets_of(message)[1]
    assert flow[-len(ipfix.NAMES) :] == bytes(len(ipfix.NAMES))
