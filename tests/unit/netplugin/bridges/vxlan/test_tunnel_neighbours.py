"""A tunnel next hop that Open vSwitch does not know is asked for, and named if that is in vain.

So is one whose MAC has changed; a tunnel endpoint that has moved is announced.
"""

import asyncio
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address

import pytest

from core.errors import HostError, SwitchRefused, SwitchUnavailable
from core.ids import HostLabel
from core.retry import begin_loops
from core.tasks import background
from netplugin.bridges.vxlan.tunnel_neighbours import (
    REFRESH,
    NeighbourTiming,
    TunnelNeighbours,
    known_neighbours,
    route_of,
)
from netplugin.world.peers import Address
from tests.unit.netplugin.agent import eventually

OWN = IPv4Address("192.0.2.1")
NEAR, FAR = HostLabel("near"), HostLabel("far")
NEAR_END, FAR_END = IPv4Address("192.0.2.2"), IPv4Address("198.51.100.2")
GATEWAY = IPv4Address("192.0.2.254")
MAC, OTHER_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
TABLE = """\
IP                                            MAC                 Bridge
==========================================================================
"""


class Net:
    """An Open vSwitch and the network around it, on which some answer ARP."""

    def __init__(self) -> None:
        self.peers: dict[HostLabel, Address] = {NEAR: NEAR_END, FAR: FAR_END}
        self.own_mac = MAC
        self.own_link = "br-phy"
        self.own: Address = OWN
        self.known: set[Address] = {NEAR_END, GATEWAY}
        self.in_kernel: dict[tuple[Address, str], str] = {}
        self.answering: set[Address] = {NEAR_END, GATEWAY}
        self.asked: list[tuple[str, Address, Address]] = []
        self.announced: list[tuple[str, Address]] = []
        self.found: Mapping[HostLabel, str] | None = None
        self.away = False
        self.link_up = True

    async def call(self, command: str, *arguments: str) -> str:
        await asyncio.sleep(0)
        if self.away:
            raise SwitchUnavailable("no ovs-vswitchd")
        if command == "tnl/neigh/show":
            lines = [f"{address}    {MAC}   br-phy" for address in self.known]
            return TABLE + "\n".join([*lines, "fe80::1    02:00:00:00:00:01   br-phy"])
        assert command == "ovs/route/lookup"
        if arguments == (str(self.own),):
            return f"src {self.own}\ngateway ::\ndev {self.own_link}\n" if self.own_link else ""
        if arguments == ("203.0.113.9",):
            raise SwitchRefused("Not found")
        gateway = GATEWAY if arguments == (str(FAR_END),) else "::"
        return f"src {self.own}\ngateway {gateway}\ndev br-phy\n"

    def ask(self, link: str, address: Address, target: Address) -> None:
        if not self.link_up:
            raise HostError(f"cannot send ARP by {link}: down")
        self.asked.append((link, address, target))
        if target in self.answering:
            self.known.add(target)

    def announce(self, link: str, address: Address) -> None:
        self.announced.append((link, address))

    def resolved(self, _version: int) -> Mapping[tuple[Address, str], str]:
        return self.in_kernel

    def mac_of(self, link: str) -> str:
        assert link == self.own_link
        return self.own_mac

    def tunnel_ends(self) -> Mapping[HostLabel, Address]:
        return self.peers

    def set_faults(self, subject: str, faults: Iterable[str]) -> None:
        assert subject == "tunnel neighbours"
        self.found = {}
        for one in faults:
            host, _, fault = one.removeprefix("tunnel to ").partition(": ")
            self.found[HostLabel(host)] = fault

    def neighbours(self) -> TunnelNeighbours:
        return TunnelNeighbours(
            peers=self,
            own=(self.own,),
            control=self,
            frames=self,
            board=self,
            timing=NeighbourTiming(check=0.001, answer=0.001),
        )

    async def settled(self) -> TunnelNeighbours:
        """Return neighbours after the first check, with what was done before forgotten."""
        neighbours = self.neighbours()
        await neighbours.check()
        assert (self.announced, self.found) == ([("br-phy", OWN)], {})
        self.asked.clear()
        self.announced.clear()
        return neighbours


async def test_new_peers_are_told_of_this_host_once() -> None:
    net = Net()
    neighbours = await net.settled()
    await neighbours.check()
    assert (net.announced, net.found) == ([], {})
    net.peers[NEAR] = IPv4Address("192.0.2.3")
    net.answering.add(net.peers[NEAR])
    for _ in range(3):
        await neighbours.check()
        assert (net.announced, net.found) == ([("br-phy", OWN)], {})


async def test_what_is_unknown_is_asked_for_and_heals_unnamed() -> None:
    net = Net()
    neighbours = await net.settled()
    net.known -= {NEAR_END}
    await neighbours.check()
    assert net.asked == [("br-phy", OWN, NEAR_END)]
    assert len(net.announced) == 1
    assert net.found == {}


async def test_a_lane_that_stays_closed_is_named_until_it_opens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = Net()
    neighbours = await net.settled()
    net.known, net.answering = set(), {NEAR_END}
    with caplog.at_level("INFO"):
        await neighbours.check()
        await neighbours.check()
        assert net.found is not None
        assert net.found.keys() == {FAR}
        assert str(GATEWAY) in net.found[FAR]
        assert "see that ARP passes" in net.found[FAR]
        net.answering.add(GATEWAY)
        await neighbours.check()
    assert net.found == {}
    assert [record.message for record in caplog.records] == [
        "tunnel next hop unresolved",
        "tunnel next hop resolved",
    ]


async def test_a_peer_that_is_silent_is_asked_for_anew() -> None:
    net = Net()
    neighbours = await net.settled()
    neighbours.suspect(NEAR)
    neighbours.suspect(HostLabel("gone"))
    await neighbours.check()
    assert net.asked == [("br-phy", OWN, NEAR_END)]
    await neighbours.check()
    assert len(net.asked) == 1


async def test_a_tunnel_end_that_moves_is_announced() -> None:
    net = Net()
    neighbours = await net.settled()
    for net.own_link, net.own_mac in (("br-phy", OTHER_MAC), ("br-ex", OTHER_MAC)):
        net.announced.clear()
        await neighbours.check()
        assert (net.own_link, OWN) in net.announced
        net.announced.clear()
        await neighbours.check()
        assert net.announced == []


async def test_a_tunnel_end_that_stays_is_announced_now_and_then() -> None:
    net = Net()
    neighbours = await net.settled()
    for _ in range(REFRESH - 1):
        await neighbours.check()
    assert net.announced == []
    for _ in range(2 * REFRESH):
        await neighbours.check()
    assert net.announced == [("br-phy", OWN)] * 2


async def test_a_host_whose_end_has_moved_asks_for_all_next_hops() -> None:
    net = Net()
    neighbours = await net.settled()
    net.own_mac = OTHER_MAC
    await neighbours.check()
    assert {target for _, _, target in net.asked} == {NEAR_END, GATEWAY}


async def test_a_tunnel_end_on_no_link_is_announced_when_it_is_on_one() -> None:
    net = Net()
    neighbours = await net.settled()
    net.own_link = ""
    await neighbours.check()
    assert net.announced == []
    net.own_link, net.link_up = "br-ex", False
    await neighbours.check()
    assert net.announced == []
    net.link_up = True
    await neighbours.check()
    assert ("br-ex", OWN) in net.announced


@pytest.mark.parametrize(("address", "asked"), [(NEAR_END, NEAR_END), (GATEWAY, GATEWAY)])
async def test_a_mac_that_the_kernel_knows_differently_is_asked_for(
    address: IPv4Address, asked: IPv4Address
) -> None:
    net = Net()
    neighbours = await net.settled()
    net.in_kernel = {(address, "br-phy"): MAC, (address, "eth9"): OTHER_MAC}
    await neighbours.check()
    assert net.asked == []
    net.in_kernel = {(address, "br-phy"): OTHER_MAC}
    for _ in range(2):
        await neighbours.check()
        assert net.asked == [("br-phy", OWN, asked)], "not in two checks running"
    await neighbours.check()
    assert len(net.asked) == 2
    assert net.found == {}


async def test_next_hops_of_ipv6_are_resolved_likewise() -> None:
    own, peer = IPv6Address("fd77::1"), IPv6Address("fd77::2")
    net = Net()
    net.peers, net.known, net.answering = {NEAR: peer}, set(), set()
    net.own = own
    neighbours = net.neighbours()
    await neighbours.check()
    assert (net.asked, net.announced) == ([("br-phy", own, peer)], [("br-phy", own)])
    assert net.found is not None
    assert "see that neighbour discovery passes" in net.found[NEAR]
    net.answering = {peer}
    await neighbours.check()
    assert net.found == {}
    net.in_kernel = {(peer, "br-phy"): OTHER_MAC}
    net.asked.clear()
    await neighbours.check()
    assert net.asked == [("br-phy", own, peer)]


async def test_a_lane_without_a_route_is_named() -> None:
    net = Net()
    net.peers = {NEAR: NEAR_END, FAR: IPv4Address("203.0.113.9")}
    await net.neighbours().check()
    assert net.found is not None
    assert net.found.keys() == {FAR}
    assert "no route" in net.found[FAR]


async def test_a_link_that_sends_no_arp_is_named() -> None:
    net = Net()
    net.link_up, net.known = False, set()
    await net.neighbours().check()
    assert net.found is not None
    assert set(net.found.values()) == {"cannot send ARP by br-phy: down"}


async def test_a_switch_that_is_away_changes_nothing() -> None:
    net = Net()
    net.known, net.answering = set(), set()
    neighbours = net.neighbours()
    await neighbours.check()
    before, net.away = net.found, True
    with pytest.raises(SwitchUnavailable):
        await neighbours.check()
    assert net.found is before


async def test_a_switch_that_stays_away_is_counted() -> None:
    net, loops = Net(), begin_loops()
    net.away = True
    async with background("neighbours", net.neighbours().run()):
        await eventually(lambda: loops.failures["tunnel neighbours not checked"] > 2)
        net.away = False
        await eventually(lambda: net.found == {})


async def test_lanes_are_checked_again_and_again() -> None:
    net = Net()
    async with background("neighbours", net.neighbours().run()):
        await eventually(lambda: net.found == {})
        net.known.clear()
        await eventually(lambda: net.known == {NEAR_END, GATEWAY})


def test_a_host_without_peers_has_no_lanes() -> None:
    net = Net()
    net.peers, net.away = {}, True
    asyncio.run(net.neighbours().check())
    assert net.found == {}


def test_neighbours_of_both_families_are_known() -> None:
    lines = f"fd77::2  {MAC}  br-phy\n192.0.2.2  {OTHER_MAC}  br-phy\n"
    assert known_neighbours(TABLE + lines) == {
        (IPv6Address("fd77::2"), "br-phy"): MAC,
        (IPv4Address("192.0.2.2"), "br-phy"): OTHER_MAC,
    }


def test_a_neighbour_is_known_by_address_and_bridge() -> None:
    text = TABLE + f"192.0.2.2     {MAC}   br-phy\n"
    assert known_neighbours(text) == {(NEAR_END, "br-phy"): MAC}


def test_an_answer_without_a_route_is_refused() -> None:
    with pytest.raises(ValueError, match="no route"):
        route_of("Not found", NEAR_END)
