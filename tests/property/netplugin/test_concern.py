"""An agent that holds what concerns its pods treats every packet of theirs as if it held all.

Two agents of one host read one store, one of them with a scope (`state.watch_scope`). After random
changes, of the store and of the host's pods, packets that the pods send, and packets that arrive
for them, are followed through the flows of both.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address
from itertools import count
from random import Random
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from core import keys
from core.ids import (
    EndpointKey,
    GroupKey,
    HostLabel,
    NetworkId,
    NetworkName,
    TenantName,
    endpoint_key,
)
from core.tasks import background
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from objdb.api import Change, Committed, Delete, Put
from objdb.memory import MemoryBackend, MemoryStore
from ofnet.desired import Desired
from ofnet.openflow import oxm
from ofnet.pipelines.packet_path.stages import ROUTER_MAC
from ofnet.trace.evaluator import PacketFields, tables_of
from ofnet.trace.packets import SYN, Talk, from_endpoint, question
from ofnet.trace.tracking import TrackingSwitch
from ofnet.world import Bridge, FwdMode, LocalEndpoint, RemoteEndpoint, Uplink, Vtep, World
from state import codec
from state.records import Encap, EndpointRecord, GlobalRecord, NetworkType, ServiceRecord
from state.watch import AGENT_PREFIXES, Changed, Event, RecordFeed, Removed, ScopeChanged, SyncedTo
from state.watch_scope import WatchScope, networks_in
from tests.bed.waiting import WITHIN
from tests.unit.netplugin.records import HOST, PEER, endpoint, group, host, network

FAR = HostLabel("h3")
PACKETS: Final = 40
HOSTS = (HOST, PEER, FAR)
TENANTS = ("red", "blue", "green")
NETWORKS = {
    NetworkId(f"{name}.{tenant}"): replace(
        network(name, tenant, encap=encap, tag=10 * one + two, v6=True),
        type=NetworkType.INFRA if (name, tenant) == ("x3", "green") else NetworkType.DATA,
        subnet=f"10.{two}.0.0",
        gateway=f"10.{two}.255.254",
        first=f"10.{two}.0.0",
        last=f"10.{two}.255.255",
    )
    for one, tenant in enumerate(TENANTS, 1)
    for two, (name, encap) in enumerate(
        (("x1", Encap.VXLAN), ("x3", Encap.VXLAN), ("v1", Encap.VLAN)), 1
    )
}
VIP = "10.1.9.9"
UNKNOWN = IPv4Address("198.51.100.7")
VTEPS = {
    label: Vtep(host=label, ip=IPv4Address(f"192.0.2.{number}"), ofport=50 + number)
    for number, label in enumerate(HOSTS[1:], 2)
}

nids = st.sampled_from(sorted(NETWORKS))
numbers = st.integers(1, 3)


def endpoint_of(nid: NetworkId, number: int, label: HostLabel, *, labels: bool) -> EndpointRecord:
    """Return an endpoint; its address is the same in each tenant."""
    block = int(NETWORKS[nid].subnet.split(".")[1])
    tenant = nid.partition(".")[2]
    container = f"c-{number}"  # a dash, as in an id that can be read in two ways
    return replace(
        endpoint(number, host=label, nid=nid, v6=True, container=container),
        ip_address=f"10.{block}.0.{number}",
        ipv6_address=f"2001:db8:{block}::{number}",
        mac_address=f"02:02:0a:{block:02x}:00:{number:02x}",
        group_id=TENANTS.index(tenant) + 1 if number == 1 else 0,
        group_key=GroupKey(f"web:{tenant}") if number == 1 else "",
        labels={"app": "web"} if labels else None,
    )


def _rule(tenant: str) -> dict[str, Any]:
    return {
        "key": f"{tenant}:p:1", "tenantName": tenant, "policyName": "p", "ruleId": "1",
        "direction": "in", "action": "deny", "priority": 1, "protocol": "tcp", "port": 80,
    }  # fmt: skip


operations = st.one_of(
    st.tuples(st.just("endpoint"), nids, numbers, st.sampled_from(HOSTS), st.booleans()),
    st.tuples(st.just("pod"), nids, numbers),
    st.tuples(st.just("leave"), nids, numbers),
    st.tuples(st.just("gone"), nids, numbers),
    st.tuples(st.just("network"), nids),
    st.tuples(st.just("no network"), nids),
    st.tuples(st.just("policy"), st.sampled_from(TENANTS)),
    st.tuples(st.just("no policy"), st.sampled_from(TENANTS)),
    st.tuples(st.just("service"), st.sampled_from(TENANTS)),
    st.tuples(st.just("no service"), st.sampled_from(TENANTS)),
    st.tuples(st.just("release")),
    st.tuples(st.just("resync")),
)


class Agent:
    """One agent's feed, World and flows."""

    def __init__(self, store: MemoryStore, mode: FwdMode, scope: WatchScope | None) -> None:
        self.scope = scope
        self.feed = RecordFeed(MemoryBackend(store), AGENT_PREFIXES, scope)
        tenants = {TenantName(one): number for number, one in enumerate(TENANTS, 1)}
        self.world = WorldBuilder(HOST, mode, tenants)
        self.world.vxlan.set_vteps(VTEPS)
        for label in (PEER, FAR):
            self.world.vlan.set_peer_mac(label, f"02:00:00:00:00:0{label[1]}")
        self.world.vlan.set_uplinks([Uplink(ofport=60, mac="02:00:00:00:00:01")])
        self.reached: dict[str, int] = {}
        self.worlds: dict[Bridge, World] = {}
        self.desired = {bridge: Desired(bridge) for bridge in Bridge}

    async def settle(self, wanted: Mapping[str, int]) -> None:
        """Take over what the store has, up to a revision of each prefix."""
        async with asyncio.timeout(WITHIN):
            while any(self.reached.get(prefix, 0) < rev for prefix, rev in wanted.items()):
                for event in await self.feed.take():
                    self._apply(event)
        for bridge, desired in self.desired.items():
            world, changes = self.world.take(bridge)
            desired.update(world, changes)
            self.worlds[bridge] = world

    def _apply(self, event: Event) -> None:
        match event:
            case SyncedTo():
                self.reached[event.prefix] = event.rev
            case ScopeChanged():
                self.world.networks.hold(event.networks)
            case Changed():
                self.world.put(event.record)
            case Removed():
                self.world.remove(event.record)
            case _:
                raise AssertionError(event)

    def looked_up(self, bridge: Bridge, packet: PacketFields) -> object:
        """Return the flows that a packet meets, and what leaves."""
        switch = TrackingSwitch(lambda _count: 0)
        switch.tables = tables_of(self.desired[bridge].flows.values())
        sent = switch.receive(packet)
        return [(one.table, one.flow) for one in switch.path], sent


class ScopedAgents:
    """The store, this host's ports, and the two agents."""

    def __init__(self, mode: FwdMode) -> None:
        self.mode = mode
        self.store = MemoryStore()
        self.revisions: dict[str, int] = {}
        self.ports: dict[EndpointKey, EndpointRecord] = {}
        self.scope = WatchScope(HOST)
        self.journal: set[EndpointKey] = set()
        self.scope.follow(lambda: {nid for key in self.journal for nid in networks_in(key)})
        self.full, self.ours = (
            Agent(self.store, mode, None),
            Agent(self.store, mode, self.scope),
        )
        self.turns = count()

    def put(self, key: str, value: bytes) -> None:
        self._commit(key, Put(key, value))

    def delete(self, key: str) -> None:
        if self.store.get(key) is not None:  # else there is no change to wait for
            self._commit(key, Delete(key))

    def _commit(self, key: str, op: Put | Delete) -> None:
        (done,) = self.store.apply([Change((), (op,))])
        assert isinstance(done, Committed)
        prefix = next(one for one in AGENT_PREFIXES if key.startswith(one))
        self.revisions[prefix] = done.rev

    def begin(self) -> None:
        config = GlobalRecord(infra_type="", fwd_mode=self.mode, arp_mode="proxy", pvt_subnet="")
        self.put(keys.GLOBAL_CONFIG, codec.encode(config))
        for nid, record in NETWORKS.items():
            self.put(keys.network(nid), codec.encode(record))
        for tenant in TENANTS:
            web = replace(group("web", tenant), group_id=TENANTS.index(tenant) + 1)
            self.put(keys.group(web.key), codec.encode(web))
            self.put(f"{keys.RULES}{tenant}:p:1", json.dumps(_rule(tenant)).encode())

    async def do(self, operation: tuple[Any, ...]) -> None:  # noqa: C901, PLR0912 - one each
        match operation:
            case "endpoint", nid, number, label, labels:
                record = endpoint_of(nid, number, label, labels=labels)
                self.put(keys.endpoint(record.key), codec.encode(record))
            case "pod", nid, number:
                record = endpoint_of(nid, number, HOST, labels=True)
                self.journal.add(record.key)
                self.put(keys.endpoint(record.key), codec.encode(record))
                await self.settle()
                self.ports[record.key] = record
                ofport = 100 + 10 * sorted(NETWORKS).index(nid) + number
                for agent in (self.full, self.ours):
                    port = LocalPort(record=record, ofport=ofport, number=ofport)
                    agent.world.put_port(record.key, port)
            case "leave", nid, number:
                key = endpoint_key(nid, f"c-{number}")
                self.ports.pop(key, None)
                self.journal.discard(key)
                for agent in (self.full, self.ours):
                    agent.world.remove_port(key)
            case "gone", nid, number:
                self.delete(keys.endpoint(endpoint_key(nid, f"c-{number}")))
            case "network", nid:
                self.put(keys.network(nid), codec.encode(NETWORKS[nid]))
            case "no network", nid:
                self.delete(keys.network(nid))
            case "policy", tenant:
                value = {"key": f"{tenant}:web", "tenantName": tenant, "groupName": "web"}
                value |= {"policies": ["p"]}
                self.put(f"{keys.GROUP_OBJECTS}{tenant}:web", json.dumps(value).encode())
            case "no policy", tenant:
                self.delete(f"{keys.GROUP_OBJECTS}{tenant}:web")
            case "service", tenant:
                service = _service(tenant)
                self.put(keys.service_lb(service.key), codec.encode(service))
            case "no service", tenant:
                self.delete(keys.service_lb(_service(tenant).key))
            case ("release",):
                await self.settle()
                self.scope.refresh()
                await self.ours.feed.extend()
                await self.ours.feed.release(self.ours.feed.held - self.scope.networks)
            case _:
                assert operation == ("resync",)
                self.store.lose_continuity()

    async def settle(self) -> None:
        turn = replace(host(PEER), version=str(next(self.turns)))
        self.put(keys.host(PEER), codec.encode(turn))
        for agent in (self.full, self.ours):
            await agent.settle(self.revisions)

    def compare(self, random: Random) -> None:
        for bridge in Bridge:
            full, ours = self.full.worlds[bridge], self.ours.worlds[bridge]
            assert full.local == ours.local
            held = self.ours.feed.held
            assert all(one.network in held for one in ours.remote.values())
            every = list(self.packets(full))
            for packet in random.sample(every, min(len(every), PACKETS)):
                found = [agent.looked_up(bridge, packet) for agent in (self.full, self.ours)]
                assert found[0] == found[1], packet

    def packets(self, world: World) -> Iterator[PacketFields]:
        """Yield what pods of this host send, and what arrives for them."""
        there: list[LocalEndpoint | RemoteEndpoint] = [*world.local.values()]
        there += world.remote.values()
        addresses: set[IPv4Address | IPv6Address] = {
            address for one in there for address in (one.ip, one.ip6) if address
        }
        addresses |= {one.gateway for one in world.networks.values() if one.gateway}
        targets = sorted({*addresses, IPv4Address(VIP), UNKNOWN}, key=str)
        for pod in world.local.values():
            for address in targets:
                for protocol in (oxm.PROTO_TCP, oxm.PROTO_UDP):
                    talk = Talk(to=address, protocol=protocol, port=80)
                    yield from _some(from_endpoint(world, pod, talk))
                yield from _some(question(pod, address))
                if pod.network in world.networks and address.version == 4:
                    yield from self.arrivals(world, pod, IPv4Address(address))

    def arrivals(
        self, world: World, pod: LocalEndpoint, source: IPv4Address
    ) -> Iterator[PacketFields]:
        home = world.networks[pod.network]
        flat = self.mode is FwdMode.ROUTING and not home.vni
        for one in world.networks.values():
            if one.vrf != home.vrf and not flat:
                continue
            frame: dict[str, Any] = {
                "eth_src": "02:00:00:00:00:02",
                "eth_dst": ROUTER_MAC if self.mode is FwdMode.ROUTING else pod.mac,
                "eth_type": oxm.ETH_IPV4,
                "ipv4_src": source,
                "ipv4_dst": pod.ip,
                "ip_proto": oxm.PROTO_TCP,
                "tcp_src": 40_000,
                "tcp_dst": 80,
                "tcp_flags": SYN,
            }
            if one.vni:
                for vtep in VTEPS.values():
                    yield PacketFields({**frame, "in_port": vtep.ofport, "tunnel_id": one.vni})
            else:
                yield PacketFields({**frame, "in_port": 60}, tags=(one.vlan,))


def _some(packet: PacketFields | None) -> list[PacketFields]:
    return [] if packet is None else [packet]


def _service(tenant: str) -> ServiceRecord:
    return ServiceRecord(
        tenant=TenantName(tenant),
        name="web",
        network=NetworkName("x1"),
        ports=("80:80:TCP",),
        selectors={"app": "web"},
        ip_address=VIP,
    )


async def live(mode: FwdMode, history: Sequence[tuple[Any, ...]], random: Random) -> None:
    cluster = ScopedAgents(mode)
    cluster.begin()
    async with (
        background("all", cluster.full.feed.run()),
        background("ours", cluster.ours.feed.run()),
    ):
        await cluster.settle()
        for number, operation in enumerate(history):
            await cluster.do(operation)
            if number % 5 == 4:
                await cluster.settle()
                cluster.compare(random)
        await cluster.settle()
        cluster.compare(random)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([FwdMode.ROUTING, FwdMode.BRIDGE]),
    st.lists(operations, min_size=8, max_size=40),
    st.randoms(use_true_random=False),
)
def test_packets_of_pods_meet_the_same_flows(
    mode: FwdMode, history: list[tuple[Any, ...]], random: Random
) -> None:
    asyncio.run(live(mode, history, random))
