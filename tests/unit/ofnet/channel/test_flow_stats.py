"""Flow entries of services, taken apart again."""

from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofnet.changes import ObjectKind
from ofnet.channel import flow_stats
from ofnet.channel.flow_stats import COOKIE, COOKIE_MASK, FlowEntry
from ofnet.channel.wire import MalformedOpenflow
from ofnet.tables import TableId
from ofnet.world import Service
from tests.unit.ofnet.fake_switch import reply
from tests.unit.ofnet.pipelines.scene import BOB, v6
from tests.unit.ofnet.serving import VIP, VIP6, flows_of_services, service
from tests.unit.ofnet.worlds import ip_of


def body(*services: Service) -> bytes:
    flows = [one for one in flows_of_services(*services) if one.owner is ObjectKind.SERVICE]
    return reply(flows, {flow.cookie: (7, 700) for flow in flows})


def found(table: TableId, *services: Service) -> list[FlowEntry]:
    entries, more = flow_stats.entries(body(*services))
    assert not more
    return [one for one in entries if one.table == table]


def test_the_cookie_identifies_flows_of_services() -> None:
    flows = flows_of_services(service(ip_of(BOB)))
    assert {flow.owner for flow in flows if flow.cookie & COOKIE_MASK == COOKIE} == {
        ObjectKind.SERVICE
    }


def test_an_entry_says_what_its_flow_matches() -> None:
    asked = [
        one for one in found(TableId.SRV_PROXY_DNAT, service(ip_of(BOB))) if one.port("dst") == 80
    ]
    assert [(one.vrf, one.protocol, one.address("dst")) for one in asked] == [(1, 6, VIP)]
    assert [(one.packets, one.bytes) for one in asked] == [(7, 700)]
    (answer,) = found(TableId.SRV_PROXY_SNAT, service(ip_of(BOB)))
    assert (answer.address("src"), answer.port("src"), answer.port("dst")) == (BOB.ip, 8080, 0)
    assert answer.address("dst") is None


def test_addresses_of_ipv6_are_read() -> None:
    (answer,) = found(TableId.SRV_PROXY_SNAT, service(v6(2), address=VIP6))
    assert answer.address("src") == IPv6Address(v6(2))


@given(st.integers(0, 1000), st.binary(min_size=1, max_size=8))
def test_nothing_is_read_past_its_end(at: int, junk: bytes) -> None:
    """Any reply is decoded or raises MalformedOpenflow."""
    whole = bytearray(body(service(ip_of(BOB))))
    place = 8 + at % (len(whole) - 8)
    whole[place : place + len(junk)] = junk[: len(whole) - place]
    try:
        flow_stats.entries(bytes(whole))
    except MalformedOpenflow:
        return


def test_a_cut_entry_is_refused() -> None:
    with pytest.raises(MalformedOpenflow):
        flow_stats.entries(body(service(ip_of(BOB)))[:-4])


def test_a_field_that_is_too_long_is_refused() -> None:
    whole = body(service(ip_of(BOB)))
    field, longer = b"\x80\x00\x16\x04", b"\x80\x00\x16\x05"
    assert field in whole
    with pytest.raises(MalformedOpenflow):
        flow_stats.entries(whole.replace(field, longer))
