"""The pod guard knows masters, store and this host, follows them, and can be opened."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from ipaddress import ip_address
from types import SimpleNamespace
from typing import Any

import pytest

from core import keys
from core.change_notifier import ChangeNotifier
from core.tasks import background
from netplugin.bridges.guards.pod_guard import PodGuard
from netplugin.kernel.firewall.firewall_watch import FirewallWatch
from netplugin.settings import AgentSettings
from netplugin.world.bridges.management_ends import ManagementEnds
from netplugin.world.builder import WorldBuilder
from objdb.api import Change, Delete, Put
from objdb.connect import StoreAddress, StoreKind
from objdb.memory import MemoryBackend
from ofnet.world import Bridge, FwdMode, ManagementPort
from state import codec
from state.records import ServiceInstance
from tests.unit.netplugin.agent import eventually
from tests.unit.netplugin.fakes import FakeFirewall, Faults
from tests.unit.netplugin.records import HOST, PEER, endpoint, host
from tests.unit.netplugin.starts import SETTINGS

STORE = StoreAddress(StoreKind.ETCD, ("192.0.2.50:2400", "[2001:db8::50]:2400"), secure=False)
GUARDED = replace(SETTINGS, store=STORE)


@dataclass(slots=True)
class Kernel:
    """The addresses of this host."""

    held: set[str] = field(default_factory=lambda: {"192.0.2.1", "192.0.2.255"})
    notifier: ChangeNotifier = field(default_factory=ChangeNotifier)
    readings: int = 0
    most: int = 0
    """How many readings there are now, and how many there were at once."""

    async def addresses(self, _left_out: object) -> set[str]:
        self.readings += 1
        self.most = max(self.most, self.readings)
        read = set(self.held)
        await asyncio.sleep(0.001)  # the kernel is asked in another thread
        self.readings -= 1
        return read

    @property
    def watches(self) -> Any:
        changed = SimpleNamespace(changed=lambda: self.notifier.next)
        return SimpleNamespace(firewall=FirewallWatch(), addresses=changed)


@dataclass(slots=True)
class GuardedPods:
    store: MemoryBackend
    kernel: Any
    world: WorldBuilder

    def addresses(self, bridge: Bridge = Bridge.VXLAN) -> set[str]:
        return set(self.world.take(bridge)[0].management)

    def ports(self, bridge: Bridge = Bridge.VXLAN) -> set[int]:
        return {port.port for port in self.world.take(bridge)[0].management_ports.values()}

    async def register(
        self, service: str, address: str, port: int, addresses: tuple[str, ...] = ()
    ) -> None:
        instance = ServiceInstance(service=service, address=address, port=port, addresses=addresses)
        put = Put(keys.service(service, address, port), codec.encode(instance))
        await self.store.commit([Change((), (put,))])

    async def leave(self, service: str, address: str, port: int) -> None:
        await self.store.commit([Change((), (Delete(keys.service(service, address, port)),))])


@asynccontextmanager
async def running(settings: AgentSettings = GUARDED) -> AsyncIterator[GuardedPods]:
    guarded = GuardedPods(MemoryBackend(), Kernel(), WorldBuilder(HOST, FwdMode.ROUTING))
    await guarded.register(keys.SERVICE_NETMASTER, "192.0.2.10", 9997)
    guard = PodGuard(
        settings,
        guarded.world.management,
        guarded.store,
        guarded.kernel,
        FakeFirewall(Faults()),
        watches=guarded.kernel.watches,
        known=guarded.world.underlay,
    )
    await guard.start()
    async with background("pod guard", guard.run()) as task:
        yield guarded
        assert not task.done()
    await guarded.store.close()


async def test_all_is_known_from_the_start() -> None:
    async with running() as guarded:
        for bridge in Bridge:
            assert guarded.addresses(bridge) >= {
                *("192.0.2.1/32", "192.0.2.255/32", "127.0.0.0/8", "255.255.255.255/32"),
                *("192.0.2.10/32", "192.0.2.50/32", "2001:db8::50/128"),
                *("224.0.0.0/4", "ff00::/8"),
            }
            assert guarded.ports(bridge) >= {9999, 9997, 9001, 9090, 9002, 9003, 6633, 6634, 6640}
            assert guarded.ports(bridge) >= {2379, 2380, 2400, 4789, 4790}
            assert 8500 not in guarded.ports(bridge), "the store is etcd"


async def test_masters_come_and_go() -> None:
    async with running() as guarded:
        await guarded.register(keys.SERVICE_NETMASTER_RPC, "192.0.2.11", 9301)
        await eventually(lambda: "192.0.2.11/32" in guarded.addresses())
        assert 9301 in guarded.ports()
        await guarded.leave(keys.SERVICE_NETMASTER_RPC, "192.0.2.11", 9301)
        await eventually(lambda: "192.0.2.11/32" not in guarded.addresses())
        assert 9301 not in guarded.ports()
        assert 9001 in guarded.ports()


def _has(guarded: GuardedPods, address: str) -> bool:
    return address in guarded.addresses()


async def test_addresses_are_read_once_at_a_time() -> None:
    # of two readings side by side, the older one could be set last
    async with running(replace(GUARDED, audit_interval=0)) as guarded:
        for number in range(20):
            address = f"192.0.2.{number + 100}"
            guarded.kernel.held = {address}
            guarded.kernel.notifier.notify()
            await eventually(partial(_has, guarded, f"{address}/32"))
        assert guarded.kernel.most == 1


async def test_an_address_that_this_host_gets_later() -> None:
    async with running() as guarded:
        guarded.kernel.held.add("203.0.113.7")
        guarded.kernel.notifier.notify()
        await eventually(lambda: "203.0.113.7/32" in guarded.addresses())
        guarded.kernel.held.remove("203.0.113.7")
        guarded.kernel.notifier.notify()
        await eventually(lambda: "203.0.113.7/32" not in guarded.addresses())


async def test_other_hosts_by_their_records() -> None:
    async with running() as guarded:
        record = replace(host(), label=PEER, control_ip="192.0.2.20", vtep_ip="192.0.2.21")
        guarded.world.put(record)
        assert guarded.addresses() >= {"192.0.2.20/32", "192.0.2.21/32"}
        # two hosts may share an address for a while
        guarded.world.put(replace(record, label=HOST, vtep_ip="192.0.2.22"))
        guarded.world.remove(record)
        assert "192.0.2.21/32" not in guarded.addresses()
        assert "192.0.2.20/32" in guarded.addresses()


async def test_of_ipv6_every_address_of_hosts_and_masters_is_known() -> None:
    """Their daemons may listen there, and pods reach it."""
    async with running() as guarded:
        further = ("2001:db8::20", "192.0.2.99")
        guarded.world.put(replace(host(), label=PEER, addresses=further))
        assert "2001:db8::20/128" in guarded.addresses()
        assert "192.0.2.99/32" not in guarded.addresses()
        await guarded.register(
            keys.SERVICE_NETMASTER_RPC, "192.0.2.11", 9301, addresses=("2001:db8::11",)
        )
        await eventually(lambda: "2001:db8::11/128" in guarded.addresses())


async def test_a_site_opens_ports() -> None:
    opened = frozenset({ManagementPort(6, 9090), ManagementPort(17, 9090)})
    async with running(replace(GUARDED, pod_host_ports=opened)) as guarded:
        assert 9090 not in guarded.ports()
        assert 9999 in guarded.ports()


async def test_without_the_guard_nothing_is_closed_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        async with running(replace(GUARDED, pod_guard=False)) as guarded:
            guarded.world.put(host())
            assert (guarded.addresses(), guarded.ports()) == (set(), set())
            management = guarded.world.management
            assert management.closed == ManagementEnds()
            assert management.known.cover(ip_address("192.0.2.10"), "TCP", 9997), "taken by nobody"
    assert "pod guard is OFF" in caplog.text


async def test_what_is_set_before_the_start_is_closed_by_it() -> None:
    builder = WorldBuilder(HOST, FwdMode.BRIDGE)
    builder.put(replace(host(), control_ip="192.0.2.20"))
    assert builder.take(Bridge.VLAN)[0].management == {}
    builder.management.close(frozenset())
    assert "192.0.2.20/32" in builder.take(Bridge.VLAN)[0].management


async def test_hosts_addresses_on_infra_networks_are_known_in_every_tenant() -> None:
    async with running() as guarded:
        infra = replace(endpoint(9, host=PEER), endpoint_id=str(PEER))
        guarded.world.put(infra)
        guarded.world.put(endpoint(8, host=PEER))
        assert f"{infra.ip_address}/32" in guarded.addresses()
        assert f"{endpoint(8).ip_address}/32" not in guarded.addresses()
        guarded.world.remove(infra)
        assert f"{infra.ip_address}/32" not in guarded.addresses()


async def test_what_comes_by_a_pods_link_is_left_to_the_switch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    firewall = FakeFirewall(Faults())
    settings = replace(GUARDED, pod_guard=False)
    guarded = GuardedPods(MemoryBackend(), Kernel(), WorldBuilder(HOST, FwdMode.ROUTING))
    guard = PodGuard(
        settings,
        guarded.world.management,
        guarded.store,
        guarded.kernel,
        firewall,
        watches=guarded.kernel.watches,
        known=guarded.world.underlay,
    )
    await guard.start()
    assert [rule.match for rule in firewall.rules] == [("-i", "vvport+"), ("-i", "hport+")]
    assert caplog.messages
