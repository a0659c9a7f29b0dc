"""Every master knows this agent, the late and the restarted too, and how far it has come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from core import keys
from core.errors import Invalid
from core.retry import Pace
from core.tasks import background
from netplugin.masters import control
from netplugin.masters.control import ControlChannel, ControlTiming
from netplugin.masters.progress import Progress
from netplugin.masters.spread import Spread
from objdb.api import Change, Delete, Put
from objdb.memory import MemoryBackend
from ofnet.rpc.control import REGISTER_NODE, REPORT, UNREGISTER_NODE, AgentReport, Node
from ofnet.rpc.jsonrpc import RpcFailed, RpcServer
from ofnet.world import Bridge
from state import codec
from state.records import ServiceInstance
from tests.unit.netplugin.agent import eventually, stays
from tests.unit.netplugin.records import HOST

OWN = "192.0.2.1"
ENDS = {(OWN, 9002), (OWN, 9003)}


class FakeServer(RpcServer):
    """An RPC end that listens nowhere."""

    def __init__(self, port: int) -> None:
        super().__init__({}, host=OWN)
        self._number = port

    @property
    def port(self) -> int:
        return self._number


@dataclass(slots=True)
class Net:
    """The masters that can be reached, who is registered with each, and what it was told."""

    silent: set[Node] = field(default_factory=set)
    known: dict[Node, list[tuple[str, int]]] = field(default_factory=dict)
    told: dict[Node, list[AgentReport]] = field(default_factory=dict)
    refused: set[Node] = field(default_factory=set)
    left: dict[Node, list[tuple[str, int]]] = field(default_factory=dict)

    def client(self, host: str, port: int, *, timeout: float, **_: None) -> "FakeClient":
        assert timeout in {FAST.call, FAST.leave}
        return FakeClient(self, Node(host, port))

    def last(self, master: Node) -> set[tuple[int, int]]:
        """Return what each end said last: its port and how far `/a/` is."""
        told = {report.node.port: report for report in self.told.get(master, [])}
        return {(port, report.revisions.get("/a/", 0)) for port, report in told.items()}


@dataclass(slots=True)
class FakeClient:
    net: Net
    master: Node

    async def call(self, method: str, argument: Any) -> bool:
        await asyncio.sleep(0)
        if self.master in self.net.silent:
            self.net.refused.add(self.master)
            raise RpcFailed("no answer")
        if method == REPORT:
            self.net.told.setdefault(self.master, []).append(AgentReport.from_json(argument))
            return True
        node = Node.from_json(argument)
        lists = {REGISTER_NODE: self.net.known, UNREGISTER_NODE: self.net.left}
        lists[method].setdefault(self.master, []).append((node.host, node.port))
        return True

    def close(self) -> None:
        pass


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Net:
    net = Net()
    monkeypatch.setattr(control, "RpcClient", net.client)
    return net


FAST = ControlTiming(report_every=0.01, pace=Pace(0.01, 0.01))


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
async def running(
    backend: MemoryBackend, timing: ControlTiming = FAST, spread: Spread | None = None
) -> AsyncIterator[ControlChannel]:
    channel = ControlChannel(backend, HOST, OWN, Progress({}, {}), timing, spread=spread)
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


async def test_among_many_hosts_a_restarted_master_is_told_in_turn(net: Net) -> None:
    backend = MemoryBackend()
    master = Node("192.0.2.10", 9001)
    await register(backend, "a", "192.0.2.10", 9001)
    last = Spread(lambda: 10_000, lambda: 0.99)
    async with running(backend, spread=last):
        await eventually(lambda: len(net.known.get(master, [])) == 2)  # an agent that starts
        await register(backend, "a", "192.0.2.10", 9001)
        await stays(lambda: len(net.known[master]) == 2)


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


async def test_every_master_is_told_how_far_this_agent_is(net: Net) -> None:
    backend = MemoryBackend()
    one, other = Node("192.0.2.10", 9001), Node("192.0.2.11", 9001)
    await register(backend, "a", one.host, one.port)
    async with running(backend) as channel:
        await eventually(lambda: net.last(one) == {(9002, 0), (9003, 0)})
        channel._progress.mark_sent({"/a/": 7}, 0)
        channel._progress.mark_invalid("/a/x", "not a record")
        await eventually(lambda: net.last(one) == {(9002, 7), (9003, 7)})
        net.silent.add(one)
        channel._progress.mark_sent({"/a/": 8}, 0)
        await register(backend, "b", other.host, other.port)
        await eventually(lambda: net.last(other) == {(9002, 8), (9003, 8)})
        assert net.told[other][0].host == HOST
        assert net.told[other][0].errors == ("/a/x: not a record",)
        await eventually(lambda: one in net.refused)
        net.silent.clear()
        await eventually(lambda: net.last(one) == {(9002, 8), (9003, 8)})
        assert len(net.known[one]) == 4, "a master that was silent is registered with again"


async def test_many_changes_are_told_in_few_reports(net: Net) -> None:
    backend = MemoryBackend()
    master = Node("192.0.2.10", 9001)
    await register(backend, "a", master.host, master.port)
    async with running(backend) as channel:
        for revision in range(1, 201):
            channel._progress.mark_sent({"/a/": revision}, 0)
            await asyncio.sleep(0)
        await eventually(lambda: net.last(master) == {(9002, 200), (9003, 200)})
        assert len(net.told[master]) < 20
        count = len(net.told[master])
        channel._progress.mark_sent({"/a/": 200}, 0)
        await stays(lambda: len(net.told[master]) == count)  # nothing new, nothing reported


async def test_what_has_not_changed_is_told_again_now_and_then(net: Net) -> None:
    backend = MemoryBackend()
    master = Node("192.0.2.10", 9001)
    await register(backend, "a", master.host, master.port)
    async with running(backend, replace(FAST, repeat_after=0.01)):
        await eventually(lambda: len(net.told.get(master, [])) >= 6)
        assert len({str(report.to_json()) for report in net.told[master]}) == 2


async def test_an_agent_that_ends_leaves_every_master(net: Net) -> None:
    backend = MemoryBackend()
    silent, other = Node("192.0.2.10", 9001), Node("192.0.2.11", 9001)
    await register(backend, "a", silent.host, silent.port)
    await register(backend, "b", other.host, other.port)
    async with running(backend) as channel:
        await eventually(lambda: len(channel.masters) == 2)
    net.silent.add(silent)
    await channel._leave()
    assert {master: set(ends) for master, ends in net.left.items()} == {other: ENDS}


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
        await stays(lambda: net.known == {})


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


async def test_no_address_is_dialled_that_is_no_registered_masters(net: Net) -> None:
    backend = MemoryBackend()
    await register(backend, "a", "192.0.2.10", 9001)
    known = Node("192.0.2.10", 9001)
    async with running(backend) as channel:
        await eventually(lambda: len(net.known.get(known, [])) == 2)
        for stranger in (Node("192.0.2.66", 9001), Node("192.0.2.10", 22)):
            with pytest.raises(Invalid, match="not registered as a master in the store"):
                await channel._add_master(stranger)
        await channel._add_master(known)
        assert len(net.known[known]) == 4
    assert net.known.keys() == {known}
