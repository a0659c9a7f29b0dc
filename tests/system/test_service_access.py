"""Services for what is no pod: refusals, traffic policies, health checks, and beside kube-proxy.

`test_service_table` asks every kind of target by every way.
"""

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from tests.bed.cluster import Bed
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.netns import Namespace, http_request
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, asks, dials, echoing, refused
from tests.system.kube_site import api_beside, api_flags, forward
from tests.system.rest import ask

pytestmark = [pytest.mark.system, pytest.mark.ovs]

ADDRESS, EXTERNAL = "10.96.0.10", "203.0.113.9"
BALANCED, WITHIN = "203.0.113.10", "198.51.100.7"
PRIVATE = "172.19.255.254"
"""Every host's address on the private network."""
NODE_PORT, TARGET, CHECK_PORT = 30080, 8080, 30999
PORTS = [
    {"name": name, "port": 80, "protocol": name.upper(), "nodePort": NODE_PORT}
    for name in ("tcp", "udp")
]
PATIENCE = 30.0
SILENCE = 1.0


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """Tell the agents of the API server."""
    return {"netplugin": [*api_flags(tmp_path_factory), "--audit-interval", "2"]}


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server beside netmaster; hosts forward, and have a default route."""
    forward(bed)
    first = bed.hosts[0].address
    bed.fabric.namespace.run(["ip", "route", "add", f"{EXTERNAL}/32", "via", first])
    with api_beside(bed) as api:
        yield api


@pytest.fixture(scope="module")
def pods(bed: Bed, api: ApiServer) -> Iterator[list[Pod]]:
    """Run a pod on each host; the first one serves."""
    assert bed.api is api, "kubelet tells the server of pods"
    pods = [bed.add_pod(host, f"p-{host.label}") for host in bed.hosts]
    yield pods
    for pod in pods:
        bed.delete_pod(pod)


@contextmanager
def serving(bed: Bed, api: ApiServer, pods: list[Pod], **spec: object) -> Iterator[None]:
    """Run the service, with one target: a pod of the first host."""
    namespace, address = pods[0].namespace, pods[0].address
    body = service(ADDRESS, *PORTS)
    body["spec"] |= {"externalIPs": [EXTERNAL], **spec}
    ready = [{"name": one["name"], "port": TARGET, "protocol": one["protocol"]} for one in PORTS]
    with ExitStack() as stack:
        stack.enter_context(answering(namespace, address, TARGET))
        stack.enter_context(echoing(namespace, address, TARGET))
        api.put(SLICES, "shop", "web-a", **endpoint_slice("web", address, ports=ready))
        api.put(SERVICES, "shop", "web", **body)
        eventually(
            lambda: all(rules_lead_to(host.namespace, address) for host in bed.hosts),
            "the rules",
        )
        yield
        api.delete(SERVICES, "shop", "web")
        eventually(
            lambda: not any(rules_lead_to(h.namespace, address) for h in bed.hosts), "no rules"
        )


def rules_lead_to(namespace: Namespace, address: str) -> bool:
    shown = namespace.run(["iptables", "-w", "-t", "nat", "-S"]).stdout
    # the rules that lead to the chains come last
    return f"--to-destination {address}:{TARGET}" in shown and "-j CONTIV-SOURCES" in shown


def contiv_rules(namespace: Namespace) -> list[str]:
    """Return the rules and chains of services on a host."""
    tables = [
        namespace.run(["iptables", "-w", "-t", t, "-S"]).stdout for t in ("nat", "filter", "raw")
    ]
    lines = "".join(tables).splitlines()
    return [line for line in lines if "CONTIV-" in line or "contiv-services" in line]


def test_beside_kube_proxy_pods_alone_are_served(bed: Bed, api: ApiServer, pods: list[Pod]) -> None:
    """What an earlier start made goes; pods reach services by the switch as before."""
    first, agent = bed.hosts[0], bed.agents[0]
    _, client = pods
    mapped = {"hostPort": 8099, "containerPort": TARGET, "protocol": "tcp"}
    with serving(bed, api, pods):
        pod = bed.add_pod(first, "mapped", host_ports=[mapped])
        assert contiv_rules(first.namespace)
        agent.kill()
        agent.command.append("--kube-proxy=coexist")
        try:
            agent.start()
            gone = lambda: not contiv_rules(first.namespace)  # noqa: E731 - a condition
            eventually(gone, "the rules of services are gone")
            assert not dials(bed.fabric.namespace, first.address, NODE_PORT, SILENCE)
            for source in (client, pod):
                reached = partial(dials, source.namespace, ADDRESS, 80, PATIENCE)
                eventually(reached, f"{source.name} is served by the switch")
            with answering(pod.namespace, pod.address, TARGET):
                assert dials(bed.fabric.namespace, first.address, 8099), "a host port stays"
        finally:
            agent.kill()
            agent.command.remove("--kube-proxy=coexist")
            agent.start()
            bed.delete_pod(pod)
        back = partial(dials, bed.fabric.namespace, first.address, NODE_PORT, SILENCE)
        eventually(back, "the next start makes the rules again")


def test_a_nodes_address_keeps_its_other_ports(bed: Bed, api: ApiServer, pods: list[Pod]) -> None:
    """Who gives a service the address of a node takes its own ports from nobody but the node."""
    node = bed.hosts[0]
    with (
        answering(node.namespace, node.address, 7070),
        serving(bed, api, pods, externalIPs=[node.address]),
    ):
        for client in pods:
            assert dials(client.namespace, node.address, 80, PATIENCE), "the service"
            assert dials(client.namespace, node.address, 7070, PATIENCE), "the node"
        assert dials(bed.fabric.namespace, node.address, 80), "the service from outside"


def test_no_service_takes_what_pods_answer_to_their_host(
    bed: Bed, api: ApiServer, pods: list[Pod]
) -> None:
    """Who gives a service the host's address on the private network takes nothing by it."""
    node = bed.hosts[0]
    client = bed.add_pod(node, "client")
    greedy = service("10.96.0.11", PORTS[0] | {"nodePort": NODE_PORT + 1})
    greedy["spec"] |= {"externalIPs": [PRIVATE]}
    known = partial(fault_of, bed, f"service shop/greedy not served at {PRIVATE}")
    with serving(bed, api, pods):
        by_node = partial(dials, client.namespace, node.address, NODE_PORT, SILENCE)
        eventually(by_node, "a pod is served by its node")
        api.put(SERVICES, "shop", "greedy", **greedy)
        eventually(known, "the host names the service")
        assert by_node()
        api.delete(SERVICES, "shop", "greedy")
        eventually(lambda: not known(), "the host names it no more")
    bed.delete_pod(client)


def fault_of(bed: Bed, text: str) -> bool:
    """Tell whether the first host has an error that says this."""
    said = ask(bed, "GET", f"/hosts/{bed.hosts[0].label}").json()["errors"]
    return any(text in one for one in said)


def test_a_service_without_targets_refuses(bed: Bed, api: ApiServer) -> None:
    api.put(SERVICES, "shop", "web", **service(ADDRESS, *PORTS))
    api.put(SLICES, "shop", "web-a", **endpoint_slice("web", ports=[]))
    host = bed.hosts[0]

    def refused() -> bool:
        listed = host.namespace.run(["iptables", "-w", "-S", "CONTIV-REFUSED"], check=False).stdout
        return ADDRESS in listed

    eventually(refused, "the rules that refuse")
    for source, address, port in (
        (host.namespace, ADDRESS, 80),
        (bed.fabric.namespace, host.address, NODE_PORT),
    ):
        # not by patience running out: the client is told
        assert source.call(partial(told, address, port))
    api.delete(SERVICES, "shop", "web")


def told(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(PATIENCE)
        try:
            client.connect((address, port))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False


def test_a_client_hears_of_errors_from_outside(bed: Bed, api: ApiServer, pods: list[Pod]) -> None:
    """In the service's name, although they came to its host."""
    assert bed.api is api
    outside = bed.fabric
    ready = [{"name": "udp", "port": TARGET, "protocol": "UDP"}]
    api.put(SLICES, "shop", "web-a", **endpoint_slice("web", outside.address, ports=ready))
    api.put(SERVICES, "shop", "web", **service(ADDRESS, *PORTS))
    with echoing(outside.namespace, outside.address, TARGET):
        for pod in pods:
            answered = partial(asks, pod.namespace, ADDRESS, 80, patience=SILENCE)
            eventually(answered, f"{pod.name} is answered")
    for pod in pods:
        closed = partial(refused, ADDRESS, 80, PATIENCE)
        assert pod.namespace.call(closed), "nobody listens there any more"
    api.delete(SERVICES, "shop", "web")


def checked(url: str, source: Namespace) -> tuple[int, int] | None:
    """Return the status of a health check and the number of targets it says there are."""
    try:
        status, body = http_request(url, namespace=source)
    except ConnectionRefusedError:
        return None
    return status, json.loads(body)["localEndpoints"]


def test_traffic_that_is_to_stay_local_keeps_its_source(
    bed: Bed, api: ApiServer, pods: list[Pod]
) -> None:
    one, two = bed.hosts
    outside = bed.fabric.namespace
    local = {"externalTrafficPolicy": "Local", "healthCheckNodePort": CHECK_PORT}
    with serving(bed, api, pods, type="LoadBalancer", **local):
        checks = {
            host.address: f"http://{host.address}:{CHECK_PORT}/healthz" for host in (one, two)
        }
        for host, status, count in ((one, 200, 1), (two, 503, 0)):
            said = partial(checked, checks[host.address], outside)
            eventually(partial(lambda said, wanted: said() == wanted, said, (status, count)), "")
        assert not dials(outside, two.address, NODE_PORT, SILENCE), "no target there"
        assert dials(outside, one.address, NODE_PORT)
        assert asks(outside, one.address, NODE_PORT)
        assert dials(two.namespace, "127.0.0.1", NODE_PORT, PATIENCE), "the inside goes everywhere"
    with answering(pods[0].namespace, pods[0].address, TARGET) as callers:
        pass
    assert callers == []


def reached(source: Namespace, address: str, port: int, sender: str = "") -> bool:
    """Tell whether a connection is answered, from a certain address of the source."""

    def connect() -> bool:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            client.settimeout(SILENCE)
            client.bind((sender, 0))
            try:
                client.connect((address, port))
            except OSError:
                return False
            return True

    return source.call(connect)


def test_a_balancers_clients_are_held_to_its_ranges(
    bed: Bed, api: ApiServer, pods: list[Pod]
) -> None:
    """The outside, hosts, and pods by the switch; by its other addresses all are served."""
    one, outside = bed.hosts[0], bed.fabric.namespace
    _, pod = pods
    outside.run(["ip", "address", "add", f"{WITHIN}/32", "dev", "sw"])
    outside.run(["ip", "route", "add", f"{BALANCED}/32", "via", one.address])
    clients = {
        "within": partial(reached, outside, sender=WITHIN),
        "outside": partial(reached, outside, sender=bed.fabric.address),
        "host": partial(reached, one.namespace),
        "pod": partial(reached, pod.namespace),
    }

    def served(address: str, port: int, names: Sequence[str] = tuple(clients)) -> set[str]:
        return {name for name in names if clients[name](address, port)}

    def held_to(*ranges: str) -> None:
        body = service(ADDRESS, *PORTS)
        body["spec"] |= {"type": "LoadBalancer", "externalIPs": [EXTERNAL]}
        body["spec"]["loadBalancerSourceRanges"] = list(ranges)
        body["status"] = {"loadBalancer": {"ingress": [{"ip": BALANCED}]}}
        api.put(SERVICES, "shop", "web", **body)

    try:
        with serving(bed, api, pods):
            held_to(f"{WITHIN}/24")
            eventually(lambda: served(BALANCED, 80) == {"within"}, "one of them alone")
            assert served(EXTERNAL, 80) == clients.keys()
            assert served(one.address, NODE_PORT, ("within", "outside", "host")) == {
                "within",
                "outside",
                "host",
            }
            assert served(ADDRESS, 80, ("host", "pod")) == {"host", "pod"}
            held_to(f"{bed.fabric.address}/32", f"{pod.address}/32")
            allowed = {"outside", "pod"}
            eventually(lambda: served(BALANCED, 80) == allowed, "two others")
            held_to()
            eventually(lambda: served(BALANCED, 80) == clients.keys(), "without ranges")
    finally:
        outside.run(["ip", "address", "del", f"{WITHIN}/32", "dev", "sw"])
        outside.run(["ip", "route", "del", f"{BALANCED}/32"])


@pytest.mark.parametrize("label", ["service-proxy-name", "headless"])
def test_a_service_of_another_proxy_is_left_alone(
    bed: Bed, api: ApiServer, pods: list[Pod], label: str
) -> None:
    """Also when the label is set later; without it the service is served again."""
    one, outside = bed.hosts[0], bed.fabric.namespace
    ways = [
        (outside, one.address, NODE_PORT),
        (one.namespace, ADDRESS, 80),
        (pods[1].namespace, ADDRESS, 80),
        (pods[1].namespace, EXTERNAL, 80),
    ]
    body = service(ADDRESS, *PORTS)
    body["spec"] |= {"externalIPs": [EXTERNAL]}

    def found() -> set[bool]:
        return {reached(*way) for way in ways}

    with serving(bed, api, pods):
        eventually(lambda: found() == {True}, "served at first")
        labels = {f"service.kubernetes.io/{label}": "other"}
        api.put(SERVICES, "shop", "web", metadata={"labels": labels}, **body)
        eventually(lambda: found() == {False}, "left to the other proxy")
        api.put(SERVICES, "shop", "web", **body)
        eventually(lambda: found() == {True}, "served again")
