"""Flow entries of services' clients, taken apart again."""

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ofnet.changes import ObjectKind
from ofnet.channel import flow_stats
from ofnet.channel.flow_stats import COOKIE, COOKIE_MASK, ReportedClient
from ofnet.channel.wire import MalformedOpenflow
from ofnet.tables import TableId
from ofnet.world import Bridge, FwdMode, ServicePort
from tests.unit.ofnet.fake_switch import reply
from tests.unit.ofnet.pipelines.scene import ANN, BOB, world
from tests.unit.ofnet.serving import VIP, Site, having, service


def site(*providers: IPv4Address, fwd_mode: FwdMode = FwdMode.BRIDGE) -> Site:
    here = Site(Bridge.VXLAN, having(world(fwd_mode), service(*providers)))
    here.asks(ANN)
    return here


def body(here: Site) -> bytes:
    flows = [flow for flow in here.desired.flows.values() if flow.owner is ObjectKind.SERVED]
    return reply(flows, {flow.cookie: (7, 700) for flow in flows})


def test_the_cookie_identifies_flows_of_service_clients() -> None:
    flows = site(BOB.ip).desired.flows.values()
    assert {flow.owner for flow in flows if flow.cookie & COOKIE_MASK == COOKIE} == {
        ObjectKind.SERVED
    }


def test_an_entry_says_what_its_flow_does() -> None:
    entries, more = flow_stats.entries(body(site(BOB.ip)))
    assert not more
    translating = [one for one in entries if one.sets]
    there, _, back, _ = sorted(translating, key=lambda one: (one.table, one.protocol))
    assert (there.table, there.vrf, there.protocol) == (TableId.SRV_PROXY_DNAT, 1, 6)
    assert (there.packets, there.bytes) == (7, 700)
    assert (there.address("ipv4_src"), there.address("ipv4_dst")) == (ANN.ip, VIP)
    assert (there.port("src"), there.port("dst"), there.set_port("dst")) == (0, 80, 8080)
    assert there.set_address("ipv4_dst") == BOB.ip
    assert (back.table, back.set_address("ipv4_src")) == (TableId.SRV_PROXY_SNAT, VIP)
    assert (back.port("src"), back.set_port("src")) == (8080, 80)


@pytest.mark.parametrize("provider", [BOB.ip, ANN.ip])
@pytest.mark.parametrize("fwd_mode", FwdMode)
def test_clients_and_providers_are_read_back(provider: IPv4Address, fwd_mode: FwdMode) -> None:
    here = site(provider, fwd_mode=fwd_mode)
    entries, _ = flow_stats.entries(body(here))
    assert set(flow_stats.reported_clients(entries)) == {
        ReportedClient(1, ANN.ip, VIP, 6, 80, 0, provider),
        ReportedClient(1, ANN.ip, VIP, 17, 5601, 0, provider),
    }
    after = Site(Bridge.VXLAN, having(world(fwd_mode), service(provider, BOB.ip)))
    after.adopts(*flow_stats.reported_clients(entries))
    assert after.lines(3, 6) == here.lines(3, 6)


def test_direct_connections_are_read_back() -> None:
    here = site(BOB.ip)
    here.asks(ANN, BOB.ip, ServicePort(6, 8080, 8080), source_port=41000)
    found = list(flow_stats.reported_clients(flow_stats.entries(body(here))[0]))
    assert ReportedClient(1, ANN.ip, BOB.ip, 6, 8080, 41000, BOB.ip) in found
    after = Site(Bridge.VXLAN, having(world(FwdMode.BRIDGE), service(BOB.ip)))
    after.adopts(*found)
    assert after.lines(3, 6) == here.lines(3, 6)


@given(st.integers(0, 1000), st.binary(min_size=1, max_size=8))
def test_nothing_is_read_past_its_end(at: int, junk: bytes) -> None:
    """Any reply is decoded or raises MalformedOpenflow."""
    whole = bytearray(body(site(ANN.ip)))
    place = 8 + at % (len(whole) - 8)
    whole[place : place + len(junk)] = junk[: len(whole) - place]
    try:
        entries, _ = flow_stats.entries(bytes(whole))
        list(flow_stats.reported_clients(entries))
    except MalformedOpenflow:
        return


def test_a_cut_entry_is_refused() -> None:
    with pytest.raises(MalformedOpenflow):
        flow_stats.entries(body(site(BOB.ip))[:-4])


def test_a_field_that_is_too_long_is_refused() -> None:
    whole = body(site(BOB.ip))
    field, longer = b"\x80\x00\x16\x04", b"\x80\x00\x16\x05"
    assert field in whole
    with pytest.raises(MalformedOpenflow):
        flow_stats.entries(whole.replace(field, longer))
