"""The agent's own routing table, in a real namespace that stands for the host."""

import socket
from collections.abc import AsyncIterator
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from pathlib import Path

import pytest

from core.errors import HostError
from netplugin.kernel.netlink import requests as netlink
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.routes import route_table
from netplugin.kernel.routes.route_table import HostRoute
from tests.bed.netns import Namespace
from tests.bed.routing_events import routing_events
from tests.integration.netns.links import shown

pytestmark = pytest.mark.ovs

OWN = ["table", str(route_table.TABLE)]


@pytest.fixture
async def links(host: Namespace) -> AsyncIterator[KernelLinks]:  # noqa: ARG001 - stand in it
    links = KernelLinks()
    yield links
    links.close()


async def test_a_link_of_ours_has_the_routes_it_is_to_have(
    links: KernelLinks, host: Namespace
) -> None:
    host.run(["ip", "link", "add", "contivh0", "type", "veth", "peer", "name", "contivh1"])
    host.run(["ip", "link", "set", "contivh1", "up"])
    host.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"])
    await links.configure_host_link(
        "contivh0", "02:02:ac:13:ff:fe", [IPv4Interface("172.19.255.254/16")]
    )
    host.run(["ip", "route", "add", "default", "dev", "contivh1"])
    await links.ensure_routes("contivh1", [])
    assert not shown(host, "route", "show", "dev", "contivh1"), "of the table main"
    source = IPv4Address("192.0.2.1")
    for subnets in (["172.19.0.0/16"], ["172.19.0.0/16", "10.1.0.0/16"], ["10.1.0.0/16"], []):
        routes = [HostRoute(subnet=IPv4Network(subnet), source=source) for subnet in subnets]
        for _ in range(2):
            await links.ensure_routes("contivh0", routes)
        held = shown(host, "route", "show", *OWN, "dev", "contivh0")
        assert sorted(one["dst"] for one in held) == sorted(subnets)
        assert {(one["prefsrc"], one["protocol"]) for one in held} <= {("192.0.2.1", "201")}


async def test_a_source_of_routes_is_taken_for_nothing_else(
    links: KernelLinks, host: Namespace
) -> None:
    host.run(["ip", "link", "add", "contivh0", "up", "type", "veth", "peer", "name", "contivh1"])
    host.run(["ip", "link", "set", "contivh1", "up"])
    host.run(["ip", "address", "add", "2001:db8::1/64", "dev", "lo", "nodad"])
    source = IPv6Address("fd63::1")
    for _ in range(2):
        await links.ensure_source("contivh0", source)
    ways = {IPv6Network("fd00:1::/64"): source, IPv6Network("fd00:2::1/128"): None}
    routes = [HostRoute(subnet=subnet, source=one) for subnet, one in ways.items()]
    await links.ensure_rules([])
    await links.ensure_routes("contivh0", routes)
    for subnet, chosen in zip(ways, ("fd63::1", "2001:db8::1"), strict=True):
        (way,) = shown(
            host, "-6", "route", "get", str(subnet[0] if chosen[0] == "2" else subnet[1])
        )
        assert way["prefsrc"] == chosen


async def test_a_link_without_ipv6_has_the_routes_of_ipv4(
    links: KernelLinks, host: Namespace
) -> None:
    host.run(["ip", "link", "add", "contivh0", "up", "type", "veth", "peer", "name", "contivh1"])
    host.run(["sysctl", "-q", "-w", "net.ipv6.conf.contivh0.disable_ipv6=1"])
    await links.ensure_source("contivh0", IPv6Address("fd63::1"))
    four, six = IPv4Network("10.1.0.0/16"), IPv6Network("fd00:1::/64")
    routes = [HostRoute(subnet=four, source=None), HostRoute(subnet=six, source=None)]
    await links.ensure_routes("contivh0", routes)
    (made,) = shown(host, "route", "show", *OWN, "dev", "contivh0")
    assert made["dst"] == "10.1.0.0/16"


async def test_a_route_that_is_refused_stops_no_other(links: KernelLinks, host: Namespace) -> None:
    host.run(["ip", "link", "add", "contivh1", "type", "veth", "peer", "name", "far0"])
    host.run(["ip", "link", "set", "contivh1", "up"])
    host.run(["ip", "link", "set", "far0", "up"])
    host.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"])
    host.run(["ip", "route", "add", *OWN, "10.1.0.0/16", "dev", "far0", "metric", "256"])
    source = IPv4Address("192.0.2.1")
    subnets = ["10.1.0.0/16", "10.2.0.0/16"]
    routes = [HostRoute(subnet=IPv4Network(subnet), source=source) for subnet in subnets]
    with pytest.raises(HostError, match="routes of link contivh1: File exists"):
        await links.ensure_routes("contivh1", routes)
    (made,) = shown(host, "route", "show", *OWN, "dev", "contivh1")
    assert made["dst"] == "10.2.0.0/16"


async def test_routes_of_a_link_are_changed_one_by_one(links: KernelLinks, host: Namespace) -> None:
    host.run(["ip", "link", "add", "contivh0", "type", "veth", "peer", "name", "contivh1"])
    host.run(["ip", "link", "set", "contivh1", "up"])
    host.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"])
    private, hop = [IPv4Interface("172.19.255.254/16")], IPv4Address("172.19.255.253")
    await links.configure_host_link("contivh0", "02:02:ac:13:ff:fe", private)
    source, six = IPv4Address("192.0.2.1"), IPv6Address("fe80::1")
    plain = HostRoute(subnet=IPv4Network("172.19.0.0/16"), source=source)
    pods = [
        HostRoute(subnet=IPv4Network("10.1.0.2/32"), source=source, via=hop),
        HostRoute(subnet=IPv4Network("10.1.0.3/32"), source=source, via=hop, metric=7),
        HostRoute(subnet=IPv6Network("fd00:1::2/128"), source=None, via=six),
        HostRoute(subnet=IPv6Network("fd00:1::/64"), source=None),
    ]

    def held() -> list[tuple[str, str, str]]:
        found = []
        for family in ("-4", "-6"):
            found += shown(host, family, "route", "show", *OWN, "dev", "contivh0")
        return sorted(
            (one["dst"], one.get("gateway", ""), str(one.get("metric", ""))) for one in found
        )

    await links.ensure_routes("contivh0", [plain, *pods])
    wanted = held()
    assert len(wanted) == 5
    await links.ensure_routes("contivh0", [plain])
    await links.change_routes("contivh0", [], pods)
    assert held() == wanted, "as if all had been set at once"
    await links.change_routes("contivh0", pods, [])
    await links.change_routes("contivh0", pods, [])
    assert [one[0] for one in held()] == ["172.19.0.0/16"]
    with pytest.raises(HostError, match="routes of link contivh0: File exists"):
        await links.change_routes("contivh0", [], [plain, pods[0]])
    assert [one[0] for one in held()] == ["10.1.0.2", "172.19.0.0/16"]


SOURCE = IPv4Address("192.168.77.1")
HOP = IPv4Address("172.19.255.253")


def ip(host: Namespace, *commands: str) -> None:
    for command in commands:
        host.run(["ip", *command.split()])


@pytest.fixture
async def routed(links: KernelLinks, host: Namespace) -> KernelLinks:
    """Give the host a card with its underlay, a default route, and the agent's table."""
    ip(
        host,
        "link add eth0 up type veth peer name far0",
        "link set far0 up",
        "link add contivh0 up type veth peer name far1",
        "link set far1 up",
        "address add 192.168.77.1/24 dev eth0",
        "route add default via 192.168.77.53",
        "-6 address add 2001:db8:77::1/64 dev eth0 nodad",
        "-6 route add default via 2001:db8:77::53",
    )
    await links.ensure_rules([])
    return links


def route(subnet: str, metric: int = 512) -> HostRoute:
    four = ":" not in subnet
    return HostRoute(
        subnet=ip_network(subnet),
        source=SOURCE if four else None,
        via=HOP if four else IPv6Address("fe80::1"),
        metric=metric,
    )


async def by(links: KernelLinks, *addresses: str) -> list[str]:
    ways = await links.ways([ip_address(one) for one in addresses])
    return [link for link, _ in ways.values()]


async def test_the_hosts_own_routes_come_first_but_its_default(
    routed: KernelLinks, host: Namespace
) -> None:
    ip(host, "route add 10.0.0.0/8 via 192.168.77.60", "-6 route add fd00::/16 via 2001:db8:77::60")
    subnets = ["192.168.77.128/25", "192.168.0.0/16", "10.1.0.0/16", "172.20.0.0/16"]
    six = ["2001:db8:77::/80", "fd00:1::/64", "fd01:1::/64"]
    await routed.ensure_routes("contivh0", [route(one) for one in [*subnets, *six]])
    theirs = ["192.168.77.200", "10.1.0.2", "2001:db8:77::2", "fd00:1::2", "203.0.113.5"]
    assert await by(routed, *theirs) == ["eth0"] * len(theirs)
    pods = ["192.168.78.2", "172.20.0.2", "fd01:1::2"]
    assert await by(routed, *pods) == ["contivh0"] * len(pods)
    await routed.ensure_rules([ip_network("10.1.0.0/16"), ip_network("fd00:1::/64")])
    assert await by(routed, "10.1.0.2", "fd00:1::2") == ["contivh0"] * 2
    assert await by(routed, "10.2.0.2", "fd00:2::2") == ["eth0"] * 2
    await routed.ensure_rules([])
    assert await by(routed, "10.1.0.2", "fd00:1::2") == ["eth0"] * 2


async def test_no_route_takes_an_excepted_address(routed: KernelLinks) -> None:
    spared = [ip_address("203.0.113.53"), ip_address("2001:db8:2::53")]
    subnets = ["203.0.113.0/24", "203.0.113.53/32", "2001:db8:2::/64", "2001:db8:2::53/128"]
    await routed.ensure_routes("contivh0", [route(one, metric=256) for one in subnets])
    await routed.ensure_rules([ip_network("203.0.113.0/24")])
    assert await by(routed, *map(str, spared)) == ["contivh0"] * 2
    await routed.ensure_exceptions(spared, only=False)
    for _ in range(2):
        assert await by(routed, *map(str, spared)) == ["eth0"] * 2
        assert await by(routed, "203.0.113.54", "2001:db8:2::54") == ["contivh0"] * 2
        await routed.ensure_exceptions(spared, only=True)
        await routed.ensure_exceptions([], only=False)
    await routed.change_exceptions(spared[:1], spared[1:])
    assert await by(routed, *map(str, spared)) == ["contivh0", "eth0"]
    await routed.ensure_exceptions(spared[:1], only=True)
    assert await by(routed, *map(str, spared)) == ["eth0", "contivh0"]


async def test_routes_of_an_earlier_release_are_moved(routed: KernelLinks, host: Namespace) -> None:
    await routed.configure_host_link(
        "contivh0", "02:02:ac:13:ff:fe", [IPv4Interface("172.19.255.254/16")]
    )
    hop = f"via {HOP} dev contivh0 onlink proto 201 src {SOURCE}"
    ip(
        host,
        f"route add 192.168.77.128/25 {hop} metric 512",
        f"route add 10.1.0.2/32 {hop}",
        f"route add 172.19.0.0/16 dev contivh0 proto 201 src {SOURCE}",
        "-6 route add fd00:1::/64 via fe80::1 dev contivh0 onlink proto 201 metric 2048",
    )
    assert await by(routed, "192.168.77.200") == ["contivh0"], "the host is cut off"
    assert await routed.adopt_routes() == 4
    assert shown(host, "route", "show", "proto", "201") == []
    pods = ["10.1.0.2", "172.19.0.7", "fd00:1::2"]
    assert await by(routed, "192.168.77.200", *pods) == ["eth0", *["contivh0"] * 3]
    assert await routed.adopt_routes() == 0
    await routed.ensure_routes("contivh0", [])
    assert shown(host, "route", "show", *OWN) == []


async def test_next_hops_are_told(routed: KernelLinks, host: Namespace) -> None:
    ip(host, "route add 198.51.100.0/24 via inet6 2001:db8:77::9 dev eth0")
    asked = [ip_address(one) for one in ("192.0.2.1", "2001:db8::1", "198.51.100.1", "127.0.0.1")]
    hops = ["192.168.77.53", "2001:db8:77::53", "2001:db8:77::9"]
    expected = [*(("eth0", ip_address(one)) for one in hops), ("lo", None)]
    assert list((await routed.ways(asked)).values()) == expected
    many = [IPv4Address("10.0.0.0") + number for number in range(200)]
    assert await routed.ways(many) == dict.fromkeys(many, expected[0])
    ip(host, "route del default")
    assert await by(routed, "192.0.2.1") == [""]


async def test_addresses_that_are_wrong_go(routed: KernelLinks, host: Namespace) -> None:
    ip(
        host,
        "link set contivh0 address 02:02:c0:a8:4d:fe",
        "address add 192.168.77.254/30 dev contivh0 noprefixroute",
    )
    assert await by(routed, "192.168.77.254") == ["lo"]
    mac = "02:02:c0:a8:4d:fe"
    assert await routed.drop_addresses(lambda _, link: link == mac) == ["192.168.77.254/30"]
    assert await by(routed, "192.168.77.254", "192.168.77.1") == ["eth0", "lo"]


async def test_nothing_is_left_of_rules_and_table(routed: KernelLinks, host: Namespace) -> None:
    await routed.ensure_rules([ip_network("10.1.0.0/16")])
    await routed.ensure_routes("contivh0", [route("10.1.0.0/16"), route("fd00:1::/64")])
    await routed.ensure_exceptions([ip_address("192.168.77.254")], only=True)
    assert await routed.routing() == [
        "rule 32699 of IPv4: to 10.1.0.0/16 lookup 20201",
        "rule 32700 of IPv4: lookup 254",
        "rule 32701 of IPv4: lookup 20201",
        "2 routes of IPv4 in table 20201",
        "rule 32700 of IPv6: lookup 254",
        "rule 32701 of IPv6: lookup 20201",
        "1 routes of IPv6 in table 20201",
    ]
    for _ in range(2):
        await routed.withdraw_routing()
        assert await routed.routing() == []
    assert len(shown(host, "rule", "show")) == 3


async def test_a_kernel_without_ipv6_rules_has_those_of_ipv4(
    links: KernelLinks, host: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = netlink.send

    def without_ipv6(*requests: bytes) -> list[int]:
        answers = send(*(one for one in requests if one[16] != socket.AF_INET6))
        return [answers.pop(0) if one[16] != socket.AF_INET6 else 97 for one in requests]

    monkeypatch.setattr(netlink, "send", without_ipv6)
    await links.ensure_rules([])
    assert len(shown(host, "rule", "show")) == 5


async def test_what_is_in_place_is_not_set_again(
    links: KernelLinks, host: Namespace, tmp_path: Path
) -> None:
    """Each event of a route has Open vSwitch's userspace datapath forget and read all of them."""
    host.run(["ip", "link", "add", "contivh0", "type", "veth", "peer", "name", "contivh1"])
    host.run(["ip", "link", "set", "contivh1", "up"])
    host.run(["ip", "address", "add", "192.0.2.1/32", "dev", "lo"])
    four, six = ip_address("172.19.255.253"), ip_address("fe80::1")
    source, source6 = IPv4Address("192.0.2.1"), IPv6Address("fd63::1")
    routes = [
        HostRoute(subnet=IPv4Network("172.19.0.0/16"), source=source),
        HostRoute(subnet=IPv4Network("10.1.0.2/32"), source=source, via=four),
        HostRoute(subnet=IPv6Network("fd00:1::/64"), source=source6, via=six),
        HostRoute(subnet=IPv6Network("fd00:1::2/128"), source=None, via=six),
    ]
    needed = {ip_address("192.0.2.254"), ip_address("2001:db8::254")}

    async def ensure() -> None:
        await links.ensure_rules([ip_network("10.1.0.0/16"), ip_network("fd00:1::/64")])
        await links.ensure_exceptions(needed, only=True)
        await links.configure_host_link(
            "contivh0", "02:02:ac:13:ff:fe", [IPv4Interface("172.19.255.254/16")]
        )
        await links.ensure_source("contivh0", source6)
        await links.ensure_neighbours("contivh0", dict.fromkeys((four, six), "02:02:02:02:02:02"))
        await links.ensure_routes("contivh0", routes)

    await ensure()
    with routing_events(host, tmp_path / "events") as seen:
        await ensure()
    assert seen == []
