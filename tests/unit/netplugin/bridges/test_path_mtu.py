"""A host that answers short packets only is reported; one that answers none is not."""

import asyncio
from collections.abc import Mapping
from ipaddress import IPv4Address

import pytest

from core.errors import HostError
from core.ids import HostLabel
from core.tasks import background
from netplugin.bridges import path_mtu
from netplugin.bridges.path_mtu import SHORT, PathMtu
from tests.unit.netplugin.agent import eventually

PEERS = {HostLabel(f"h{number}"): IPv4Address(f"192.0.2.{number}") for number in range(1, 5)}


class Net:
    """A network that carries so much to each address."""

    def __init__(self) -> None:
        self.carries = dict.fromkeys(PEERS.values(), 1500)
        self.size = 1500
        self.peers = dict(PEERS)
        self.found: Mapping[HostLabel, str] | None = None
        self.looks = 0

    async def probe(self, address: IPv4Address, size: int) -> bool:
        await asyncio.sleep(0)
        if self.carries[address] < 0:
            raise HostError(f"cannot send an echo request to {address}: no")
        return size <= self.carries[address]

    def take(self, faults: Mapping[HostLabel, str]) -> None:
        self.found = faults
        self.looks += 1

    def paths(self, interval: float = 3600) -> PathMtu:
        return PathMtu(
            peers=lambda: self.peers,
            size=lambda: self.size,
            probe=self.probe,
            interval=interval,
            complain=self.take,
        )


async def test_each_host_is_judged() -> None:
    net = Net()
    _, two, three, four = PEERS.values()
    net.carries |= {two: 1499, three: SHORT - 1, four: -1}
    await net.paths().look()
    assert net.found is not None
    assert net.found.keys() == {"h2", "h4"}
    assert net.found[HostLabel("h2")].startswith(f"packets of 1500 bytes do not pass to {two}")
    assert "--mtu" in net.found[HostLabel("h2")]
    assert net.found[HostLabel("h4")] == f"cannot send an echo request to {four}: no"
    net.carries |= dict.fromkeys(PEERS.values(), 1500)
    await net.paths().look()
    assert net.found == {}


async def test_new_hosts_and_new_sizes_are_looked_at_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_mtu, "FIRST_LOOK", 0.001)
    net = Net()
    new = IPv4Address("192.0.2.9")
    net.carries[new] = 1400
    async with background("paths", net.paths().run()):
        await eventually(lambda: net.found == {})
        net.peers = {**PEERS, HostLabel("h9"): new}
        await eventually(lambda: net.found is not None and set(net.found) == {"h9"})
        net.size = 1400
        await eventually(lambda: net.found == {})


async def test_old_hosts_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_mtu, "FIRST_LOOK", 0.001)
    net = Net()
    async with background("paths", net.paths(interval=0.0).run()):
        await eventually(lambda: net.looks > 3)
        net.carries[PEERS[HostLabel("h1")]] = 1000
        await eventually(lambda: net.found is not None and set(net.found) == {"h1"})
