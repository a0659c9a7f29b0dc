"""Hosts as they are: without IPv6, with firewalls of their own, whose rules come and go.

A pod of the first host has a host port and is behind a service with a node port. What reaches it,
and what it reaches, must be so whatever the administrator did to the host. The interval of audits
is the default one, so that nothing is mended by it in time.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from netplugin.world.kube_services import SERVICES, SLICES
from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import FABRIC_ADDRESS, Host
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials, reaches

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.timeout(240)]

API_PORT = 6443
NODE_PORT, HOST_PORT, TARGET, OUTSIDE = 30080, 8088, 8080, 9000
ADDRESS, ADDRESS6 = "10.96.0.10", "fd00:96::10"
MAPPED = {"hostPort": HOST_PORT, "containerPort": TARGET, "protocol": "tcp"}
NETWORK = "dual-net"
SILENCE = 1.0

Way = Callable[[], bool]


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """Tell the agents of the API server."""
    file = tmp_path_factory.mktemp("kubernetes") / "contiv.json"
    server = f"http://{FABRIC_ADDRESS}:{API_PORT}"
    file.write_text(json.dumps({"K8S_API_SERVER": server, "K8S_TOKEN": "secret"}))
    return {"netplugin": ["--k8s-config", str(file)]}


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server beside netmaster; hosts forward, and have a default route."""
    for host in bed.hosts:
        host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        host.namespace.run(["ip", "route", "add", "default", "via", FABRIC_ADDRESS])
    words = ["--subnet=10.30.0.0/16", "--gateway=10.30.0.1"]
    six = ["--subnetv6=fd00:30::/64", "--gatewayv6=fd00:30::1"]
    bed.netctl("net", "create", *words, *six, NETWORK)
    with ApiServer(bed.fabric.address, API_PORT, namespace=bed.fabric.namespace) as api:
        api.token = "secret"
        bed.api = api
        yield api
        bed.api = None


@dataclass(frozen=True)
class Scene:
    """The host in question, its pod, one elsewhere, and the agent."""

    bed: Bed
    host: Host
    agent: Daemon
    pod: Pod
    far: Pod

    def ways(self) -> dict[str, Way]:
        """Return the ways that must be open, by IPv4."""
        outside, address = self.bed.fabric.namespace, self.host.address
        return {
            "host to pod": partial(reaches, self.host.namespace, self.pod.address),
            "pod to pod of the other host": partial(reaches, self.far.namespace, self.pod.address),
            "pod to outside": partial(
                dials, self.pod.namespace, self.bed.fabric.address, OUTSIDE, SILENCE
            ),
            "outside to host port": partial(dials, outside, address, HOST_PORT, SILENCE),
            "outside to node port": partial(dials, outside, address, NODE_PORT, SILENCE),
            "outside to node port of the other host": partial(
                dials, outside, self.bed.hosts[1].address, NODE_PORT, SILENCE
            ),
            "host to service": partial(dials, self.host.namespace, ADDRESS, 80, SILENCE),
            "host to node port by loopback": partial(
                dials, self.host.namespace, "127.0.0.1", NODE_PORT, SILENCE
            ),
        }

    def all_open(self, within: float = 20.0) -> None:
        """Fail unless all ways are open, or are so in time."""
        for name, way in self.ways().items():
            eventually(way, name, within=within)

    def errors(self) -> list[str]:
        """Return the faults that the host reports."""
        shown = json.loads(self.bed.netctl("host", "inspect", self.host.label))
        return [str(one) for one in shown["errors"]]

    def names(self, *words: str) -> bool:
        """Say whether one fault has all of the words."""
        return any(all(word in error for word in words) for error in self.errors())


def restart(agent: Daemon) -> None:
    agent.kill()
    agent.start(within=60)


@contextmanager
def running(bed: Bed, api: ApiServer) -> Iterator[Scene]:
    """Run the pods and the service."""
    one, two = bed.hosts
    ports = {"name": "http", "port": 80, "protocol": "TCP", "nodePort": NODE_PORT}
    ready = [{"name": "http", "port": TARGET, "protocol": "TCP"}]
    with ExitStack() as stack:
        pod = bed.add_pod(one, "web", network=NETWORK, host_ports=[MAPPED])
        stack.callback(bed.delete_pod, pod)
        far = bed.add_pod(two, "far", network=NETWORK)
        stack.callback(bed.delete_pod, far)
        addresses = (ADDRESS, ADDRESS6)
        api.put(SLICES, "shop", "web-a", **endpoint_slice("web", pod.address, ports=ready))
        api.put(SERVICES, "shop", "web", **service(ADDRESS, ports, addresses=addresses))
        stack.callback(api.delete, SERVICES, "shop", "web")
        stack.enter_context(answering(pod.namespace, "0.0.0.0", TARGET))
        stack.enter_context(answering(bed.fabric.namespace, "0.0.0.0", OUTSIDE))
        yield Scene(bed, one, bed.agents[0], pod, far)


@pytest.fixture
def scene(bed: Bed, api: ApiServer) -> Iterator[Scene]:
    """Run the pods and the service, and see that all ways are open."""
    with running(bed, api) as scene:
        scene.all_open()
        yield scene


@contextmanager
def switched(host: Host, name: str, off: str) -> Iterator[None]:
    """Set a switch of the host's kernel, and set it back."""
    before = host.namespace.run(["sysctl", "-n", name]).stdout.strip()
    host.namespace.run(["sysctl", "-q", "-w", f"{name}={off}"])
    try:
        yield
    finally:
        host.namespace.run(["sysctl", "-q", "-w", f"{name}={before}"])


def test_a_host_without_ipv6_has_ipv4_and_says_what_it_lacks(bed: Bed, api: ApiServer) -> None:
    one = bed.hosts[0]
    with ExitStack() as stack:
        for which in ("all", "default"):
            stack.enter_context(switched(one, f"net.ipv6.conf.{which}.disable_ipv6", "1"))
        restart(bed.agents[0])
        scene = stack.enter_context(running(bed, api))
        scene.all_open()
        eventually(lambda: scene.names("IPv6", "contivh0"), "the host says that it has no IPv6")
    eventually(lambda: not scene.names("IPv6"), "the fault is gone with its cause", within=30)


@contextmanager
def path_without(agent: Daemon, directory: Path, *absent: str) -> Iterator[None]:
    """Start the agent with programs out of its reach; give them back at the end."""
    directory.mkdir()
    for folder in reversed(os.environ["PATH"].split(":")):
        for program in Path(folder).glob("*"):
            link = directory / program.name
            if not program.name.startswith(absent):
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    agent.command[:0] = ["env", f"PATH={directory}"]
    try:
        restart(agent)
        yield
    finally:
        del agent.command[:2]
        restart(agent)


@pytest.mark.parametrize("broken", [False, True], ids=["absent", "broken"])
def test_a_host_without_ip6tables_has_ipv4_and_says_what_it_lacks(
    bed: Bed, api: ApiServer, tmp_path: Path, broken: bool
) -> None:
    programs = tmp_path / "bin"
    with path_without(bed.agents[0], programs, "ip6tables"):
        if broken:
            for name in ("ip6tables", "ip6tables-restore"):
                program = programs / name
                program.write_text(f"#!{shutil.which('sh')}\necho no ip6_tables here >&2\nexit 3\n")
                program.chmod(0o755)
        with running(bed, api) as scene:
            scene.all_open()
            eventually(lambda: scene.names("IPv6", "ip6tables"), "the host says what it lacks")
    eventually(lambda: not scene.names("IPv6"), "the fault is gone with its cause", within=30)
