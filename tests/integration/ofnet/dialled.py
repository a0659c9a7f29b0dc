"""A bridge of a real Open vSwitch that dials in to a `Switch` of the test."""

import itertools
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from core.tasks import background
from ofnet.agent import BridgeAgent
from ofnet.channel.session import ChannelTiming
from ofnet.channel.switch import Switch
from ofnet.flow_sync import SyncLimits
from ofnet.packets.dns_answers import Resolver, no_resolver
from ofnet.world import Bridge, World
from tests.bed.ovs import DATAPATH, OvsHost
from tests.bed.waiting import eventually_async

_numbers = itertools.count(1)

FAST = ChannelTiming(handshake=2.0, echo=0.2, silence=1.0, reply=1.0)


@dataclass(frozen=True)
class Dialled:
    """One bridge, and the endpoint it dials."""

    ovs: OvsHost
    name: str
    switch: Switch

    def flows(self) -> list[str]:
        """Return the flows as Open vSwitch prints them, without cookies."""
        return sorted(re.sub(r"^ *cookie=0x[0-9a-f]+, ", "", line) for line in self.raw())

    def raw(self) -> list[str]:
        """Return the flows as Open vSwitch prints them."""
        text = self.ovs.ofctl("--no-stats", "dump-flows", self.name)
        return [line for line in text.splitlines() if "actions=" in line]

    def ofctl(self, command: str, *words: str) -> str:
        return self.ovs.ofctl(command, self.name, *words)


def listening(ovs: OvsHost, port: int = 0) -> socket.socket:
    """Make a listening socket where the switch is."""

    def make() -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        return listener

    return ovs.namespace.call(make)


@asynccontextmanager
async def listener(
    ovs: OvsHost, *, port: int = 0, timing: ChannelTiming | None = None
) -> AsyncIterator[Switch]:
    """Run a `Switch` that listens inside the switch's namespace."""
    switch = Switch("test", timing=timing)
    await switch.start(listening(ovs, port))
    try:
        yield switch
    finally:
        await switch.close()


@asynccontextmanager
async def dialled(ovs: OvsHost, *, timing: ChannelTiming | None = None) -> AsyncIterator[Dialled]:
    """Make a bridge that dials this process; it is connected on entry and deleted at the end."""
    name = f"br{next(_numbers)}"
    async with listener(ovs, timing=timing) as switch:
        ovs.vsctl(
            *("add-br", name, "--", "set", "bridge", name, f"datapath_type={DATAPATH}"),
            *("fail_mode=secure", "protocols=OpenFlow13", "other_config:disable-in-band=true"),
            *("--", "set-controller", name, f"tcp:127.0.0.1:{switch.port}"),
            *("--", "set", "controller", name, "connection_mode=out-of-band", "max_backoff=1000"),
        )
        try:
            await until(lambda: switch.connected, "the switch connects")
            yield Dialled(ovs, name, switch)
        finally:
            ovs.vsctl("del-br", name)


@asynccontextmanager
async def running_agent(
    bridge: Dialled,
    world: World,
    *,
    bridge_name: Bridge = Bridge.VXLAN,
    audit_interval: float = 60.0,
    resolve: Resolver = no_resolver,
) -> AsyncIterator[BridgeAgent]:
    """Run an agent on a bridge; the flows of its World are installed on entry."""
    agent = BridgeAgent(
        bridge.switch,
        bridge_name,
        world,
        limits=SyncLimits(audit_interval=audit_interval),
        resolve=resolve,
    )
    async with background("bridge", agent.run()):
        await until(lambda: agent.sync.synced, "the bridge equals its World")
        yield agent


async def until(check: Callable[[], bool], what: str) -> None:
    """Wait until a condition holds."""

    async def holds() -> bool:
        return check()

    await eventually_async(holds, what)


async def fails(call: Awaitable[object], kind: type[Exception]) -> Exception:
    """Return the exception a call must raise."""
    try:
        await call
    except kind as exc:
        return exc
    raise AssertionError(f"no {kind.__name__}")
