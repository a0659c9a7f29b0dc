"""From a pod no management port is reached: of no host, no master and no store, in any mode.

The same scan reaches such ports where the agent runs without the guard: else a way that is closed
anyhow would pass for a guard.
"""

import asyncio
import errno
import json
import selectors
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from core import keys
from objdb.api import Change, Put
from state import codec
from state.records import ServiceInstance
from tests.bed.cluster import Bed
from tests.bed.hosts import UPLINK, Host
from tests.bed.netns import Namespace
from tests.bed.physical import OUTSIDE
from tests.bed.pods import Pod
from tests.bed.store import client
from tests.bed.waiting import eventually
from tests.system.echoes import reaches
from tests.system.planes import FWD_MODES, NETWORKS, planes

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.timeout(120)]

SILENCE = 0.7
"""Seconds without an answer after which a port counts as closed."""
TCP = (9999, 9001, 9090, 9002, 9003, 6633, 6634, 6640, 2379, 2380, 4789)
UDP = (4789, 9090, 9999, 2379, 2380)
INFRA, BARE = "contivh1", "bare"
VICTIM_PORT = 5555
FORGED = 1000


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts that forward packets; VLAN 61 has a router."""
    flags = {"netplugin": ["--audit-interval", "2"]}
    with planes(next(bed_dirs), request.param, flags=flags, cards=[UPLINK]) as bed:
        for host in bed.hosts:
            host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
            for peer in bed.hosts:
                eventually(partial(reaches, host.namespace, peer.address), "hosts know each other")
        bed.netctl("net", "create", "--subnet=10.70.0.0/24", "--encap=vxlan", BARE)
        infra = ["--subnet=10.80.0.0/24", "--gateway=10.80.0.254", "--nw-type=infra"]
        bed.netctl("net", "create", *infra, INFRA)
        bed.physical.route({61: [f"{NETWORKS['vlan'][1]}/24"]})
        register_master(bed, OUTSIDE)
        yield bed


def register_master(bed: Bed, address: str) -> None:
    """Have the store know of a master beyond the router of the VLANs."""
    name = keys.service(keys.SERVICE_NETMASTER, address, 9999)
    value = codec.encode(
        ServiceInstance(service=keys.SERVICE_NETMASTER, address=address, port=9999)
    )

    async def put() -> None:
        store = client(bed.store)
        try:
            await store.commit([Change((), (Put(name, value),))])
        finally:
            await store.close()

    bed.fabric.namespace.call(lambda: asyncio.run(put()))


def infra_address(host: Host) -> str:
    """Return the host's address on the infra network, once it has one."""

    def held() -> str:
        done = host.namespace.run(["ip", "-json", "-4", "addr", "show", INFRA], check=False)
        found = json.loads(done.stdout or "[]")
        return next((a["local"] for link in found for a in link.get("addr_info", ())), "")

    return eventually(held, f"{host.label} has an address on {INFRA}")


@dataclass(frozen=True, slots=True)
class Scan:
    """A pod, and the addresses by which it may reach what manages the cluster."""

    pod: Pod
    ears: Mapping[tuple[str, int], socket.socket]

    def reached(self, *addresses: str) -> set[str]:
        """Return all ports that a packet of the pod reaches: an answer, a refusal, or an ear."""
        found = {
            f"tcp {address} {port}" for address, port in dialled(self.pod.namespace, addresses)
        }
        with self.pod.namespace.call(
            lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        ) as mouth:
            for address in addresses:
                for port in UDP:
                    mouth.sendto(b"let me in", (address, port))
            with selectors.DefaultSelector() as heard:
                for (address, port), ear in self.ears.items():
                    heard.register(ear, selectors.EVENT_READ, f"udp {address} {port}")
                while events := heard.select(SILENCE):
                    for key, _ in events:
                        assert isinstance(key.fileobj, socket.socket)
                        key.fileobj.recv(64)
                        found.add(key.data)
        return found


def dialled(source: Namespace, addresses: tuple[str, ...]) -> set[tuple[str, int]]:
    """Return the TCP ports that answer, be it by a refusal; all are asked at once."""
    found: set[tuple[str, int]] = set()
    with ExitStack() as stack:
        ready = stack.enter_context(selectors.DefaultSelector())
        for address in addresses:
            for port in TCP:
                client = source.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM))
                stack.enter_context(client)
                client.setblocking(False)
                client.connect_ex((address, port))
                ready.register(client, selectors.EVENT_WRITE, (address, port))
        while ready.get_map() and (events := ready.select(SILENCE)):
            for key, _ in events:
                ready.unregister(key.fileobj)
                assert isinstance(key.fileobj, socket.socket)
                outcome = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if outcome in (0, errno.ECONNREFUSED):  # else a router's word that there is no way
                    found.add(key.data)
    return found


@contextmanager
def scanning(pod: Pod, places: Mapping[str, Namespace]) -> Iterator[Scan]:
    """Listen for datagrams at the management ports of addresses while a pod asks."""
    with ExitStack() as stack:
        ears = {}
        for address, namespace in places.items():
            for port in UDP:
                ear = namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                stack.enter_context(ear)
                ear.bind((address, port))
                ears[address, port] = ear
        yield Scan(pod, ears)


@contextmanager
def unguarded(bed: Bed) -> Iterator[None]:
    """Have all agents run without the guard."""
    restart(bed, "--no-pod-guard")
    try:
        yield
    finally:
        restart(bed)


def restart(bed: Bed, *more: str) -> None:
    """Restart all agents with other flags."""
    for agent in bed.agents:
        agent.kill()
        agent.command[:] = [*(word for word in agent.command if word != "--no-pod-guard"), *more]
        agent.spawn()
    for agent in bed.agents:
        agent.await_ready()


@pytest.mark.parametrize("network", ["vxlan", "vlan", BARE, INFRA])
def test_no_management_port_is_reached(bed: Bed, network: str) -> None:
    here, there = bed.hosts
    places = {
        bed.fabric.address: bed.fabric.namespace,
        here.address: here.namespace,
        there.address: there.namespace,
        infra_address(here): here.namespace,
        infra_address(there): there.namespace,
    }
    if network == "vlan":
        places[OUTSIDE] = bed.physical.outside
    pod = bed.add_pod(here, f"on-{network}", network=network)
    try:
        ways = ways_of(bed.fwd_mode, network, places)
        for address in ways:
            eventually(partial(reaches, pod.namespace, address), f"{network} reaches {address}")
        with scanning(pod, places) as scan:
            assert scan.reached(*places) == set()
            if not ways:
                return
            with unguarded(bed):
                open_ports = scan.reached(*places)
                for address in ways:
                    assert f"tcp {address} 9090" in open_ports, address
                    assert f"udp {address} 9090" in open_ports, address
            assert scan.reached(*places) == set()
    finally:
        bed.delete_pod(pod)


def ways_of(fwd_mode: str, network: str, places: Mapping[str, Namespace]) -> list[str]:
    """Return the addresses that pods of a network reach, if not at management ports."""
    fabric, here, there, infra_here, infra_there, *_ = places
    if network == BARE:
        return [fabric, here, there]
    if network == INFRA:
        more = [fabric, here, there] if fwd_mode == "routing" else []
        return [infra_here, infra_there, *more]
    if (fwd_mode, network) == ("bridge", "vlan"):
        return [OUTSIDE]
    if (fwd_mode, network) == ("routing", "vxlan"):
        return [fabric, here, there, infra_here, infra_there]
    return []
