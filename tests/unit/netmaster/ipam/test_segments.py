"""VLANs, VNIs and local VLANs; refusals in the original's words."""

import pytest

from core.errors import Conflict, ContivError, Exhausted, Invalid
from core.ids import NetworkName, TenantName
from netmaster.ipam.segments import (
    Segment,
    Segments,
    TagRange,
    parse_range,
    parse_vlans,
    parse_vxlans,
)
from state.records import Encap, NetworkRecord, NetworkType


def _network(encap: Encap, tags: Segment) -> NetworkRecord:
    return NetworkRecord(
        tenant=TenantName("default"),
        name=NetworkName("n"),
        type=NetworkType.DATA,
        encap=encap,
        pkt_tag=tags.pkt_tag,
        ext_pkt_tag=tags.ext_pkt_tag,
        subnet="10.1.1.0",
        subnet_len=24,
        gateway="",
        first="10.1.1.0",
        last="10.1.1.255",
        ipv6_subnet="",
        ipv6_subnet_len=0,
        ipv6_gateway="",
        network_tag="n.default",
    )


def _segments(vlans: str = "1-4094", vxlans: str = "1-10000") -> Segments:
    segments = Segments()
    segments.configure(parse_vlans(vlans), parse_vxlans(vxlans))
    return segments


def _take(segments: Segments, encap: Encap, requested: int = 0) -> tuple[int, int]:
    tags = segments.choose(encap, requested)
    segments.take(_network(encap, tags))
    return tags.pkt_tag, tags.ext_pkt_tag


def _refusal(segments: Segments, encap: Encap, requested: int) -> str:
    with pytest.raises(ContivError) as caught:
        segments.choose(encap, requested)
    return str(caught.value)


def test_lowest_free_tags() -> None:
    segments = _segments()
    assert _take(segments, Encap.VLAN) == (1, 0)
    assert _take(segments, Encap.VXLAN) == (1, 1)
    assert _take(segments, Encap.VXLAN) == (2, 2)
    assert _take(segments, Encap.VXLAN, 1000) == (3, 1000)
    assert _take(segments, Encap.VLAN) == (2, 0)
    assert segments.vlans_text == "1-2"
    assert segments.vxlans_text == "1-2, 1000"


def test_tags_return_with_their_network() -> None:
    segments = _segments()
    for encap in Encap:
        tags = segments.choose(encap, 700)
        segments.take(_network(encap, tags))
        segments.release(_network(encap, tags))
        assert segments.choose(encap, 700) == tags
    assert segments.vlans_text == segments.vxlans_text == ""


@pytest.mark.parametrize("requested", [100, 5000, 4095])
def test_vlan_that_cannot_be_had(requested: int) -> None:
    segments = _segments("1-4095")
    _take(segments, Encap.VLAN, 100)
    text = _refusal(segments, Encap.VLAN, requested)
    assert text == f"requested vlan not available - vlan:{requested}"


def test_negative_vlan_reads_as_the_originals_unsigned_one() -> None:
    text = _refusal(_segments(), Encap.VLAN, -1)
    assert text == "requested vlan not available - vlan:18446744073709551615"


def test_vni_that_cannot_be_had() -> None:
    segments = _segments(vxlans="1001-2000")
    _take(segments, Encap.VXLAN, 1500)
    assert _refusal(segments, Encap.VXLAN, 1500) == "requested vxlan not available"
    assert _refusal(segments, Encap.VXLAN, 2001) == "requested vxlan not available"
    assert _refusal(segments, Encap.VXLAN, -1) == "requested vxlan not available"
    assert _refusal(segments, Encap.VXLAN, 1000) == "requested vxlan is out of range"
    assert segments.vxlans_start == 1000


def test_exhaustion() -> None:
    segments = _segments("10-11", "20-20")
    assert _take(segments, Encap.VLAN) == (10, 0)
    assert _take(segments, Encap.VLAN) == (11, 0)
    assert _take(segments, Encap.VXLAN) == (1, 20)
    with pytest.raises(Exhausted, match=r"^no vlans available$"):
        segments.choose(Encap.VLAN, 0)
    with pytest.raises(Exhausted, match=r"^no vxlans available$"):
        segments.choose(Encap.VXLAN, 0)


def test_local_vlans_can_run_out_before_vnis() -> None:
    segments = _segments()
    for number in range(1, 4095):
        segments.take(_network(Encap.VXLAN, Segment(pkt_tag=number, ext_pkt_tag=number)))
    with pytest.raises(Exhausted, match=r"^no local vlans available$"):
        segments.choose(Encap.VXLAN, 0)


def test_without_ranges_nothing_is_free() -> None:
    segments = _segments()
    segments.configure(None, None)
    with pytest.raises(Exhausted):
        segments.choose(Encap.VLAN, 0)
    with pytest.raises(Conflict):
        segments.choose(Encap.VXLAN, 5)


def test_tags_in_use_survive_a_change_of_ranges() -> None:
    segments = _segments()
    _take(segments, Encap.VLAN, 10)
    segments.configure(parse_vlans("9-11"), parse_vxlans("1-100"))
    assert _take(segments, Encap.VLAN) == (9, 0)
    assert _take(segments, Encap.VLAN) == (11, 0)
    assert segments.vlans_text == "9-11"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-5000", "invalid range 1-5000, vlan values exceed 4095 max allowed"),
        ("0-4094", "invalid range 0-4094, values less than 1"),
        ("100-50", "invalid range 100-50, min is greater than max"),
        ("5--100", "invalid tags 5--100, correct '10-50,70-100'"),
        ("7", "invalid tags 7, correct '10-50,70-100'"),
    ],
)
def test_what_is_no_range_of_vlans(text: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_vlans(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1-70000", "invalid range 1-70000, vlan values exceed 65535 max allowed"),
        ("1-20000", "does not allow vxlan range to exceed 16000 range 1-20000"),
        ("5-1", "invalid range 5-1, min is greater than max"),
    ],
)
def test_what_is_no_range_of_vnis(text: str, message: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_vxlans(text)
    assert str(caught.value) == message


def test_cover() -> None:
    assert parse_range("9-301") == TagRange(9, 301)
    assert TagRange(9, 301).covers({10, 300})
    assert not TagRange(50, 301).covers({10, 300})
    assert not TagRange(1, 200).covers({10, 300})
    assert TagRange(5, 6).covers(set())
