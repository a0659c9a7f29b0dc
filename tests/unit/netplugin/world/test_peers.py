"""Hosts: the ends of tunnels, what uplinks send by, and whom this one speaks BGP with."""

from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface, IPv6Address

import pytest

from core.errors import Invalid
from core.ids import HostLabel
from netplugin.world.bridges.bridge_state import BridgeState
from netplugin.world.bridges.change_signal import ChangeSignal
from netplugin.world.peers import Peers
from ofnet.bgp.peering import Peering
from ofnet.changes import Changes, ObjectKind
from ofnet.world import Bridge, FwdMode, World
from state.records import BgpRecord, HostRecord
from tests.unit.netplugin.records import HOST, PEER, host


def bgp(hostname: str = HOST, **more: str) -> BgpRecord:
    record = BgpRecord(
        hostname=HostLabel(hostname),
        router_ip="192.0.2.1/24",
        as_number="65001",
        neighbor_as="65002",
        neighbor="192.0.2.254",
    )
    return replace(record, **more)


@pytest.fixture
def vlan() -> BridgeState:
    return BridgeState(Bridge.VLAN, ChangeSignal())


@pytest.fixture
def hosts(vlan: BridgeState) -> Peers:
    return Peers(HOST, vlan)


def test_the_ends_of_tunnels_are_other_hosts(hosts: Peers) -> None:
    own, other = host(HOST, "192.0.2.1"), host()
    # a host that was given another label is its own peer for a while
    for record in (own, other, host("old-label", "192.0.2.1"), host("h3", "")):
        hosts.put(record)
    assert hosts.tunnel_ends() == {PEER: IPv4Address("192.0.2.2")}
    assert hosts.count() == 4
    hosts.remove(PEER)
    assert hosts.tunnel_ends() == {}
    assert hosts.count() == 3


def both(label: str, four: str, six: str) -> HostRecord:
    return replace(host(label, four), vtep_ip6=six)


@pytest.mark.parametrize(
    ("own", "ends", "apart"),
    [
        (host(HOST, "192.0.2.1"), {"four": "192.0.2.4", "both": "192.0.2.6"}, {"six"}),
        (host(HOST, "fd77::1"), {"six": "fd77::5", "both": "fd77::6"}, {"four"}),
        (
            both(HOST, "192.0.2.1", "fd77::1"),
            {"four": "192.0.2.4", "six": "fd77::5", "both": "192.0.2.6"},
            set(),
        ),
    ],
    ids=["v4", "v6", "both"],
)
def test_tunnels_end_at_addresses_of_a_family_that_both_have(
    hosts: Peers, own: HostRecord, ends: dict[str, str], apart: set[str]
) -> None:
    others = host("four", "192.0.2.4"), host("six", "fd77::5"), both("both", "192.0.2.6", "fd77::6")
    for record in (*others, own, replace(own, label=HostLabel("old-label")), host("none", "::1")):
        hosts.put(record)
    assert {label: str(end) for label, end in hosts.tunnel_ends().items()} == ends
    assert hosts.apart() == apart


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("fd77::1", "FD77::1"),
        ("fd77::1", "fd77:0:0:0:0:0:0:1"),
        ("fd77::1", "fd77::1%eth0"),
        ("192.0.2.1", "::ffff:192.0.2.1"),
    ],
)
def test_no_tunnel_ends_at_this_host_however_its_address_is_written(
    hosts: Peers, own: str, said: str
) -> None:
    for record in (host(HOST, own), host("other", said)):
        hosts.put(record)
    assert hosts.tunnel_ends() == {}
    assert hosts.apart() == set()


def test_the_vlan_bridge_knows_what_other_hosts_send_by(hosts: Peers, vlan: BridgeState) -> None:
    macs = ("52:54:00:00:00:01", "52:54:00:00:00:02")
    vlan.take(World(fwd_mode=FwdMode.BRIDGE))
    hosts.put(replace(host(HOST), uplink_macs=macs))
    hosts.put(host("h3"))
    assert not vlan.dirty
    hosts.put(replace(host(), uplink_macs=macs))
    world, changes = vlan.take(World(fwd_mode=FwdMode.BRIDGE))
    assert world.peer_macs == {PEER: macs[0]}
    assert changes == Changes.of(ObjectKind.PEER, {PEER})
    hosts.remove(PEER)
    assert vlan.peer_macs == {}
    assert vlan.dirty


def test_whom_this_host_speaks_bgp_with(hosts: Peers) -> None:
    hosts.put_bgp(bgp(PEER))
    known = [hosts.peering]
    hosts.put_bgp(bgp())
    assert hosts.peering == Peering(
        router=IPv4Interface("192.0.2.1/24"),
        asn=65001,
        peer=IPv4Address("192.0.2.254"),
        peer_asn=65002,
        link_local=IPv6Address("fe80::402:c0ff:fe00:201"),
    )
    with pytest.raises(Invalid, match="h1"):
        hosts.put_bgp(bgp(neighbor="nobody"))
    for left in (PEER, HOST):
        hosts.remove_bgp(left)
        known.append(hosts.peering)
    assert [one is not None for one in known] == [False, True, False]
