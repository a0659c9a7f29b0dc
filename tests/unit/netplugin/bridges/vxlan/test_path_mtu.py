"""A host that answers short packets only is reported; one that answers none is not."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address

import pytest

from core.errors import HostError
from core.ids import HostLabel
from core.tasks import background
from netplugin.bridges.vxlan.path_mtu import SHORT, VXLAN_OVERHEAD, PathMtu, ProbeTiming
from netplugin.world.peers import Address
from ofnet.world import Bridge
from tests.unit.netplugin.agent import eventually

PEERS = {HostLabel(f"h{number}"): IPv4Address(f"192.0.2.{number}") for number in range(1, 5)}


class Net:
    """A network that carries so much to each address."""

    def __init__(self) -> None:
        self.carries: dict[Address, int] = dict.fromkeys(PEERS.values(), 1500)
        self.size = 1500
        self.peers = dict(PEERS)
        self.found: dict[HostLabel, str] | None = None
        self.reports = 0
        self.silent: list[HostLabel] = []

    async def probe(self, address: Address, size: int) -> bool:
        await asyncio.sleep(0)
        if self.carries[address] < 0:
            raise HostError(f"cannot send an echo request to {address}: no")
        return size <= self.carries[address]

    def tunnel_ends(self) -> Mapping[HostLabel, IPv4Address]:
        return self.peers

    def of(self, _bridge: Bridge) -> int:
        return self.size - VXLAN_OVERHEAD[4]

    def suspect(self, host: HostLabel) -> None:
        self.silent.append(host)

    def set_faults(self, subject: str, faults: Iterable[str]) -> None:
        assert subject == "paths"
        self.found = {}
        for one in faults:
            host, _, fault = one.removeprefix("path to ").partition(": ")
            self.found[HostLabel(host)] = fault
        self.reports += 1

    def paths(self, interval: float = 3600) -> PathMtu:
        return PathMtu(
            peers=self,
            sizes=self,
            probe=self.probe,
            timing=ProbeTiming(interval=interval, check=0.001),
            board=self,
            next_hops=self,
        )


async def test_each_host_is_judged(caplog: pytest.LogCaptureFixture) -> None:
    net = Net()
    _, two, three, four = PEERS.values()
    net.carries |= {two: 1499, three: SHORT - 1, four: -1}
    paths = net.paths()
    await paths.probe_all()
    assert net.found is not None
    assert net.found.keys() == {"h2", "h4"}
    assert net.silent == ["h3"]
    assert net.found[HostLabel("h2")].startswith(f"packets of 1500 bytes do not pass to {two}")
    assert "--mtu" in net.found[HostLabel("h2")]
    assert net.found[HostLabel("h4")] == f"cannot send an echo request to {four}: no"
    net.carries |= dict.fromkeys(PEERS.values(), 1500)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            await paths.probe_all()
    assert net.found == {}
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("INFO", "path MTU recovered")
    ] * 2


async def test_new_hosts_and_new_sizes_are_probed_soon() -> None:
    net = Net()
    new = IPv4Address("192.0.2.9")
    net.carries[new] = 1400
    async with background("paths", net.paths().run()):
        await eventually(lambda: net.found == {})
        net.peers = {**PEERS, HostLabel("h9"): new}
        await eventually(lambda: net.found is not None and set(net.found) == {"h9"})
        net.size = 1400
        await eventually(lambda: net.found == {})


async def test_old_hosts_are_probed_again() -> None:
    net = Net()
    async with background("paths", net.paths(interval=0.0).run()):
        await eventually(lambda: net.reports > 3)
        net.carries[PEERS[HostLabel("h1")]] = 1000
        await eventually(lambda: net.found is not None and set(net.found) == {"h1"})
