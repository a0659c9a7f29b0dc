"""Every master knows this agent: the late, the restarted and those that did not answer at first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from core import keys
from core.tasks import background
from netplugin import control
from netplugin.control import ControlChannel
from objdb.api import Change, Delete, Put
from objdb.memory import MemoryBackend
from ofnet.control import REGISTER_NODE, Node
from ofnet.rpc import RpcFailed, Server
from ofnet.world import Bridge
from state import codec
from state.records import ServiceInstance
from tests.unit.netplugin.agent import eventually

OWN = "192.0.2.1"
ENDS = {(OWN, 9002), (OWN, 9003)}


class FakeServer(Server):
    """An RPC end that listens nowhere."""

    def __init__(self, port: int) -> None:
        super().__init__({}, host=OWN)
        self._number = port

    @property
    def port(self) -> int:
        return self._number


@dataclass(slots=True)
class Net:
    """The masters that can be reached, and who is registered with each."""

    silent: set[Node] = field(default_factory=set)
    known: dict[Node, list[tuple[str, int]]] = field(default_factory=dict)

    def client(self, host: str, port: int, *, timeout: float) -> "FakeClient":
        assert timeout == control.CALL_TIMEOUT
        return FakeClient(self, Node(host, port))


@dataclass(slots=True)
class FakeClient:
    net: Net
    master: Node

    async def call(self, method: str, argument: Any) -> bool:
        assert method == REGISTER_NODE
        await asyncio.sleep(0)
        if self.master in self.net.silent:
            raise RpcFailed("no answer")
        node = Node.from_json(argument)
        self.net.known.setdefault(self.master, []).append((node.host, node.port))
        return True

    def close(self) -> None:
        pass


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Net:
    net = Net()
    monkeypatch.setattr(control, "Client", net.client)
    monkeypatch.setattr(control, "backoff", lambda **_: iter([0.01] * 1000))
    return net


def service(address: str, port: int) -> ServiceInstance:
    return ServiceInstance(service=keys.SERVICE_NETMASTER_RPC, address=address, port=port)


def key(name: str) -> str:
    return keys.services(keys.SERVICE_NETMASTER_RPC) + name


async def register(backend: MemoryBackend, name: str, address: str, port: int) -> None:
    value = codec.encode(service(address, port))
    await backend.commit([Change((), (Put(key(name), value),))])


async def leave(backend: MemoryBackend, name: str) -> None:
    await backend.commit([Change((), (Delete(key(name)),))])


@asynccontextmanager
async def running(backend: MemoryBackend) -> AsyncIterator[ControlChannel]:
    channel = ControlChannel(backend, OWN)
    channel._servers = {
        Bridge.VXLAN: FakeServer(9002),
        Bridge.VLAN: FakeServer(9003),
    }
    async with background("control", channel.run()) as task:
        yield channel
        assert not task.done()
    await backend.close()


async def test_both_bridges_register_with_every_master(net: Net) -> None:
    backend = MemoryBackend()
    await register(backend, "a", "192.0.2.10", 9001)
    async with running(backend) as channel:
        await register(backend, "b", "192.0.2.11", 9001)
        await eventually(lambda: len(net.known) == 2)
        await eventually(lambda: all(set(known) == ENDS for known in net.known.values()))
        assert set(channel.masters.values()) == set(net.known)
        assert (channel.port(Bridge.VXLAN), channel.port(Bridge.VLAN)) == (9002, 9003)


async def test_a_master_that_restarted_is_told_again(net: Net) -> None:
    backend = MemoryBackend()
    master = Node("192.0.2.10", 9001)
    async with running(backend):
        for times in (1, 2):
            await register(backend, "a", "192.0.2.10", 9001)
            await eventually(lambda n=times: len(net.known.get(master, [])) == 2 * n)  # type: ignore[misc]
        backend.store.lose_continuity()
        await eventually(lambda: len(net.known[master]) == 6)


async def test_a_master_that_is_silent_is_tried_until_it_answers(net: Net) -> None:
    backend = MemoryBackend()
    slow, quick = Node("192.0.2.10", 9001), Node("192.0.2.11", 9001)
    net.silent.add(slow)
    async with running(backend):
        await register(backend, "a", slow.host, slow.port)
        await register(backend, "b", quick.host, quick.port)
        await eventually(lambda: set(net.known.get(quick, [])) == ENDS)
        assert slow not in net.known
        net.silent.clear()
        await eventually(lambda: set(net.known.get(slow, [])) == ENDS)


async def test_a_master_that_left_is_not_tried_any_more(net: Net) -> None:
    backend = MemoryBackend()
    gone = Node("192.0.2.10", 9001)
    net.silent.add(gone)
    async with running(backend) as channel:
        await register(backend, "a", gone.host, gone.port)
        await eventually(lambda: gone in channel.masters.values())
        await leave(backend, "a")
        await eventually(lambda: not channel.masters)
        net.silent.clear()
        await asyncio.sleep(0.05)
        assert net.known == {}


async def test_masters_missing_after_a_gap_are_forgotten(net: Net) -> None:
    backend = MemoryBackend()
    async with running(backend) as channel:
        await register(backend, "a", "192.0.2.10", 9001)
        await register(backend, "b", "192.0.2.11", 9001)
        await eventually(lambda: len(channel.masters) == 2)
        backend.faults.reachable.clear()
        await leave(MemoryBackend(backend.store), "a")
        backend.store.lose_continuity()
        backend.faults.reachable.set()
        await eventually(lambda: set(channel.masters) == {key("b")})
        assert len(net.known) == 2


async def test_a_registration_that_cannot_be_read_is_passed_over(
    net: Net, caplog: pytest.LogCaptureFixture
) -> None:
    backend = MemoryBackend()
    async with running(backend) as channel:
        await backend.commit([Change((), (Put(key("bad"), b"{"),))])
        await register(backend, "empty", "", 9001)
        await register(backend, "zero", "192.0.2.12", 0)
        await register(backend, "good", "192.0.2.10", 9001)
        await eventually(lambda: set(net.known) == {Node("192.0.2.10", 9001)})
        assert set(channel.masters) == {key("good")}
        assert caplog.text.count("registration not understood") == 3
