"""Services on a real switch, with real connections of pods: what the switch itself makes of them.

Pods are namespaces on one bridge, which an agent has in both forwarding modes. What several hosts
and daemons make of services is in `tests/system/test_services.py`.
"""

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

import pytest

from core.ids import EndpointKey, NetworkId
from ofnet.agent import BridgeAgent
from ofnet.changes import Changes, ObjectKind
from ofnet.world import (
    FwdMode,
    LocalEndpoint,
    Network,
    Provider,
    Service,
    ServicePort,
    World,
)
from tests.bed.connections import wait_without
from tests.bed.netns import Namespace, fresh_name, tx_checksum_off
from tests.bed.ovs import DATAPATH, OvsHost
from tests.bed.waiting import eventually_async
from tests.integration.ofnet.dialled import Dialled, dialled, running_agent, until

pytestmark = [pytest.mark.ovs]

NET = Network(
    id=NetworkId("net.tenant1"),
    vrf=1,
    vlan=1,
    vni=1,
    granted=(IPv4Network("10.9.0.0/24"), IPv6Network("fd00:9::/64")),
)
VIPS: dict[int, IPv4Address | IPv6Address] = {
    4: IPv4Address("10.9.0.100"),
    6: IPv6Address("fd00:9::64"),
}
CLIENT, PROVIDERS = 1, (2, 3, 4, 5, 6)
PATIENCE = 10.0
SHORT = 1300
"""Bytes that a link is said to carry."""
TOO_BIG = 2
"""The type of ICMPv6 that says so."""
AGAIN = 50
"""Connections from one port, one after the other."""
OWN_PORT = 20000
"""Below those that Linux gives: an ended connection keeps one of these for a minute."""
LONG = 4000
"""Bytes of a datagram that is sent in fragments."""
Address = IPv4Address | IPv6Address


def address(number: int, version: int = 4) -> Address:
    return IPv4Address(f"10.9.0.{number}") if version == 4 else IPv6Address(f"fd00:9::{number}")


def mac(number: int) -> str:
    return f"02:02:0a:09:00:{number:02x}"


def pod(number: int) -> LocalEndpoint:
    return LocalEndpoint(
        key=EndpointKey(f"pod{number}"),
        network=NET.id,
        ofport=number,
        mac=mac(number),
        ip=IPv4Address(f"10.9.0.{number}"),
        ip6=IPv6Address(f"fd00:9::{number}"),
    )


def service(*numbers: int, version: int = 4, affinity: int = 0) -> Service:
    """Return a service on TCP 80 and UDP 80, provided at port 8080 of some pods."""
    found = frozenset(Provider(address(one, version), 8080, 1) for one in numbers)
    ports = (ServicePort(6, 80, found), ServicePort(17, 80, found))
    return Service(key="web", vrf=1, address=VIPS[version], ports=ports, affinity=affinity)


@dataclass(frozen=True)
class ServedBridge:
    """Pods on a bridge with an agent; the providers say who they are."""

    bridge: Dialled
    agent: BridgeAgent
    pods: dict[int, Namespace]

    async def serve(self, one: Service) -> None:
        """Have this service, and no other."""
        world = replace(self.agent.world, services={one.key: one})
        await self.agent.update(world, Changes.of(ObjectKind.SERVICE, [one.key]))

    async def asks(self, pod: int, times: int = 1, **how: int) -> Counter[int]:
        """Return who answers so many new connections, by how often; 0 for nobody."""
        return await asyncio.to_thread(lambda: Counter(self.ask(pod, **how) for _ in range(times)))

    def ask(
        self,
        pod: int,
        *,
        kind: int = socket.SOCK_STREAM,
        v: int = 4,
        size: int = 1,
        answer: int = 1,
    ) -> int:
        try:
            with closing(self.connected(pod, kind=kind, v=v)) as end:
                return said(end, size, answer)
        except OSError:
            return 0

    def connected(
        self,
        pod: int,
        *,
        kind: int = socket.SOCK_STREAM,
        v: int = 4,
        to: int = 80,
    ) -> socket.socket:
        """Return an end of a connection to the service."""
        family = socket.AF_INET if v == 4 else socket.AF_INET6
        end = self.pods[pod].call(lambda: socket.socket(family, kind))
        end.settimeout(PATIENCE)
        try:
            end.connect((str(VIPS[v]), to))
        except OSError:
            end.close()
            raise
        return end


def said(end: socket.socket, size: int = 1, answer: int = 1) -> int:
    """Ask with so many bytes for an answer of so many; return who answers."""
    end.sendall(str(answer).encode().ljust(size))
    heard = end.recv(1 << 16)
    if len(heard) < answer:
        raise ConnectionError("closed by the other end")
    return int(heard)


async def has_ended(held: socket.socket) -> bool:
    """Say something on a connection; tell whether it has been reset."""
    try:
        await asyncio.to_thread(said, held)
    except ConnectionError:
        return True
    return False


@pytest.fixture(scope="module")
def pods() -> Iterator[dict[int, Namespace]]:
    """Run a namespace for each pod, with servers in those of providers."""
    with ExitStack() as stack:
        made = {}
        for number in (CLIENT, *PROVIDERS):
            made[number] = Namespace(fresh_name(f"p{number}")).create()
            stack.callback(made[number].delete)
        yield made


@contextlib.asynccontextmanager
async def site(
    ovs: OvsHost, pods: dict[int, Namespace], mode: FwdMode, *services: Service
) -> AsyncIterator[ServedBridge]:
    """Run an agent on a bridge that the pods are plugged into."""
    world = World(
        fwd_mode=mode,
        networks={NET.id: NET},
        local={one.key: one for one in map(pod, pods)},
        services={one.key: one for one in services},
        complete=True,
    )
    async with dialled(ovs) as bridge:
        with ExitStack() as stack:
            for number, inside in pods.items():
                _plug(bridge, number, inside, mode)
                stack.callback(inside.run, ["ip", "link", "del", "eth0"], check=False)
            for number in PROVIDERS:
                stack.enter_context(_server(pods[number], number))
            async with running_agent(bridge, world) as agent:
                yield ServedBridge(bridge, agent, pods)


def _plug(bridge: Dialled, number: int, inside: Namespace, mode: FwdMode) -> None:
    host, port = bridge.ovs.namespace, f"pod{number}"
    peer = ["peer", "name", "eth0", "netns", inside.name]
    host.run(["ip", "link", "add", port, "type", "veth", *peer])
    host.run(["ip", "link", "set", port, "up"])
    inside.run(["ip", "link", "set", "eth0", "address", mac(number), "up"])
    inside.run(["ip", "address", "add", f"{address(number)}/24", "dev", "eth0"])
    inside.run(["ip", "-6", "address", "add", f"{address(number, 6)}/64", "dev", "eth0", "nodad"])
    for other in (CLIENT, *PROVIDERS, 100):
        for version in (4, 6):
            to = str(VIPS[version] if other == 100 else address(other, version))
            found = mac(other) if mode is FwdMode.BRIDGE else "00:00:11:11:11:11"
            inside.run(["ip", "neigh", "replace", to, "lladdr", found, "dev", "eth0"])
    tx_checksum_off(inside, "eth0")
    bridge.ovs.vsctl(
        *("add-port", bridge.name, port, "--"),
        *("set", "interface", port, f"ofport_request={number}"),
    )


@contextlib.contextmanager
def _server(inside: Namespace, number: int) -> Iterator[None]:
    """Answer connections and datagrams at port 8080 with a number, in both families."""
    name = str(number).encode()

    def listen(kind: int) -> socket.socket:
        end = socket.socket(socket.AF_INET6, kind)
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.bind(("::", 8080))
        return end

    def answer(end: socket.socket) -> None:
        with end, contextlib.suppress(OSError):
            while end.recv(1 << 16):
                end.sendall(name)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                end, _ = streams.accept()
                threading.Thread(target=answer, args=(end,), daemon=True).start()

    def reflect() -> None:
        while True:
            heard, sender = datagrams.recvfrom(1 << 16)
            if heard == b"end":
                return
            datagrams.sendto(name.ljust(int(heard)), sender)

    streams = inside.call(lambda: listen(socket.SOCK_STREAM))
    datagrams = inside.call(lambda: listen(socket.SOCK_DGRAM))
    streams.listen(512)
    threads = [threading.Thread(target=one) for one in (accept, reflect)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        streams.shutdown(socket.SHUT_RDWR)
        with closing(inside.call(lambda: socket.socket(type=socket.SOCK_DGRAM))) as end:
            end.sendto(b"end", ("127.0.0.1", 8080))
        for thread in threads:
            thread.join()
        streams.close()
        datagrams.close()


MODES = pytest.mark.parametrize("mode", FwdMode)
VERSIONS = pytest.mark.parametrize("version", [4, 6])


@MODES
@VERSIONS
async def test_connections_are_spread_evenly(
    ovs_module: OvsHost, pods: dict[int, Namespace], mode: FwdMode, version: int
) -> None:
    async with site(ovs_module, pods, mode, service(*PROVIDERS, version=version)) as here:
        streams = await here.asks(CLIENT, 300, v=version)
        assert streams.keys() == set(PROVIDERS)
        assert all(30 < count < 95 for count in streams.values()), streams
        datagrams = await here.asks(CLIENT, 100, kind=socket.SOCK_DGRAM, v=version)
        assert datagrams.keys() == set(PROVIDERS)
        assert not here.agent.stats["PktRcvd"], "no packet makes a trip through the agent"
        assert not here.agent.sync.refused


@MODES
@VERSIONS
async def test_a_client_finds_a_service_on_its_own_network(
    ovs_module: OvsHost, pods: dict[int, Namespace], mode: FwdMode, version: int
) -> None:
    only = PROVIDERS[0]
    async with site(ovs_module, pods, mode, service(only, version=version)) as here:
        pods[CLIENT].run(["ip", "neigh", "del", str(VIPS[version]), "dev", "eth0"])
        assert await here.asks(CLIENT, v=version) == {only: 1}


@MODES
async def test_a_provider_uses_its_own_service(
    ovs_module: OvsHost, pods: dict[int, Namespace], mode: FwdMode
) -> None:
    async with site(ovs_module, pods, mode, service(PROVIDERS[0])) as here:
        assert await here.asks(PROVIDERS[0], 5) == {PROVIDERS[0]: 5}
        assert await here.asks(PROVIDERS[0], 5, kind=socket.SOCK_DGRAM) == {PROVIDERS[0]: 5}
        await here.serve(service(PROVIDERS[0], version=6))
        assert await here.asks(PROVIDERS[0], 5, v=6) == {PROVIDERS[0]: 5}


@MODES
@VERSIONS
async def test_fragments_of_a_datagram_reach_one_provider(
    ovs_module: OvsHost, pods: dict[int, Namespace], mode: FwdMode, version: int
) -> None:
    async with site(ovs_module, pods, mode, service(*PROVIDERS, version=version)) as here:
        ask = partial(here.asks, CLIENT, 5, kind=socket.SOCK_DGRAM, v=version)
        for size, answer in ((LONG, 1), (LONG, LONG), (1, LONG)):
            found = await ask(size=size, answer=answer)
            assert found.total() == 5
            assert not found[0]


@MODES
@VERSIONS
async def test_fragments_of_a_provider_reach_itself(
    ovs_module: OvsHost, pods: dict[int, Namespace], mode: FwdMode, version: int
) -> None:
    own = PROVIDERS[0]
    async with site(ovs_module, pods, mode, service(own, version=version)) as here:
        for size, answer in ((LONG, 1), (1, LONG), (LONG, LONG), (1, 1)):
            ask = partial(here.asks, own, 2, kind=socket.SOCK_DGRAM, v=version)
            assert await ask(size=size, answer=answer) == {own: 2}, (size, answer)


@MODES
@VERSIONS
async def test_clients_and_providers_hear_of_errors(
    ovs_module: OvsHost, pods: dict[int, Namespace], mode: FwdMode, version: int
) -> None:
    """Of a port that nobody listens at, and of packets that a link of the way does not carry."""
    only, router = PROVIDERS[:2]
    async with site(ovs_module, pods, mode, service(only, version=version)) as here:
        nobody = frozenset({Provider(address(only, version), 9, 1)})
        ours = service(only, version=version)
        await here.serve(replace(ours, ports=(*ours.ports, ServicePort(17, 81, nobody))))
        silent = here.connected(CLIENT, kind=socket.SOCK_DGRAM, v=version, to=81)
        with closing(silent), pytest.raises(ConnectionRefusedError):
            await asyncio.to_thread(said, silent)
        with closing(here.connected(CLIENT, kind=socket.SOCK_DGRAM, v=version)) as end:
            assert await asyncio.to_thread(said, end) == only
            port = end.getsockname()[1]
            ends = (address(CLIENT, version), port), (address(only, version), 8080)
            _too_long(pods[router], *ends)
            await eventually_async(partial(_heard, lambda: _mtu_of(end)), "the client hears")
            if version == 6:
                return  # Open vSwitch 3.1 changes the length that such an error tells of UDP
            ends = (VIPS[version], 80), (address(CLIENT, version), port)
            _too_long(pods[CLIENT], *ends)
            known = partial(_mtu_to, pods[only], address(CLIENT, version))
            await eventually_async(partial(_heard, known), "the provider hears")


@MODES
async def test_a_provider_of_tcp_reads_what_an_error_of_ipv6_says(
    ovs_module: OvsHost, pods: dict[int, Namespace], mode: FwdMode
) -> None:
    only = PROVIDERS[0]

    def listen() -> socket.socket:
        return socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)

    async with site(ovs_module, pods, mode, service(only, version=6)) as here:
        with closing(here.connected(CLIENT, v=6)) as end, pods[only].call(listen) as heard:
            assert await asyncio.to_thread(said, end) == only
            heard.settimeout(PATIENCE)
            ends = (VIPS[6], 80), (address(CLIENT, 6), end.getsockname()[1])
            _too_long(pods[CLIENT], *ends, protocol=socket.IPPROTO_TCP)
            error = b""
            while error[:1] != bytes([TOO_BIG]):
                error = await asyncio.to_thread(heard.recv, 2048)
            assert int.from_bytes(error[4:8]) == SHORT
            assert error[16:32] == address(only, 6).packed, "what the provider sent"


async def _heard(mtu: Callable[[], int]) -> bool:
    return mtu() == SHORT


def _too_long(
    inside: Namespace,
    sender: tuple[Address, int],
    to: tuple[Address, int],
    protocol: int = socket.IPPROTO_UDP,
) -> None:
    """Say to the sender of a packet that it should be shorter."""
    v4 = isinstance(sender[0], IPv4Address)
    ports = struct.pack(">HH", sender[1], to[1])
    inner = ports + struct.pack(">HH", 8 + 64, 1) + bytes(64)
    if protocol == socket.IPPROTO_TCP:
        inner = ports + struct.pack(">IIBBHHH", 1, 1, 0x50, 0x10, 64, 1, 0)
    ends = sender[0].packed + to[0].packed
    if v4:
        quoted = (
            struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), 1, 0x4000, 64, protocol, 0) + ends
        )
        quoted = quoted[:10] + _checksum(quoted) + quoted[12:] + inner
        error = struct.pack(">BBHHH", 3, 4, 0, 0, SHORT) + quoted
        error = error[:2] + _checksum(error) + error[4:]
    else:
        quoted = struct.pack(">IHBB", 6 << 28, len(inner), protocol, 64) + ends + inner
        error = struct.pack(">BBHI", TOO_BIG, 0, 0, SHORT) + quoted
    family, icmp = (
        (socket.AF_INET, socket.IPPROTO_ICMP) if v4 else (socket.AF_INET6, socket.IPPROTO_ICMPV6)
    )
    with inside.call(lambda: socket.socket(family, socket.SOCK_RAW, icmp)) as door:
        door.sendto(error, (str(sender[0]), 0))


def _checksum(content: bytes) -> bytes:
    total = sum(struct.unpack(f">{len(content) // 2}H", content))
    total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)


def _mtu_of(end: socket.socket) -> int:
    if end.family == socket.AF_INET:
        return end.getsockopt(socket.IPPROTO_IP, 14)  # IP_MTU
    return end.getsockopt(socket.IPPROTO_IPV6, 24)  # IPV6_MTU


def _mtu_to(inside: Namespace, to: Address) -> int:
    shown = inside.run(["ip", "-json", "route", "get", str(to)]).stdout
    return int(json.loads(shown)[0].get("metrics", [{}])[0].get("mtu", 0))


async def test_a_client_may_use_a_port_for_the_service_and_for_its_provider(
    ovs_module: OvsHost, pods: dict[int, Namespace]
) -> None:
    """Both have the same answers, but for what the switch changes."""
    only = PROVIDERS[0]
    service_way, own_way = (str(VIPS[4]), 80), (str(address(only)), 8080)

    def asked(first: tuple[str, int], second: tuple[str, int]) -> list[int]:
        with closing(_bound(pods[CLIENT], 0)) as one:
            one.connect(first)
            with closing(_bound(pods[CLIENT], one.getsockname()[1])) as two:
                two.connect(second)
                return [said(one), said(two), said(one)]

    async with site(ovs_module, pods, FwdMode.ROUTING, service(only)) as here:
        assert await asyncio.to_thread(asked, own_way, service_way) == [only] * 3
        if here.agent.world.unchanged_nat:  # else nothing gives a direct connection another port
            assert await asyncio.to_thread(asked, service_way, own_way) == [only] * 3


@VERSIONS
@pytest.mark.parametrize("itself", [False, True], ids=["direct", "service of that address"])
async def test_a_client_that_uses_a_port_again_and_again_harms_no_switch(
    ovs_module: OvsHost, pods: dict[int, Namespace], version: int, *, itself: bool
) -> None:
    """Some releases end at a packet of a connection that was put back under its own addresses."""
    only = PROVIDERS[0]
    to = address(only, version)
    offered = service(only, version=version)
    if itself:
        ports = tuple(replace(one, port=8080) for one in offered.ports)
        offered = replace(offered, address=to, ports=ports)
    async with site(ovs_module, pods, FwdMode.ROUTING, offered):

        def again() -> None:
            for _ in range(AGAIN):
                with closing(_bound(pods[CLIENT], OWN_PORT, version)) as end:
                    # closed by a reset, so that its port is free at once
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    end.connect((str(to), 8080))
                    assert said(end) == only
                wait_without(pods[only], 8080)

        await asyncio.to_thread(again)
    # answers nothing if it has ended
    assert ovs_module.appctl("version")


def _bound(inside: Namespace, port: int, version: int = 4) -> socket.socket:
    family, anywhere = (socket.AF_INET, "0.0.0.0") if version == 4 else (socket.AF_INET6, "::")
    with ExitStack() as failed:
        end = failed.enter_context(inside.call(lambda: socket.socket(family)))
        end.settimeout(PATIENCE)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        end.bind((anywhere, port))
        failed.pop_all()
        return end


@VERSIONS
async def test_a_client_with_affinity_keeps_its_provider(
    ovs_module: OvsHost, pods: dict[int, Namespace], version: int
) -> None:
    wanted = service(*PROVIDERS, version=version, affinity=60)
    async with site(ovs_module, pods, FwdMode.ROUTING, wanted) as here:
        (kept,) = await here.asks(CLIENT, 20, v=version)
        others = [one for one in PROVIDERS if one != kept]
        for count in range(len(others), 0, -1):
            providers = (kept, *others[:count])
            await here.serve(service(*providers, version=version, affinity=60))
            assert await here.asks(CLIENT, 10, v=version) == {kept: 10}, "whoever else goes"
        learned = here.bridge.ofctl("dump-flows", "table=13").count("NXM_NX_REG1")
        assert learned == 1, "one flow for a client, of a service's port"
        await here.serve(service(*others, version=version, affinity=60))
        # The switch learns once more from the last packets of a megaflow when it revalidates it.
        # Those to `kept` are from before the change: learned after it, between two connections,
        # they would have the client choose twice.
        here.bridge.ovs.appctl("revalidator/wait")
        (moved,) = await here.asks(CLIENT, 20, v=version)
        assert moved != kept
        here.bridge.ovs.appctl("revalidator/wait")
        assert await here.asks(CLIENT, 5, v=version) == {moved: 5}
        here.bridge.ovs.appctl("revalidator/wait")
        await here.serve(service(*PROVIDERS, version=version, affinity=60))
        assert await here.asks(CLIENT, 20, v=version) == {moved: 20}


@VERSIONS
async def test_the_provider_of_a_client_with_affinity_is_forgotten_after_its_time(
    ovs_module: OvsHost, pods: dict[int, Namespace], version: int
) -> None:
    wanted = service(*PROVIDERS, version=version, affinity=1)
    async with site(ovs_module, pods, FwdMode.ROUTING, wanted) as here:
        (first,) = await here.asks(CLIENT, v=version)
        met = first
        for _ in range(60):  # all by chance at the first one: once in 10^41
            if met != first:
                break
            await until(lambda: not _learned(here), "the switch forgets the client")
            (met,) = await here.asks(CLIENT, v=version)
        assert met in PROVIDERS
        assert met != first, "chosen anew"


@VERSIONS
async def test_fragments_go_to_the_provider_of_a_client_with_affinity(
    ovs_module: OvsHost, pods: dict[int, Namespace], version: int
) -> None:
    wanted = service(*PROVIDERS, version=version, affinity=60)
    for size in (1, LONG):
        async with site(ovs_module, pods, FwdMode.ROUTING, wanted) as here:
            kept = await _settled(here, version, size)
            others = [one for one in PROVIDERS if one != kept]
            await here.serve(service(*others, version=version, affinity=60))
            here.bridge.ovs.appctl("revalidator/wait")
            assert await _settled(here, version, size) in others


async def _settled(here: ServedBridge, version: int, size: int) -> int:
    """Return the one provider of a client's datagrams, after a first one of a size.

    The switch learns once more from the first one's fragments when it revalidates their way, and
    may choose anew by that: what it keeps then counts.
    """
    ask = partial(here.asks, CLIENT, kind=socket.SOCK_DGRAM, v=version)
    assert 0 not in await ask(size=size)
    here.bridge.ovs.appctl("revalidator/wait")
    (one,) = await ask(times=10, size=LONG)
    assert await ask(times=10) == {one: 10}
    return int(one)


def _learned(here: ServedBridge) -> bool:
    return "NXM_NX_REG1" in here.bridge.ofctl("dump-flows", "table=13")


async def test_a_learned_choice_survives_a_comparison(
    ovs_module: OvsHost, pods: dict[int, Namespace]
) -> None:
    wanted = service(*PROVIDERS, affinity=60)
    async with site(ovs_module, pods, FwdMode.ROUTING, wanted) as here:
        (kept,) = await here.asks(CLIENT, 5)
        async with running_agent(here.bridge, here.agent.world):
            assert await here.asks(CLIENT, 10) == {kept: 10}


async def test_a_provider_that_comes_moves_nobody_and_one_that_goes_ends_its_connections(
    ovs_module: OvsHost, pods: dict[int, Namespace]
) -> None:
    first, second = PROVIDERS[:2]
    async with site(ovs_module, pods, FwdMode.ROUTING, service(first)) as here:
        held = await asyncio.to_thread(here.connected, CLIENT)
        with closing(held):
            assert await asyncio.to_thread(said, held) == first
            await here.serve(service(first, second))
            assert await asyncio.to_thread(said, held) == first
            assert (await here.asks(CLIENT, 60)).keys() == {first, second}, "new ones at once"
            await here.serve(service(second))
            await eventually_async(partial(has_ended, held), "the connection ends")
            here.bridge.ovs.appctl("revalidator/wait")
            assert await here.asks(CLIENT, 10) == {second: 10}


async def test_a_provider_that_drains_keeps_its_connections(
    ovs_module: OvsHost, pods: dict[int, Namespace]
) -> None:
    first, second = PROVIDERS[:2]
    leaving = Provider(address(first, 4), 8080, 1)
    ports = tuple(replace(one, draining=frozenset({leaving})) for one in service(second).ports)
    async with site(ovs_module, pods, FwdMode.ROUTING, service(first)) as here:
        held = await asyncio.to_thread(here.connected, CLIENT)
        with closing(held):
            assert await asyncio.to_thread(said, held) == first
            await here.serve(replace(service(second), ports=ports))
            here.bridge.ovs.appctl("revalidator/wait")
            assert await here.asks(CLIENT, 10) == {second: 10}
            assert await asyncio.to_thread(said, held) == first
            await here.serve(service(second))
            await eventually_async(partial(has_ended, held), "the connection ends")


async def test_a_service_that_lost_its_providers_refuses(
    ovs_module: OvsHost, pods: dict[int, Namespace]
) -> None:
    async with site(ovs_module, pods, FwdMode.ROUTING, service(PROVIDERS[0])) as here:
        held = await asyncio.to_thread(here.connected, CLIENT)
        with closing(held):
            await here.serve(service())
            await eventually_async(partial(has_ended, held), "the connection ends")
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.to_thread(_refused, here, kind)


def _refused(here: ServedBridge, kind: int) -> None:
    with closing(here.connected(CLIENT, kind=kind)) as end:
        said(end)


async def test_groups_go_with_their_flows(ovs_module: OvsHost, pods: dict[int, Namespace]) -> None:
    async with site(ovs_module, pods, FwdMode.ROUTING, service(*PROVIDERS)) as here:
        await here.serve(service(*PROVIDERS[:2]))
        async with running_agent(here.bridge, here.agent.world) as agent:
            await until(lambda: here.bridge.ofctl("dump-groups").count("group_id=") == 1, "one")
            assert agent.sync.synced


@MODES
async def test_connections_go_on_or_end_at_once_when_the_switch_restarts(
    ovs: OvsHost, pods: dict[int, Namespace], mode: FwdMode
) -> None:
    """What the userspace datapath tracked is gone; no connection hangs. The kernel tracks on.

    Where the client speaks first, its packet is dealt out as before, to the same provider. Where
    the provider does, the client hears from an address that it did not ask, and refuses: the
    provider's end is reset, and the client's by its next packet.
    """
    providers = PROVIDERS[:3]
    async with site(ovs, pods, mode, service(*providers)) as here, AsyncExitStack() as stack:
        ours = service(*providers)
        speaker = Provider(address(PROVIDERS[3]), 9090, 1)
        port = ServicePort(6, 81, frozenset({speaker}))
        await here.serve(replace(ours, ports=(*ours.ports, port)))
        listener = pods[PROVIDERS[3]].call(_listener)
        stack.enter_context(closing(listener))
        held = [await asyncio.to_thread(here.connected, CLIENT) for _ in range(12)]
        waiting = await asyncio.to_thread(here.connected, CLIENT, to=81)
        for end in (*held, waiting):
            stack.enter_context(closing(end))
        served = [await asyncio.to_thread(said, end) for end in held]
        accepted, _ = await asyncio.to_thread(listener.accept)
        stack.enter_context(closing(accepted))
        # else a provider whose answer was not acknowledged before the switch died speaks first
        await until(partial(_all_is_acknowledged, pods), "no end has to send anything again")

        ovs.vswitchd.kill()
        await until(lambda: not here.bridge.switch.connected, "the switch has gone")
        await asyncio.to_thread(ovs.vswitchd.start)
        await until(lambda: here.agent.sync.synced, "the bridge equals its World")

        assert [await asyncio.to_thread(said, end) for end in held] == served, "they go on"
        accepted.sendall(b"news")
        if DATAPATH == "system":
            assert await asyncio.to_thread(_hears, waiting) == b"news"
        else:
            with pytest.raises(ConnectionError):
                await asyncio.to_thread(_hears, accepted)
            waiting.sendall(b"?")
            with pytest.raises(ConnectionError):
                await asyncio.to_thread(_hears, waiting)
        assert (await asyncio.to_thread(here.ask, CLIENT)) in providers, "new ones are served"


def _all_is_acknowledged(pods: dict[int, Namespace]) -> bool:
    listed = [pod.run(["ss", "-Htn"]).stdout for pod in pods.values()]
    return not any(int(line.split()[2]) for line in "".join(listed).splitlines())


def _listener() -> socket.socket:
    listener = socket.create_server(("0.0.0.0", 9090))
    listener.settimeout(PATIENCE)
    return listener


def _hears(end: socket.socket) -> bytes:
    end.settimeout(PATIENCE)
    if heard := end.recv(100):
        return heard
    raise ConnectionError("closed by the other end")
