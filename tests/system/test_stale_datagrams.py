"""A client that sends datagrams without a pause follows a service's providers and a pod's ports.

By every way that the host's kernel translates; and no stranger hears it who has the address of a
provider that is gone.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial

import pytest

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from tests.bed.cluster import Bed
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.datagrams import Client, naming
from tests.system.kube_site import api_beside, api_flags, forward

pytestmark = [pytest.mark.system, pytest.mark.ovs]

ADDRESS, EXTERNAL = "10.96.0.53", "203.0.113.53"
NODE_PORT, HOST_PORT, TARGET = 30053, 8053, 5353


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """Tell the agents of the API server; in a bed a stranger gets a released address at once."""
    return {"netplugin": api_flags(tmp_path_factory)}


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server beside netmaster; hosts forward, and have a default route."""
    forward(bed)
    first = bed.hosts[0].address
    bed.fabric.namespace.run(["ip", "route", "add", f"{EXTERNAL}/32", "via", first])
    with api_beside(bed) as api:
        yield api


def provide(api: ApiServer, *pods: Pod) -> None:
    ports = [{"name": "dns", "port": TARGET, "protocol": "UDP"}]
    for number, pod in enumerate(pods):
        api.put(SLICES, "shop", f"dns-{number}", **endpoint_slice("dns", pod.address, ports=ports))


@pytest.fixture
def serving(api: ApiServer) -> Iterator[None]:
    """Have a service of datagrams, with a node port and an external address."""
    port = {"name": "dns", "port": 53, "protocol": "UDP", "nodePort": NODE_PORT}
    body = service(ADDRESS, port)
    body["spec"] |= {"externalIPs": [EXTERNAL]}
    api.put(SERVICES, "shop", "dns", **body)
    yield
    with suppress(KeyError):  # a test may have done it
        api.delete(SERVICES, "shop", "dns")
    api.delete(SLICES, "shop", "dns-0")


def clients(bed: Bed) -> dict[str, Client]:
    here, there = bed.hosts
    outside = bed.fabric.namespace
    return {
        "the provider's host, by cluster address": Client(here.namespace, ADDRESS, 53),
        "another host, by cluster address": Client(there.namespace, ADDRESS, 53),
        "outside, by the provider's node": Client(outside, here.address, NODE_PORT),
        "outside, by another node": Client(outside, there.address, NODE_PORT),
        "outside, by external address": Client(outside, EXTERNAL, 53),
    }


@pytest.mark.usefixtures("serving")
def test_a_client_follows_the_providers(bed: Bed, api: ApiServer) -> None:
    here = bed.hosts[0]
    with ExitStack() as stack:
        # they began before the service had a provider, or any rule that leads somewhere
        asking = {name: stack.enter_context(one) for name, one in clients(bed).items()}
        first = bed.add_pod(here, "first")
        with naming(first, TARGET):
            provide(api, first)
            for name, one in asking.items():
                eventually(partial(one.hears, "first"), name)
        address = first.address
        bed.delete_pod(first)
        stranger = bed.add_pod(here, "stranger")
        stack.callback(bed.delete_pod, stranger)
        assert stranger.address == address
        second = bed.add_pod(bed.hosts[1], "second")
        stack.callback(bed.delete_pod, second)
        stack.enter_context(naming(second, TARGET))
        provide(api, second)
        for name, one in asking.items():
            eventually(partial(one.hears, "second"), name)
        # only now: until the server tells that the provider is gone, nobody can know
        heard = stack.enter_context(naming(stranger, TARGET))
        for one in asking.values():
            one.hears_nobody_but("second")
        assert heard == []


@pytest.mark.usefixtures("serving")
def test_no_client_goes_on_when_the_service_is_gone(bed: Bed, api: ApiServer) -> None:
    pod = bed.add_pod(bed.hosts[0], "alone")
    with ExitStack() as stack:
        stack.callback(bed.delete_pod, pod)
        heard = stack.enter_context(naming(pod, TARGET))
        provide(api, pod)
        asking = {name: stack.enter_context(one) for name, one in clients(bed).items()}
        for name, one in asking.items():
            eventually(partial(one.hears, "alone"), name)
        api.delete(SERVICES, "shop", "dns")
        eventually(lambda: heard[-1].at < time.monotonic() - 2, "the pod hears nothing")


def test_a_host_port_leads_to_the_pod_that_has_it(bed: Bed, api: ApiServer) -> None:
    assert bed.api is api
    here = bed.hosts[0]
    mapping = {"hostPort": HOST_PORT, "containerPort": TARGET, "protocol": "udp"}
    with ExitStack() as stack:
        asking = [
            stack.enter_context(Client(source, here.address, HOST_PORT))
            for source in (bed.fabric.namespace, here.namespace, bed.hosts[1].namespace)
        ]
        first = bed.add_pod(here, "mapped", host_ports=[mapping])
        with naming(first, TARGET):
            for one in asking:
                eventually(partial(one.hears, "mapped"), "a client from before")
        address = first.address
        bed.delete_pod(first)
        stranger = bed.add_pod(here, "stranger")
        stack.callback(bed.delete_pod, stranger)
        assert stranger.address == address
        heard = stack.enter_context(naming(stranger, TARGET))
        second = bed.add_pod(here, "mapped-next", host_ports=[mapping])
        stack.callback(bed.delete_pod, second)
        stack.enter_context(naming(second, TARGET))
        for one in asking:
            eventually(partial(one.hears, "mapped-next"), "the next pod")
            one.hears_nobody_but("mapped-next")
        assert heard == []
