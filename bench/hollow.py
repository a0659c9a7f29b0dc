"""Agents without switch and kernel: `python -m bench.hollow URL FIRST COUNT` runs some of them.

A hollow agent is an agent's real watch, World, computation of flows, registrations and reports. In
the place of its switches are some that acknowledge every flow at once. It has an address of its own
on loopback, and a store client of its own. The process lets others have the processors first, since
agents take none from the store and the masters of a cluster. Each line of standard input is
answered by one line:

    ready             -> seconds until all had read the store and computed their flows
    usage             -> processor seconds of this process so far, and its MiB
    calls SINCE UNTIL -> registrations and reports sent to masters in an interval of monotonic time
    seen NETWORK      -> the monotonic time at which the last of them had computed its flows
    held              -> endpoints and flows of all of them
"""

import asyncio
import logging
import os
import resource
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import uvloop

from bench.objects import rss
from bench.stores import client
from core import keys
from core.change_notifier import ChangeNotifier
from core.ids import HostLabel, NetworkId, NetworkName, TenantName, network_id
from core.tasks import Supervisor, supervisor
from core.version import VERSION
from daemons.collector import tune_garbage_collector
from netplugin.bridges.record_events import RecordEvents
from netplugin.masters.control import ControlChannel
from netplugin.masters.label_claim import claim_label
from netplugin.masters.progress import Progress
from netplugin.masters.registration import AgentRegistrations
from netplugin.masters.spread import Spread
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from objdb.registration import TTL
from ofnet.desired import Desired
from ofnet.rpc.jsonrpc import RpcClient
from ofnet.world import Bridge, FwdMode, Vtep
from state.records import HostRecord, ServiceInstance
from state.watch import RecordFeed
from state.watch_scope import WatchScope

if TYPE_CHECKING:
    from netplugin.world.peers import Address
    from ofnet.agent import BridgeAgent

HOSTS_OF_TENANT: Final = 10
NETWORK: Final = NetworkName("net")
_FIRST_ADDRESS: Final = IPv4Address("127.1.0.1")
_NICENESS: Final = 10
_SESSION_NICENESS: Final = Path("/proc/self/autogroup")
"""Where a kernel has it, `nice` holds among the processes of a session only."""


def label_of(number: int) -> HostLabel:
    """Return the label of a hollow agent's host."""
    return HostLabel(f"hollow{number}")


def tenant_of(number: int) -> TenantName:
    """Return the tenant of the pods of a hollow agent's host."""
    return TenantName(f"tenant{number // HOSTS_OF_TENANT}")


def network_of(number: int) -> NetworkId:
    """Return the network of the pods of a hollow agent's host."""
    return network_id(NETWORK, tenant_of(number))


def record_of(number: int) -> HostRecord:
    """Return the record of a hollow agent's host."""
    address = str(_FIRST_ADDRESS + number)
    return HostRecord(
        label=label_of(number),
        control_ip=address,
        vtep_ip=address,
        vxlan_port=4789,
        version=VERSION,
    )


class Switch:
    """What `netplugin.masters.progress` asks of a bridge's agent: all flows are in force."""

    fully_synced = True
    refused: Mapping[Any, Any] = {}
    faults: Mapping[Any, Any] = {}

    def on_sync_change(self, _notify: Callable[[], None]) -> None:
        """Never notify: nothing changes."""


class Hollow:
    """One agent."""

    def __init__(self, number: int, url: str, sup: Supervisor, stack: AsyncExitStack) -> None:
        self.label = label_of(number)
        self._record = record_of(number)
        self._supervisor = sup
        self._stack = stack
        self._store = client("etcd", url)
        scope = WatchScope(self.label)
        scope.follow(lambda: [network_of(number)])  # what the host's journal says
        self._feed = RecordFeed(self._store, scope=scope)
        self.world = WorldBuilder(self.label, FwdMode.ROUTING)
        switches = {bridge: cast("BridgeAgent", Switch()) for bridge in Bridge}
        self._progress = Progress(switches, self._feed.unreadable)
        self._records = RecordEvents(self.world, self._progress)
        self.desired = {bridge: Desired(bridge) for bridge in Bridge}
        self.ready = asyncio.Event()
        self._ends: Mapping[HostLabel, Address] = {}
        self._ports: dict[HostLabel, int] = {}
        self.seen: dict[NetworkId, float] = {}
        self._realised = ChangeNotifier()

    async def run(self) -> None:
        """Start, and follow the store for ever."""
        await self._register()
        self._supervisor.supervise(f"records {self.label}", self._feed.run())
        while True:
            for event in await self._feed.take(500):
                self._records.apply(event)
            if self._feed.complete:
                self._realise()
            await asyncio.sleep(0)

    def _realise(self) -> None:
        """Connect this host's pods and tunnels, compute the flows, and have them in force."""
        if not self.ready.is_set():
            for number, record in enumerate(self.world.endpoint_records.here(), start=1):
                port = LocalPort(record=record, ofport=number, number=number)
                self.world.put_port(record.key, port)
            self.world.set_complete()
        ends = self.world.peers.tunnel_ends()
        if ends != self._ends:
            self._ends = ends
            self.world.vxlan.set_vteps(
                {host: Vtep(host=host, ip=ip, ofport=self._port(host)) for host, ip in ends.items()}
            )
        revisions, histories = self.world.revisions, self._progress.histories
        for bridge, (world, changes) in self.world.take_changed().items():
            self.desired[bridge].update(world, changes)
        self._progress.mark_sent(revisions, histories)
        now = time.monotonic()
        for network in self.world.networks.all():
            self.seen.setdefault(network.id, now)
        self.ready.set()
        self._realised.notify()

    def _port(self, host: HostLabel) -> int:
        """Return the number of the tunnel's port to a host, which stays."""
        return self._ports.setdefault(host, 1_000 + len(self._ports))

    async def saw(self, nid: NetworkId) -> float:
        """Wait until a network's flows are computed; return the monotonic time of that."""
        while nid not in self.seen:
            await self._realised.next.wait()
        return self.seen[nid]

    async def _register(self) -> None:
        await claim_label(self._store, self._record)
        address = self._record.control_ip
        control = ControlChannel(
            self._store,
            self.label,
            address,
            self._progress,
            spread=Spread(self.world.peers.count),
        )
        await control.start(dict.fromkeys(Bridge, 0), dict, self._stack)
        self._supervisor.supervise(f"control {self.label}", control.run())
        services = [
            ServiceInstance(
                service=keys.SERVICE_NETPLUGIN,
                address=address,
                port=control.port(bridge),
                hostname=self.label,
                version=VERSION,
                ttl=int(TTL),
            )
            for bridge in Bridge
        ]
        AgentRegistrations(self._store, self._supervisor).register(services)


class Calls:
    """When calls to masters were sent, in order."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def count(self) -> None:
        """Have every call counted from now on."""
        call = RpcClient.call

        async def counted(self_: RpcClient, *args: Any, **kwargs: Any) -> Any:
            self._times.append(time.monotonic())
            return await call(self_, *args, **kwargs)

        setattr(RpcClient, "call", counted)  # noqa: B010 - the program has no such counter

    def between(self, since: float, until: float) -> int:
        """Return how many were sent in an interval."""
        return bisect_left(self._times, until) - bisect_left(self._times, since)


async def _answer(agents: list[Hollow], calls: Calls, began: float, line: str) -> str:
    verb, *words = line.split()
    match verb:
        case "ready":
            for one in agents:
                await one.ready.wait()
            return f"{time.monotonic() - began}"
        case "usage":
            used = resource.getrusage(resource.RUSAGE_SELF)
            return f"{used.ru_utime + used.ru_stime} {rss(os.getpid())}"
        case "calls":
            return str(calls.between(float(words[0]), float(words[1])))
        case "seen":
            wanted = NetworkId(words[0])
            return str(max([await one.saw(wanted) for one in agents]))
        case "held":
            endpoints = sum(len(one.world.vxlan.remote) for one in agents)
            flows = sum(len(part.held) for one in agents for part in one.desired.values())
            return f"{endpoints} {flows}"
        case _:
            raise ValueError(line)


async def _answer_all(agents: list[Hollow], calls: Calls, began: float) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode():
        print(await _answer(agents, calls, began, line), flush=True)
    sys.exit(0)


def _give_way() -> None:
    """Let the store and the masters have the processors first."""
    os.nice(_NICENESS)
    if _SESSION_NICENESS.exists():
        os.setsid()
        _SESSION_NICENESS.write_text(str(_NICENESS))


async def main(url: str, first: str, count: str) -> None:
    """Run agents until standard input ends; raise what ended one of them."""
    began, calls = time.monotonic(), Calls()
    calls.count()
    _give_way()
    tune_garbage_collector()
    logging.disable(logging.WARNING)  # thousands of agents that try again
    async with AsyncExitStack() as stack, supervisor() as sup:
        numbers = range(int(first), int(first) + int(count))
        agents = [Hollow(number, url, sup, stack) for number in numbers]
        for one in agents:
            sup.supervise(f"agent {one.label}", one.run())
        sup.supervise("answers", _answer_all(agents, calls, began))
        await sup.wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
