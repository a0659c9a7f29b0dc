"""Meters, encoded as os-ken encodes them, and read from a switch's reply."""

import pytest
from os_ken.ofproto import ofproto_v1_3
from os_ken.ofproto import ofproto_v1_3_parser as reference

from ofnet.channel import meter_wire, wire
from ofnet.openflow.meters import Meter
from tests.unit.ofnet.channel.wire import DATAPATH, packed

METERS = [Meter(3, 1048, 100), Meter(4, 5, 8000)]
UNITS = ofproto_v1_3.OFPMF_KBPS | ofproto_v1_3.OFPMF_BURST


def mod(command: int, meter: Meter) -> reference.OFPMeterMod:
    bands = [reference.OFPMeterBandDrop(rate=meter.rate, burst_size=meter.burst)]
    return reference.OFPMeterMod(DATAPATH, command, UNITS, meter.id, bands)


def test_each_meter_is_added_and_then_changed() -> None:
    commands = (ofproto_v1_3.OFPMC_ADD, ofproto_v1_3.OFPMC_MODIFY)
    pairs = [(command, meter) for meter in METERS for command in commands]
    expected = [packed(mod(*pair), 7 + index) for index, pair in enumerate(pairs)]
    assert meter_wire.meters_set(METERS, 7) == b"".join(expected)


def test_a_meter_of_reports_counts_packets() -> None:
    meter = Meter.of_reports("a rule")
    units = ofproto_v1_3.OFPMF_PKTPS | ofproto_v1_3.OFPMF_BURST
    band = reference.OFPMeterBandDrop(rate=meter.rate, burst_size=meter.burst)
    expected = reference.OFPMeterMod(DATAPATH, ofproto_v1_3.OFPMC_ADD, units, meter.id, [band])
    assert meter_wire.meters_set([meter], 7).startswith(packed(expected, 7))
    assert meter_wire.meters(reported(meter, units=units)) == ([meter], False)
    assert 0xFF00 <= meter.id <= 0xFFFF
    assert meter.content != meter._replace(packets=False).content


def test_a_deleted_meter_is_named_alone() -> None:
    expected = reference.OFPMeterMod(DATAPATH, ofproto_v1_3.OFPMC_DELETE, 0, 9, [])
    assert meter_wire.meter_delete(9, 7) == packed(expected, 7)


def test_all_meters_are_asked_for() -> None:
    expected = reference.OFPMeterConfigStatsRequest(DATAPATH, 0, ofproto_v1_3.OFPM_ALL)
    assert meter_wire.meter_dump(7) == packed(expected, 7)


def reported(*meters: Meter, units: int = UNITS, more: bool = False) -> bytes:
    out = b"\x00\x0a" + int(more).to_bytes(2, "big") + bytes(4)
    for meter in meters:
        sizes = (24).to_bytes(2, "big") + units.to_bytes(2, "big") + meter.id.to_bytes(4, "big")
        band = b"\x00\x01\x00\x10" + meter.rate.to_bytes(4, "big") + meter.burst.to_bytes(4, "big")
        out += sizes + band + bytes(4)
    return out


def test_meters_are_read() -> None:
    assert meter_wire.meters(reported(*METERS)) == (METERS, False)
    assert meter_wire.meters(reported(more=True)) == ([], True)


def test_a_meter_of_another_kind_is_no_limit_of_ours() -> None:
    packets = ofproto_v1_3.OFPMF_PKTPS
    assert meter_wire.meters(reported(METERS[0], units=packets)) == ([Meter(3, 0, 0)], False)
    without_band = b"\x00\x0a" + bytes(6) + b"\x00\x08\x00\x05" + (3).to_bytes(4, "big")
    assert meter_wire.meters(without_band) == ([Meter(3, 0, 0)], False)


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x01" + bytes(6),
        reported(METERS[0])[:-1],
        reported(METERS[0]) + b"\x00\x04",
        b"\x00\x0a" + bytes(3),
        b"\x00\x0a" + bytes(6) + b"\x00\x04" + bytes(6),
    ],
)
def test_what_contradicts_itself_is_refused(body: bytes) -> None:
    with pytest.raises(wire.MalformedOpenflow):
        meter_wire.meters(body)
