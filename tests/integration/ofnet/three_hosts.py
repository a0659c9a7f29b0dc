"""Three hosts as the original's tests have them: a bridge each, a pod each, tunnels between them.

Host k has the pod 10.10.k.k behind port 5, host 2 an IPv6 address as well; the tunnel towards host
k is port 10 + k everywhere. What a bridge has is compared with whole lines: `HostBridge.routes`.
"""

import re
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from typing import TypeVar

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.agent import BridgeAgent
from ofnet.changes import EVERYTHING, KINDS, Changes, ObjectKind
from ofnet.world import (
    Bridge,
    FwdMode,
    HostPort,
    LocalEndpoint,
    Network,
    RemoteEndpoint,
    Vtep,
    World,
)
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import Dialled, dialled, running_agent

K = TypeVar("K")

NUMBERS = (1, 2, 3)
POD_PORT = 5
NET = Network(id=NetworkId("net.tenant1"), vrf=1, vlan=1, vni=1)
_NEIGHBOURS = re.compile(r"table=1[01],|priority=11[01],")
_FRAGMENTS = re.compile(r"table=(2, priority=101|8, priority=10[23]),.*nw_frag=yes")
"""Between a pod and its host, by connection tracking."""
_ERRORS = re.compile(r"table=2, priority=102,icmp,")
"""About what a pod sent by its host."""
_OWN_SERVICES = re.compile(
    r"table=(12, priority=10[01],ct_state=-inv\+trk|3, priority=100,ct_zone=)"
)
"""Of a pod that is its own provider, and its answers to itself."""


def host_name(number: int) -> HostLabel:
    return HostLabel(f"host{number}")


def tunnel(number: int) -> int:
    """Return the port of the tunnel towards a host."""
    return 10 + number


def host_port(number: int) -> HostPort:
    """Return a host's own port; its pods are behind 172.20.20.5."""
    mac = f"00:11:22:33:44:{number:02x}"
    return HostPort(ofport=555 + number, mac=mac, subnet=IPv4Network("172.20.0.0/16"))


def mac(number: int) -> str:
    return f"02:02:02:{number:02x}:{number:02x}:{number:02x}"


def pod(number: int) -> LocalEndpoint:
    """Return the pod of a host, as its own host knows it."""
    return LocalEndpoint(
        key=EndpointKey(f"{NET.id}-pod{number}"),
        network=NET.id,
        ofport=POD_PORT,
        mac=mac(number),
        ip=IPv4Address(f"10.10.{number}.{number}"),
        ip6=None if number % 2 else IPv6Address(f"2016::{number}:{number}"),
        nat_ip=IPv4Address("172.20.20.5"),
    )


def far(number: int) -> RemoteEndpoint:
    """Return the pod of a host, as other hosts know it."""
    own = pod(number)
    return RemoteEndpoint(
        key=own.key,
        network=own.network,
        host=host_name(number),
        mac=own.mac,
        ip=own.ip,
        ip6=own.ip6,
    )


def empty(number: int, fwd_mode: FwdMode) -> World:
    """Return the World of a host when there is the network and no pod."""
    others = [other for other in NUMBERS if other != number]
    return World(
        fwd_mode=fwd_mode,
        networks={NET.id: NET},
        vteps={
            host_name(other): Vtep(
                host=host_name(other), ip=IPv4Address(f"10.10.10.{other}"), ofport=tunnel(other)
            )
            for other in others
        },
        complete=True,
    )


def line(table: int, priority: int, match: str, *actions: str) -> str:
    """Return a flow as Open vSwitch prints it."""
    head = f"table={table}, " if table else ""
    return f"{head}priority={priority},{match} actions={','.join(actions)}"


def differing(before: World, after: World) -> Changes:
    """Return which objects differ between two Worlds."""
    if before.arp_mode is not after.arp_mode:
        return EVERYTHING
    changes = Changes()
    for kind in (ObjectKind.NETWORK, ObjectKind.LOCAL, ObjectKind.REMOTE, ObjectKind.VTEP):
        field = KINDS[kind].field or ""
        changes |= Changes.of(kind, _keys(getattr(before, field), getattr(after, field)))
    changes |= Changes.of(ObjectKind.RULE, _keys(before.rules, after.rules))
    if before.host_port != after.host_port:
        changes |= Changes.of(ObjectKind.HOST_PORT)
    if before.uplinks != after.uplinks:
        changes |= Changes.of(ObjectKind.UPLINKS)
    return changes


def _keys(before: Mapping[K, object], after: Mapping[K, object]) -> frozenset[K]:
    return frozenset(
        key for key in before.keys() | after.keys() if before.get(key) != after.get(key)
    )


@dataclass(frozen=True)
class HostBridge:
    """One host's bridge and its agent."""

    number: int
    bridge: Dialled
    agent: BridgeAgent

    def routes(self) -> set[str]:
        """Return the flows as the switch prints them, without those the original has none of."""
        added = (_NEIGHBOURS, _FRAGMENTS, _ERRORS, _OWN_SERVICES)
        return {line for line in self.bridge.flows() if not any(kind.match(line) for kind in added)}

    async def becomes(self, world: World) -> None:
        """Take over another World with its changes; return when the switch has it."""
        await self.agent.update(world, differing(self.agent.world, world))

    async def has_host_port(self) -> None:
        """Let the host have its own port."""
        await self.becomes(replace(self.agent.world, host_port=host_port(self.number)))

    async def has_pods(self, there: Collection[int]) -> None:
        """Let these hosts, and no others, have their pods."""
        local = {pod(n).key: pod(n) for n in there if n == self.number}
        remote = {far(n).key: far(n) for n in there if n != self.number}
        await self.becomes(replace(self.agent.world, local=local, remote=remote))


@asynccontextmanager
async def sites(ovs: OvsHost, kind: Bridge, fwd_mode: FwdMode) -> AsyncIterator[list[HostBridge]]:
    """Run the three hosts' bridges, without pods."""
    async with AsyncExitStack() as running:
        found = []
        for number in NUMBERS:
            bridge = await running.enter_async_context(dialled(ovs))
            agent = await running.enter_async_context(
                running_agent(bridge, empty(number, fwd_mode), bridge_name=kind)
            )
            found.append(HostBridge(number, bridge, agent))
        yield found
