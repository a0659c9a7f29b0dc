"""The ways to a pod of a host, and from it, in a cluster beside an API server of Kubernetes.

A pod of the first host has a host port and is behind a service with a node port.
In comes a bed; out comes which of the ways are open, and what the host says of itself. Must not
know what the administrator of the host did to it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import Host
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials, reaches
from tests.system.kube_site import api_beside, forward

NODE_PORT, HOST_PORT, TARGET, OUTSIDE = 30080, 8088, 8080, 9000
ADDRESS, ADDRESS6 = "10.96.0.10", "fd00:96::10"
MAPPED = {"hostPort": HOST_PORT, "containerPort": TARGET, "protocol": "tcp"}
NETWORK = "dual-net"
SILENCE = 1.0

Way = Callable[[], bool]


@contextmanager
def dual_site(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server, and have a network of both families."""
    forward(bed)
    make_network(bed)
    with api_beside(bed) as api:
        yield api


def make_network(bed: Bed) -> None:
    """Make the network of both families."""
    words = ["--subnet=10.30.0.0/16", "--gateway=10.30.0.1"]
    six = ["--subnetv6=fd00:30::/64", "--gatewayv6=fd00:30::1"]
    bed.netctl("net", "create", *words, *six, NETWORK)


@dataclass(frozen=True)
class HostAndPods:
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

    def all_open(self) -> None:
        """Fail unless all ways are open, or are so in time."""
        for name, way in self.ways().items():
            eventually(way, name)

    def errors(self) -> list[str]:
        """Return the faults that the host reports."""
        shown = json.loads(self.bed.netctl("host", "inspect", self.host.label))
        return [str(one) for one in shown["errors"]]

    def names(self, *words: str) -> bool:
        """Say whether one fault has all of the words."""
        return any(all(word in error for word in words) for error in self.errors())


def restart(agent: Daemon) -> None:
    """Kill an agent and start it again."""
    agent.kill()
    agent.start()


@contextmanager
def running(bed: Bed, api: ApiServer) -> Iterator[HostAndPods]:
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
        yield HostAndPods(bed, one, bed.agents[0], pod, far)
