"""Ingress policies hold for the outside: by node port, external address, load balancer, host port.

In all four modes, both families, policies of Kubernetes and Contiv's own, with the pod's own host
and another one as the way in. What an address block means in each way is the table of
docs/kubernetes.md. The host's own connections pass, whatever the policies are.
"""

import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from netplugin.world.kubernetes.policy_objects import NETWORK_POLICIES
from ofnet.world import tunnel_source6
from tests.bed.cluster import Bed
from tests.bed.kubernetes import endpoint_slice, service
from tests.bed.netns import Namespace
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, asks, dials, echoing, reaches
from tests.system.joined import OUTSIDE6, address6, joined_site
from tests.system.planes import FWD_MODES, NETWORKS, addresses, applied
from tests.system.service_ways import (
    ADDRESS,
    ADDRESS6,
    EXTERNAL,
    EXTERNAL6,
    HOST_PORT,
    NODE_PORT,
    PORTS,
    READY,
    TARGET,
)

pytestmark = [pytest.mark.system, pytest.mark.ovs]

NAMESPACE = "default"
LOCAL_ADDRESS, LOCAL_ADDRESS6, LOCAL_PORT = "10.96.0.11", "fd00:96::11", 30081
BALANCED, BALANCED6 = "203.0.113.10", "2001:db8:113::10"
PROXIED = 30082
"""A node port that rules like kube-proxy's lead to the pod."""
PATIENCE, SILENCE = 3.0, 0.7
BOTH = frozenset({"TCP", "UDP"})
NONE: frozenset[str] = frozenset()
OTHER = "node port of the other host"
KINDS = ("kubernetes", "contiv")

Open = dict[str, frozenset[str]]
"""Way -> the protocols that pass."""
Ways = Mapping[str, tuple[Namespace, str, int]]


@dataclass(frozen=True)
class OutsideClients:
    """A pod on the first of two hosts, served by every way, in one family."""

    bed: Bed
    pod: Pod
    near: Pod
    network: str
    version: int

    @property
    def plane(self) -> tuple[str, str]:
        return self.bed.fwd_mode, self.network

    @property
    def outside(self) -> Namespace:
        return self.bed.fabric.namespace

    def of_family(self, four: str, six: str) -> str:
        return four if self.version == 4 else six

    @property
    def client(self) -> str:
        """The address of the client outside."""
        return self.of_family(self.bed.fabric.address, OUTSIDE6)

    @property
    def forwarder(self) -> str:
        """The address under which the other host forwards."""
        other = self.bed.hosts[1]
        six = address6(other)
        if self.network == "vxlan":
            six = str(tunnel_source6(IPv4Address(other.address)))
        return self.of_family(other.address, six)

    @property
    def served(self) -> str:
        return addresses(self.pod)[self.version == 6]

    def from_outside(self) -> Ways:
        """Return the ways of the outside by the pod's own host."""
        one = self.bed.hosts[0]
        here = self.of_family(one.address, address6(one))
        ways = {
            "node port": (here, NODE_PORT),
            "node port, Local": (here, LOCAL_PORT),
            "external address": (self.of_family(EXTERNAL, EXTERNAL6), 80),
            "load balancer": (self.of_family(BALANCED, BALANCED6), 80),
            "host port": (here, HOST_PORT),
            "node port of kube-proxy": (here, PROXIED),
        }
        return {way: (self.outside, *at) for way, at in ways.items()}

    def by_the_other(self) -> Ways:
        """Return the way of the outside by the other host, where there is one."""
        if self.plane == ("routing", "vlan"):
            return {}  # by BGP alone
        two = self.bed.hosts[1]
        here = self.of_family(two.address, address6(two))
        return {OTHER: (self.outside, here, NODE_PORT)}

    def from_a_pod(self) -> Ways:
        """Return the way of a pod beside, by the port of its host, where it has a way there."""
        one = self.bed.hosts[0]
        if self.plane != ("routing", "vxlan") or self.version == 6:
            return {}
        return {"pod beside": (self.near.namespace, one.address, NODE_PORT)}

    def of_the_host(self) -> Ways:
        one = self.bed.hosts[0]
        here = self.of_family(one.address, address6(one))
        ways = {
            "the pod itself": (self.served, TARGET),
            "cluster address": (self.of_family(ADDRESS, ADDRESS6), 80),
            "own node port": (here, NODE_PORT),
            "own host port": (here, HOST_PORT),
            "own node port of kube-proxy": (here, PROXIED),
        }
        if self.version == 4:
            ways["loopback"] = ("127.0.0.1", NODE_PORT)
            ways["loopback, kube-proxy"] = ("127.0.0.1", PROXIED)
        return {way: (one.namespace, *at) for way, at in ways.items()}


def passing(ways: Ways, patience: float) -> Open:
    """Return what passes by each way."""
    asked: dict[tuple[str, str], Callable[[], bool]] = {}
    for way, at in ways.items():
        asked[way, "TCP"] = partial(dials, *at, patience)
        asked[way, "UDP"] = partial(asks, *at, patience=patience)
    with ThreadPoolExecutor(12) as pool:
        found = {key: pool.submit(one) for key, one in asked.items()}
    heard = {key for key, one in found.items() if one.result()}
    return {way: frozenset(kind for kind in BOTH if (way, kind) in heard) for way in ways}


def becomes(ways: Ways, what: str, *, open_: bool) -> None:
    """Wait until all these ways are open, or closed."""
    wanted = dict.fromkeys(ways, BOTH if open_ else NONE)
    found: Open = {}

    def so() -> bool:
        found.update(passing(ways, PATIENCE if open_ else SILENCE))
        return found == wanted

    try:
        eventually(so, what)
    except TimeoutError:
        pytest.fail(f"{what}: {found}")


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(
    request: pytest.FixtureRequest,
    bed_dirs: Iterator[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Run a cluster, with ways to its addresses outside by the first host."""
    with joined_site(next(bed_dirs), request.param, tmp_path_factory) as bed:
        first, outside = bed.hosts[0], bed.fabric.namespace
        outside.run(["ip", "route", "add", f"{BALANCED}/32", "via", first.address])
        outside.run(["ip", "-6", "route", "add", f"{BALANCED6}/128", "via", address6(first)])
        yield bed


@pytest.fixture(scope="module", params=list(NETWORKS))
def pods(bed: Bed, request: pytest.FixtureRequest) -> Iterator[list[Pod]]:
    """Run a pod in a group, with a host port, and a pod beside it."""
    one = bed.hosts[0]
    network: str = request.param
    mapped = [
        {"hostPort": HOST_PORT, "containerPort": TARGET, "protocol": protocol}
        for protocol in ("tcp", "udp")
    ]
    pods = [
        bed.add_pod(one, "web", network=network, group=f"web-{network}", host_ports=mapped),
        bed.add_pod(one, "near", network=network),
    ]
    yield pods
    for pod in pods:
        bed.delete_pod(pod)


@pytest.fixture(params=[4, 6], ids=["ipv4", "ipv6"])
def clients(bed: Bed, pods: list[Pod], request: pytest.FixtureRequest) -> Iterator[OutsideClients]:
    """Serve a pod by two services; the ways are open."""
    pod, near = pods
    network = str(pod.conf["contiv"]["network"])
    clients = OutsideClients(bed, pod, near, network, request.param)
    api = bed.api
    assert api is not None
    with ExitStack() as stack:
        for serve in (answering, echoing):
            stack.enter_context(serve(pod.namespace, clients.served, TARGET))
        for name, spec in _services(clients).items():
            family = f"IPv{clients.version}"
            ready = endpoint_slice(name, clients.served, ports=READY, family=family)
            api.put(SLICES, NAMESPACE, f"{name}-a", **ready)
            api.put(SERVICES, NAMESPACE, name, **spec)
            stack.callback(partial(api.delete, SLICES, NAMESPACE, f"{name}-a"))
            stack.callback(partial(api.delete, SERVICES, NAMESPACE, name))
        stack.enter_context(proxied(clients))
        here = bed.hosts[0].namespace
        eventually(partial(reaches, here, clients.served), "the host's way to the pod")
        becomes(everything(clients), "without policies", open_=True)
        yield clients


@contextmanager
def proxied(clients: OutsideClients) -> Iterator[None]:
    """Have rules as kube-proxy's lead from a node port to the pod, before the agent's."""
    host = clients.bed.hosts[0].namespace
    program = clients.of_family("iptables", "ip6tables")
    to = clients.of_family(f"{clients.served}:{TARGET}", f"[{clients.served}]:{TARGET}")
    local = ["-m", "addrtype", "--dst-type", "LOCAL"]
    rules = [["POSTROUTING", "-m", "mark", "--mark", "0x4000/0x4000", "-j", "MASQUERADE"]]
    for protocol in ("tcp", "udp"):
        meant = [*local, "-p", protocol, "--dport", str(PROXIED)]
        for chain in ("PREROUTING", "OUTPUT"):
            # inserted at the head: what is inserted last comes first
            rules.append([chain, *meant, "-j", "DNAT", "--to-destination", to])
            rules.append([chain, *meant, "-j", "MARK", "--set-xmark", "0x4000/0x4000"])
    for rule in rules:
        host.run([program, "-w", "-t", "nat", "-I", *rule])
    try:
        yield
    finally:
        for rule in rules:
            host.run([program, "-w", "-t", "nat", "-D", *rule])


def _services(clients: OutsideClients) -> dict[str, dict[str, Any]]:
    web = service(clients.of_family(ADDRESS, ADDRESS6), *PORTS)
    external = clients.of_family(EXTERNAL, EXTERNAL6)
    web["spec"] |= {"type": "LoadBalancer", "externalIPs": [external]}
    balanced = clients.of_family(BALANCED, BALANCED6)
    web["status"] = {"loadBalancer": {"ingress": [{"ip": balanced}]}}
    ports = [{**one, "nodePort": LOCAL_PORT} for one in PORTS]
    local = service(clients.of_family(LOCAL_ADDRESS, LOCAL_ADDRESS6), *ports)
    local["spec"] |= {"type": "NodePort", "externalTrafficPolicy": "Local"}
    return {"web": web, "local": local}


def everything(clients: OutsideClients) -> Ways:
    ways = (
        clients.from_outside(),
        clients.by_the_other(),
        clients.from_a_pod(),
        clients.of_the_host(),
    )
    return {name: at for some in ways for name, at in some.items()}


@contextmanager
def policy(clients: OutsideClients, kind: str, *allowed: str, excepted: str = "") -> Iterator[None]:
    """Let in some addresses alone, or all but one."""
    put = _of_kubernetes if kind == "kubernetes" else _of_contiv
    with put(clients, allowed, excepted):
        yield


@contextmanager
def _of_kubernetes(
    clients: OutsideClients, allowed: tuple[str, ...], excepted: str
) -> Iterator[None]:
    api = clients.bed.api
    assert api is not None
    width = 32 if clients.version == 4 else 128
    blocks: list[dict[str, Any]] = [{"cidr": f"{one}/{width}"} for one in allowed]
    if excepted:
        blocks.append({"cidr": clients.of_family("0.0.0.0/0", "::/0")})
        blocks[-1]["except"] = [f"{excepted}/{width}"]
    spec: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress"]}
    if blocks:
        spec["ingress"] = [{"from": [{"ipBlock": block} for block in blocks]}]
    api.put(NETWORK_POLICIES, NAMESPACE, "outside", spec=spec)
    try:
        yield
    finally:
        api.delete(NETWORK_POLICIES, NAMESPACE, "outside")


@contextmanager
def _of_contiv(clients: OutsideClients, allowed: tuple[str, ...], excepted: str) -> Iterator[None]:
    guard = f"guard-{clients.network}"
    rules = [["--action=deny", "--priority=1"]] if not excepted else []
    rules += [["--action=allow", "--priority=9", f"--from-ip-address={one}"] for one in allowed]
    if excepted:
        rules.append(["--action=deny", "--priority=9", f"--from-ip-address={excepted}"])
    numbered = [
        (f"{number}{protocol}", [*words, f"--protocol={protocol}"])
        for number, words in enumerate(rules)
        for protocol in ("tcp", "udp")
    ]
    for name, words in numbered:
        clients.bed.netctl("policy", "rule-add", "-d", "in", *words, guard, name)
    applied(clients.bed)
    try:
        yield
    finally:
        for name, _ in numbered:
            clients.bed.netctl("policy", "rule-rm", guard, name)
        applied(clients.bed)


@pytest.mark.parametrize("kind", KINDS)
def test_policies_hold_for_the_outside(clients: OutsideClients, kind: str) -> None:
    # what a VLAN brings in the name of no endpoint is under no rule of Contiv, as in the original
    judged = kind == "kubernetes" or clients.network == "vxlan"
    by_other, here = clients.by_the_other() if judged else {}, clients.from_outside()
    hosts = clients.of_the_host()
    with policy(clients, kind):
        becomes({**here, **by_other, **clients.from_a_pod()}, f"{kind}: deny all", open_=False)
        becomes(hosts, f"{kind}: the host's own", open_=True)
    if kind == "contiv" and clients.version == 6:
        return  # the original's rules have addresses of IPv4 alone
    with policy(clients, kind, clients.client):
        becomes(here, f"{kind}: the client's address is allowed", open_=True)
        becomes({**by_other, **clients.from_a_pod()}, f"{kind}: no other is", open_=False)
    with policy(clients, kind, clients.forwarder):
        becomes(here, f"{kind}: the other host's address alone is allowed", open_=False)
        # no policy keeps neighbours from finding the pod again
        clients.bed.physical.router.run(["ip", "neighbour", "flush", "all"])
        becomes({**by_other, **hosts}, f"{kind}: by it, and the host's own", open_=True)
    with policy(clients, kind, excepted=clients.client):
        becomes(here, f"{kind}: all but the client", open_=False)
        ways = {**clients.by_the_other(), **clients.from_a_pod(), **hosts}
        becomes(ways, f"{kind}: others are allowed", open_=True)
    becomes(everything(clients), f"{kind}: without policies again", open_=True)


def test_an_address_of_the_host_is_forged_in_vain(clients: OutsideClients) -> None:
    """From beside the host, where its kernel would send it on as it does the host's own."""
    one, outside = clients.bed.hosts[0], clients.outside
    forged = clients.of_family(one.address, address6(one))
    words = ["address", f"{forged}/{32 if clients.version == 4 else 128}", "dev", "lo"]
    at = clients.of_family(EXTERNAL, EXTERNAL6)

    def send(source: str) -> None:
        family = socket.AF_INET if clients.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as client:
            client.bind((source, 0))
            client.sendto(b"forged", (at, 80))

    with (
        policy(clients, "kubernetes", clients.client),
        echoing(clients.pod.namespace, clients.served, TARGET + 1) as callers,
    ):
        served = [{**one, "port": TARGET + 1} for one in READY]
        api = clients.bed.api
        assert api is not None
        family = f"IPv{clients.version}"
        ready = endpoint_slice("web", clients.served, ports=served, family=family)
        api.put(SLICES, NAMESPACE, "web-a", **ready)
        asked = partial(asks, outside, at, 80, patience=SILENCE)
        eventually(lambda: asked() and clients.client in callers, "the client is served")
        nodad = ["nodad"] if clients.version == 6 else []
        outside.run(["ip", words[0], "add", *words[1:], *nodad])
        try:
            outside.call(partial(send, forged))
        finally:
            outside.run(["ip", words[0], "del", *words[1:]])
        eventually(asked, "what was sent before has passed")
        assert forged not in callers
