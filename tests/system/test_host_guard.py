"""What the host's kernel translates for pods is judged as translated, and nothing passes it by.

Ways to the management by services, host ports, broadcasts and multicasts; and packets that
connection tracking does not translate.
"""

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from tests.bed.cluster import AGENT_PORT, NETMASTER_PORT, Bed
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.netns import Namespace
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials, reaches
from tests.system.forging import (
    BROADCAST,
    MARK,
    ROUTER,
    Sniffer,
    Wire,
    ethernet,
    ipv4,
    tcp,
    udp,
)
from tests.system.kube_site import api_beside, api_flags, forward
from tests.system.planes import FWD_MODES, planes
from tests.system.rest import ask

pytestmark = [pytest.mark.system, pytest.mark.ovs]

BARE, UNDERLAY = "bare", "br-phy"
NODE_PORT, OTHERS_PORT = 30099, 31999
PATIENCE = 30.0
SILENCE = 1.0
SPECIAL = ("192.168.77.255", "255.255.255.255", "224.0.0.1")
EAR, OPEN_EAR = 9090, 7777


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(
    request: pytest.FixtureRequest,
    bed_dirs: Iterator[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Run a cluster of two hosts that forward packets, with an API server."""
    directory = next(bed_dirs)
    flags = {"netplugin": [*api_flags(tmp_path_factory), "--audit-interval", "2"]}
    with planes(directory, request.param, flags=flags) as bed:
        forward(bed)
        bed.netctl("net", "create", "--subnet=10.70.0.0/24", "--encap=vxlan", BARE)
        yield bed


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server beside netmaster."""
    with api_beside(bed) as api:
        yield api


@pytest.fixture(scope="module")
def pod(bed: Bed, api: ApiServer) -> Iterator[Pod]:
    """Run a pod that reaches its host by an interface of its own, in every mode."""
    assert bed.api is api
    pod = bed.add_pod(bed.hosts[0], "intruder", network=BARE)
    eventually(partial(reaches, pod.namespace, bed.hosts[0].address), "the pod reaches its host")
    yield pod
    bed.delete_pod(pod)


def put_service(api: ApiServer, name: str, target: str, port: int, **spec: Any) -> None:
    """Make a service of hand-made endpoints, as whoever may write both."""
    ports = [{"name": "x", "port": port, "protocol": "TCP"}]
    api.put(SLICES, "evil", f"{name}-a", **endpoint_slice(name, target, ports=ports))
    body = service(spec.pop("address"), {"name": "x", "protocol": "TCP", **spec.pop("of")})
    body["spec"] |= spec
    api.put(SERVICES, "evil", name, **body)


def errors(bed: Bed, host: str) -> list[str]:
    return list(ask(bed, "GET", f"/hosts/{host}").json()["errors"])


def named(bed: Bed, text: str) -> bool:
    """Say whether every host reports an error."""
    return all(any(text in one for one in errors(bed, host.label)) for host in bed.hosts)


def test_no_service_leads_to_the_management(bed: Bed, api: ApiServer, pod: Pod) -> None:
    ends = {"m": (bed.fabric.address, NETMASTER_PORT), "a": (bed.hosts[1].address, AGENT_PORT)}
    for number, (name, (target, port)) in enumerate(ends.items()):
        of = {"port": 80, "nodePort": NODE_PORT + number}
        put_service(api, name, target, port, address=f"10.96.0.{90 + number}", of=of)
    try:
        for name in ends:
            eventually(partial(named, bed, f"service evil/{name} not served in full"), "named")
        for number in range(len(ends)):
            ways = [(host.address, NODE_PORT + number) for host in bed.hosts]
            for address, port in [*ways, (f"10.96.0.{90 + number}", 80)]:
                assert not dials(pod.namespace, address, port, SILENCE), (address, port)
            for address, port in ways:
                assert not dials(bed.fabric.namespace, address, port, SILENCE), "nor the outside"
    finally:
        for name in ends:
            api.delete(SERVICES, "evil", name)
            api.delete(SLICES, "evil", f"{name}-a")
    eventually(lambda: not named(bed, "service evil/"), "the errors are gone")


def test_what_others_translate_for_pods_leads_to_no_management_port(bed: Bed, pod: Pod) -> None:
    """As kube-proxy does: the rule is none of the agent's."""
    here = bed.hosts[0]
    here_ports = {
        OTHERS_PORT: f"{bed.fabric.address}:{NETMASTER_PORT}",
        OTHERS_PORT + 1: f"{here.address}:{AGENT_PORT}",
        OTHERS_PORT + 2: f"{bed.fabric.address}:7070",
    }
    with translating(here.namespace, here_ports), ExitStack() as stack:
        stack.enter_context(answering(bed.fabric.namespace, bed.fabric.address, 7070))
        allowed = partial(dials, pod.namespace, here.address, OTHERS_PORT + 2, PATIENCE)
        eventually(allowed, "translated for the pod")
        for port in (OTHERS_PORT, OTHERS_PORT + 1):
            assert dials(bed.fabric.namespace, here.address, port, PATIENCE), "for the outside"
            assert not dials(pod.namespace, here.address, port, SILENCE), port


@contextmanager
def translating(namespace: Namespace, ends: dict[int, str]) -> Iterator[None]:
    """Have a host lead ports of its own elsewhere, under an address of its own."""
    rules: list[tuple[str, ...]] = [
        ("PREROUTING", "-p", "tcp", "--dport", str(port), "-j", "DNAT", "--to-destination", end)
        for port, end in ends.items()
    ]
    rules.append(("POSTROUTING", "-o", UNDERLAY, "-j", "MASQUERADE"))
    for rule in rules:
        namespace.run(["iptables", "-w", "-t", "nat", "-A", *rule])
    try:
        yield
    finally:
        for rule in rules:
            namespace.run(["iptables", "-w", "-t", "nat", "-D", *rule])


def test_no_service_takes_the_masters_address(bed: Bed, api: ApiServer, pod: Pod) -> None:
    of = {"port": NETMASTER_PORT}
    master = bed.fabric.address
    with answering(pod.namespace, pod.address, NETMASTER_PORT) as callers:
        put_service(
            api, "t", pod.address, NETMASTER_PORT, address="10.96.0.80", of=of, externalIPs=[master]
        )
        try:
            eventually(partial(named, bed, f"{master} port {NETMASTER_PORT}"), "named")
            for host in bed.hosts:
                assert dials(host.namespace, master, NETMASTER_PORT, PATIENCE)
            other = bed.add_pod(bed.hosts[0], "added-meanwhile", network=BARE)
            bed.delete_pod(other)
            assert callers == []
        finally:
            api.delete(SERVICES, "evil", "t")
            api.delete(SLICES, "evil", "t-a")


def test_no_pod_has_a_host_port_of_the_management(bed: Bed, api: ApiServer) -> None:
    assert bed.api is api
    mapping = {"hostPort": AGENT_PORT, "containerPort": 80, "protocol": "tcp"}
    with pytest.raises(CniFailed, match=f"host port tcp {AGENT_PORT} is one of this cluster's"):
        bed.add_pod(bed.hosts[0], "greedy", network=BARE, host_ports=[mapping])


def unknown_packets(sender: str, to: str) -> dict[str, bytes]:
    """Return packets that connection tracking calls invalid, each with the mark."""
    quoted = ipv4(to, sender, 17, udp(1, 2, MARK))
    return {
        "SCTP without a chunk": ipv4(sender, to, 132, MARK * 4),
        "TCP SYN+FIN": ipv4(sender, to, 6, tcp(sender, to, 22, 0x03, MARK)),
        "TCP without flags": ipv4(sender, to, 6, tcp(sender, to, 22, 0, MARK)),
        "TCP with all flags": ipv4(sender, to, 6, tcp(sender, to, 22, 0x3F, MARK)),
        "an error about nothing": ipv4(sender, to, 1, icmp(3, 3, quoted)),
        "an answer nobody asked for": ipv4(sender, to, 1, icmp(0, 0, MARK)),
    }


def icmp(kind: int, code: int, body: bytes) -> bytes:
    """Return a message of ICMP with a right checksum."""
    body += bytes(len(body) % 2)
    message = struct.pack(">BBHI", kind, code, 0, 0) + body
    total = sum(struct.unpack(f">{len(message) // 2}H", message))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return message[:2] + struct.pack(">H", ~total & 0xFFFF) + message[4:]


def test_what_connection_tracking_does_not_know_leaves_no_host(bed: Bed, pod: Pod) -> None:
    """By the pod's interface to its host, and, where the mode has one, by the router."""
    peer = bed.hosts[1]
    ways = [(pod, "host1")]
    with ExitStack() as stack:
        if bed.fwd_mode == "routing":
            routed = bed.add_pod(bed.hosts[0], "routed", network="vxlan")
            stack.callback(bed.delete_pod, routed)
            ways.append((routed, "eth0"))
        underlay = stack.enter_context(Sniffer(peer.namespace, UNDERLAY))
        for sender, link in ways:
            mac, address = held(sender.namespace, link)
            to = host_mac(bed) if link == "host1" else ROUTER
            wire = stack.enter_context(Wire(sender.namespace, link))
            for packet in unknown_packets(address, peer.address).values():
                wire.send(ethernet(to, mac, 0x0800, packet))
            # what comes behind them, and is known, arrives
            last = ipv4(address, peer.address, 17, udp(5353, 7777, MARK + b" known"))
            wire.send(ethernet(to, mac, 0x0800, last))
            eventually(lambda: underlay.heard(MARK + b" known"), "a datagram arrives")
            senders = {
                str(IPv4Address(frame[26:30]))
                for frame in underlay.heard()
                if frame[12:14] == b"\x08\x00" and frame[30:34] == IPv4Address(peer.address).packed
            }
            assert senders == {bed.hosts[0].address}, link
            unknown = [one for one in underlay.heard() if MARK + b" known" not in one]
            assert unknown == [], link


def held(namespace: Namespace, link: str) -> tuple[str, str]:
    """Return the MAC and the IPv4 address of a link."""
    (found,) = json.loads(namespace.run(["ip", "-json", "-4", "addr", "show", link]).stdout)
    (mac,) = json.loads(namespace.run(["ip", "-json", "link", "show", link]).stdout)
    return mac["address"], next(one["local"] for one in found["addr_info"])


def host_mac(bed: Bed) -> str:
    shown = bed.hosts[0].namespace.run(["ip", "-json", "link", "show", "contivh0"]).stdout
    (link,) = json.loads(shown)
    return str(link["address"])


def test_nothing_comes_from_the_underlay_under_a_private_address(bed: Bed) -> None:
    here, there = bed.hosts
    mac, address = held(there.namespace, UNDERLAY)
    to, _ = held(here.namespace, UNDERLAY)
    with ExitStack() as stack:
        ear = stack.enter_context(hearing(here.namespace, OPEN_EAR))
        wire = stack.enter_context(Wire(there.namespace, UNDERLAY))
        for sender in ("172.19.0.2", "172.19.255.254", address):
            packet = ipv4(sender, here.address, 17, udp(1234, OPEN_EAR, sender.encode()))
            wire.send(ethernet(to, mac, 0x0800, packet))
        got = eventually(lambda: drained(ear), "what has its own address is heard")
        assert got == [address.encode()]


@contextmanager
def hearing(namespace: Namespace, port: int) -> Iterator[socket.socket]:
    """Listen for datagrams to any address of a host; beside whatever else does."""
    with namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as ear:
        ear.bind(("", port))
        ear.setblocking(False)
        yield ear


def test_broadcasts_and_multicasts_reach_no_management_port(bed: Bed, pod: Pod) -> None:
    here = bed.hosts[0]
    mac, address = held(pod.namespace, "host1")
    with ExitStack() as stack:
        ears = {p: stack.enter_context(hearing(here.namespace, p)) for p in (EAR, OPEN_EAR)}
        wire = stack.enter_context(Wire(pod.namespace, "host1"))
        for to in (*SPECIAL, here.address):
            for port in (EAR, OPEN_EAR):
                for where in (BROADCAST, host_mac(bed), "01:00:5e:00:00:01"):
                    packet = ipv4(address, to, 17, udp(1234, port, MARK))
                    wire.send(ethernet(where, mac, 0x0800, packet))
        eventually(lambda: len(drained(ears[OPEN_EAR])) > 0, "the host hears what is open")
        assert drained(ears[EAR]) == []


def drained(ear: socket.socket) -> list[bytes]:
    found = []
    with suppress(BlockingIOError):
        while True:
            found.append(ear.recv(100))
    return found
