"""What others remove of the agent's routing is told; what the agent changes itself is not."""

import asyncio
from collections.abc import AsyncIterator
from ipaddress import IPv4Address, IPv4Interface, ip_address, ip_network
from itertools import count

import pytest

from core.tasks import background
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.routes.route_table import HostRoute
from netplugin.kernel.routes.route_watch import RouteWatch
from tests.bed.netns import Namespace
from tests.bed.waiting import WITHIN

pytestmark = pytest.mark.ovs

SOURCE = IPv4Address("192.0.2.1")
HOP = IPv4Address("172.19.255.253")
MAC = "02:02:ac:13:ff:fe"
ADDRESSES = [IPv4Interface("172.19.255.254/16")]
STILL = 0.5


@pytest.fixture
async def links(host: Namespace) -> AsyncIterator[KernelLinks]:
    links = KernelLinks()
    ip(host, "link add eth0 up type veth peer name far0", "link set far0 up")
    ip(host, "link add contivh0 up type veth peer name far1", "link set far1 up")
    ip(host, f"address add {SOURCE}/24 dev eth0")
    await converge(links)
    yield links
    links.close()


@pytest.fixture
async def watch(links: KernelLinks) -> AsyncIterator[RouteWatch]:  # noqa: ARG001 - links first
    watch = RouteWatch(lambda link: link == "contivh0", pause=0.0)
    async with background("route watch", watch.run()):
        await asyncio.sleep(0)  # it listens
        yield watch


def ip(host: Namespace, *commands: str) -> None:
    for command in commands:
        host.run(["ip", *command.split()])


def pods(*numbers: int) -> list[HostRoute]:
    return [
        HostRoute(subnet=ip_network(f"10.1.0.{one}/32"), source=SOURCE, via=HOP) for one in numbers
    ]


async def converge(links: KernelLinks) -> None:
    await links.ensure_rules([])
    await links.configure_host_link("contivh0", MAC, ADDRESSES)
    await links.ensure_neighbours("contivh0", {HOP: MAC})
    await links.ensure_routes("contivh0", pods(1, 2))
    await links.ensure_exceptions([ip_address("192.0.2.254")], only=True)


LOSSES = [
    "route flush table 20201",
    "route del 10.1.0.1 table 20201",
    "route del throw 192.0.2.254 table 20201",
    "rule flush protocol 201",
    "-6 rule del pref 32701",
    "address flush dev contivh0",
    "neighbour flush dev contivh0 nud permanent",
    "link set contivh0 down",
]


async def test_each_loss_is_told_and_all_is_back(
    links: KernelLinks, host: Namespace, watch: RouteWatch
) -> None:
    def picture() -> list[str]:
        words = (["rule"], ["-6", "rule"], ["route", "show", "table", "20201"], ["neighbour"])
        shown = [host.run(["ip", *one]).stdout for one in (*words, ["-4", "-br", "address"])]
        return [sorted(one.splitlines()) for one in shown]  # type: ignore[misc]

    before = picture()
    for loss in LOSSES:
        lost = watch.lost()
        ip(host, loss)
        async with asyncio.timeout(WITHIN):
            await lost.wait()
        await converge(links)
        assert picture() == before, loss


async def test_neither_pods_nor_others_cost_anything(
    links: KernelLinks, host: Namespace, watch: RouteWatch
) -> None:
    lost = watch.lost()
    for number in range(3, 40):
        await links.change_routes("contivh0", [], pods(number))
        await links.change_routes("contivh0", pods(number), [])
    await links.change_exceptions([], [ip_address("192.0.2.7")])
    await links.change_exceptions([ip_address("192.0.2.7")], [])
    await links.ensure_routes("contivh0", pods(1))
    await links.ensure_rules([ip_network("10.1.0.0/16")])
    await links.ensure_rules([])
    await links.configure_host_link("contivh0", MAC, [IPv4Interface("172.22.255.254/16")])
    ip(
        host,
        "route add 198.51.100.0/24 dev eth0",
        "route del 198.51.100.0/24 dev eth0",
        "rule add pref 100 lookup 100",
        "rule del pref 100",
        "address add 192.0.2.9/32 dev eth0",
        "address del 192.0.2.9/32 dev eth0",
        "link add vvport7 type veth peer name far7",
        "link set vvport7 up",
        "link set vvport7 down",
        "link delete vvport7",
    )
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(STILL):
            await lost.wait()


async def test_a_program_that_removes_all_the_time_is_told_of_now_and_then(
    links: KernelLinks, host: Namespace, watch: RouteWatch
) -> None:
    told = 0
    for _ in count():
        lost = watch.lost()
        ip(host, "route del 10.1.0.1 table 20201")
        await links.change_routes("contivh0", [], pods(1))
        await asyncio.sleep(0)
        told += lost.is_set()
        if told == 2:
            break
