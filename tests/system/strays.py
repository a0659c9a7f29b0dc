"""How long datagrams reach an address whose pod is gone: what a released address rests for.

A pod provides a service and goes; another one has its address at once and counts what still comes
from clients that never pause. Each round is one way of asking more: kernels, switches, names.
Minutes; not part of `make test`: `pytest -s tests/system/strays.py`, CONTIV_TEST_CYCLES=12 rounds.
"""

import os
import socket
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

import dns.message
import dns.rdatatype
import pytest

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from tests.bed.cluster import Bed
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.datagrams import Asker, Client, Heard, naming
from tests.system.kube_site import api_beside, api_flags, forward

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.timeout(1800)]

CYCLES = int(os.environ.get("CONTIV_TEST_CYCLES", "12"))
WATCHED = 12.0
"""Seconds in which a stranger counts what comes; what never ends is seen at the end of them."""
ADDRESS, EXTERNAL, OWN = "10.96.0.53", "203.0.113.53", "10.96.0.2"
NODE_PORT, TARGET = 30053, 5353
NAME = "members.shop.svc.cluster.local"
BY_NAME = "pod, by name"


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """Tell the agents of the API server, and have them answer names."""
    return {"netplugin": [*api_flags(tmp_path_factory), "--dns-address", OWN, "--dns-rate", "0"]}


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server with a service and one without an address of its own."""
    forward(bed)
    first = bed.hosts[0].address
    bed.fabric.namespace.run(["ip", "route", "add", f"{EXTERNAL}/32", "via", first])
    port = {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": NODE_PORT}
    with api_beside(bed) as api:
        body = service(ADDRESS, port)
        body["spec"] |= {"externalIPs": [EXTERNAL]}
        api.put(SERVICES, "shop", "dns", **body)
        api.put(SERVICES, "shop", "members", **service("None", port))
        yield api


def provide(api: ApiServer, *pods: Pod) -> None:
    ports = [{"name": "dns", "port": TARGET, "protocol": "UDP"}]
    addresses = [pod.address for pod in pods]
    for name in ("dns", "members"):
        api.put(SLICES, "shop", f"{name}-0", **endpoint_slice(name, *addresses, ports=ports))


class Resolver(Asker):
    """A client that asks for a name as often as the answer's TTL says, and sends meanwhile."""

    def __init__(self, pod: Pod) -> None:
        super().__init__(pod.namespace)
        make = lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)  # noqa: E731 - a socket
        self._asking = pod.namespace.call(make)
        self._asking.settimeout(1)
        self._address, self._until = "", 0.0

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._asking.close()

    def _send(self) -> None:
        if time.monotonic() >= self._until:
            self._address, ttl = self._ask()
            self._until = time.monotonic() + ttl
        self._mouth.sendto(BY_NAME.encode(), (self._address, TARGET))

    def _ask(self) -> tuple[str, int]:
        self._asking.sendto(dns.message.make_query(NAME, "A").to_wire(), (OWN, 53))
        for rrset in dns.message.from_wire(self._asking.recv(2000)).answer:
            if rrset.rdtype == dns.rdatatype.A:
                return rrset[0].to_text(), rrset.ttl
        return "127.0.0.1", 0


def test_strays(bed: Bed, api: ApiServer) -> None:
    here, there = bed.hosts
    outside = bed.fabric.namespace
    last: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as stack:
        beside, far = bed.add_pod(here, "beside"), bed.add_pod(there, "far")
        ways = {
            "pod beside it, by cluster address": (beside.namespace, ADDRESS, 53),
            "pod of another host, by cluster address": (far.namespace, ADDRESS, 53),
            "its host, by cluster address": (here.namespace, ADDRESS, 53),
            "another host, by cluster address": (there.namespace, ADDRESS, 53),
            "outside, by its node": (outside, here.address, NODE_PORT),
            "outside, by another node": (outside, there.address, NODE_PORT),
            "outside, by external address": (outside, EXTERNAL, 53),
        }
        asking: dict[str, Client | Resolver] = {
            way: stack.enter_context(Client(*where, way)) for way, where in ways.items()
        }
        asking[BY_NAME] = stack.enter_context(Resolver(far))
        standing = bed.add_pod(there, "standing")
        stack.enter_context(naming(standing, TARGET))
        for cycle in range(CYCLES):
            for way, seconds in strays(bed, api, standing, asking, cycle).items():
                last[way].append(seconds)
    for way, measured in last.items():
        ordered = sorted(measured)
        sys.stdout.write(
            f"{way}: in {sum(one > 0 for one in ordered)} of {len(ordered)} rounds, last after "
            f"{statistics.median(ordered):.2f} s (median), {ordered[-1]:.2f} s (most)\n"
        )


def strays(
    bed: Bed, api: ApiServer, standing: Pod, asking: Mapping[str, Client | Resolver], cycle: int
) -> dict[str, float]:
    """Return how long after its pod was gone each way still led to the address."""
    host = bed.hosts[0]
    pod = bed.add_pod(host, f"going-{cycle}")
    with naming(pod, TARGET):
        provide(api, pod)
        for way, one in asking.items():
            eventually(lambda: one.hears(pod.name), way, within=60)  # noqa: B023 - now
    bed.delete_pod(pod)
    gone = time.monotonic()
    provide(api, standing)
    stranger = bed.add_pod(host, f"stranger-{cycle}")
    assert stranger.address == pod.address, "it has the address of the one that is gone"
    with naming(stranger, TARGET) as heard:
        eventually(lambda: time.monotonic() > gone + WATCHED, "counted", within=2 * WATCHED)
        found = list(heard)
    bed.delete_pod(stranger)
    return {way: _last(found, way) - gone if _last(found, way) else 0.0 for way in asking}


def _last(heard: Sequence[Heard], way: str) -> float:
    return max((one.at for one in heard if one.text == way), default=0.0)
