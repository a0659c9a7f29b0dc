"""Services of Kubernetes: pods hear of their names, node ports lead to pods of the host."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pytest

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.kubernetes import pod as kube_pod
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials
from tests.system.kube_site import api_beside, api_flags
from tests.system.questions import OUTSIDE, hears, serving

pytestmark = [pytest.mark.system, pytest.mark.ovs]

NODE_PORT = 30080
WEB = {"name": "http", "port": 80, "protocol": "TCP", "nodePort": NODE_PORT}


@pytest.fixture(scope="module")
def hosts() -> int:
    """One host is enough: a node port leads to pods of its own host."""
    return 1


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """Tell the agent of an API server, which is not there yet when it starts."""
    return {"netplugin": [*api_flags(tmp_path_factory), "--audit-interval", "2"]}


@pytest.fixture(scope="module")
def host(bed: Bed) -> Host:
    """Give the host, which forwards packets as any node of Kubernetes does."""
    (host,) = bed.hosts
    host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
    return host


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server beside netmaster."""
    with api_beside(bed) as api:
        yield api


@pytest.fixture
def pods(bed: Bed, host: Host, api: ApiServer) -> Iterator[list[Pod]]:
    """Run two pods."""
    api.failing = 0
    pods = [bed.add_pod(host, name) for name in ("one", "two")]
    yield pods
    for pod in pods:
        bed.delete_pod(pod)


def node_ports(host: Host) -> list[str]:
    listed = host.namespace.run(["iptables", "-w", "-t", "nat", "-S"]).stdout
    lines = listed.splitlines()
    # the rules that lead to the chains come last
    led = any(line.endswith("-j CONTIV-SOURCES") for line in lines)
    return [line for line in lines if led and "--to-destination" in line]


def served_by(*pods: Pod) -> dict[str, object]:
    ready = [pod.address for pod in pods]
    return endpoint_slice("web", *ready, ports=[{"name": "http", "port": 8080, "protocol": "TCP"}])


def reached(bed: Bed, host: Host, pod: Pod) -> None:
    """See that whoever is outside and asks the node port asks a pod."""
    with answering(pod.namespace, pod.address, 8080) as callers:
        assert dials(bed.fabric.namespace, host.address, NODE_PORT)
    assert callers == [bed.fabric.address], "the client keeps its address, and is answered"


def test_a_node_port_leads_to_a_pod_that_serves(
    bed: Bed, host: Host, api: ApiServer, pods: list[Pod]
) -> None:
    one, two = pods
    assert node_ports(host) == []
    api.put(SERVICES, "shop", "web", **service("10.96.0.10", WEB))
    api.put(SLICES, "shop", "web-a", **served_by(one))
    eventually(lambda: node_ports(host), "a rule")
    reached(bed, host, one)
    before = node_ports(host)
    api.put(SLICES, "shop", "web-a", **served_by(two))
    eventually(lambda: node_ports(host) not in ([], before), "another rule")
    reached(bed, host, two)
    host.namespace.run(["iptables", "-w", "-t", "nat", "-F"])
    eventually(lambda: node_ports(host), "it is made again")
    bed.agents[0].kill()
    api.put(SLICES, "shop", "web-a", **served_by())
    assert node_ports(host), "what is there stays while the agent is away"
    bed.agents[0].start()
    eventually(lambda: not node_ports(host), "nobody serves any more")
    api.put(SLICES, "shop", "web-a", **served_by(one))
    eventually(lambda: node_ports(host), "a rule")
    api.delete(SERVICES, "shop", "web")
    eventually(lambda: not node_ports(host), "the service is gone")


def test_pods_reach_a_service_by_its_address(api: ApiServer, pods: list[Pod]) -> None:
    client, provider = pods
    api.put(SERVICES, "shop", "web", **service("10.96.0.10", {**WEB, "nodePort": 0}))
    api.put(SLICES, "shop", "web-a", **served_by(provider))
    with answering(provider.namespace, provider.address, 8080) as callers:
        reached = partial(dials, client.namespace, "10.96.0.10", 80, patience=2.0)
        eventually(reached, "the service answers")
    assert set(callers) == {client.address}
    api.delete(SERVICES, "shop", "web")


def service_flows(host: Host) -> int:
    """Return how many flows send packets for the service's address on."""
    return host.ovs.ofctl("dump-flows", "contivVxlanBridge", "table=3").count("10.96.0.10")


@pytest.mark.parametrize("remembers", [True, False])
def test_services_outlive_a_restart_without_an_api_server(
    bed: Bed, host: Host, api: ApiServer, pods: list[Pod], remembers: bool
) -> None:
    client, provider = pods
    cache = host.dir / "data" / "kubernetes"
    api.put(SERVICES, "shop", "web", **service("10.96.0.10", WEB))
    api.put(SLICES, "shop", "web-a", **served_by(provider))
    with answering(provider.namespace, provider.address, 8080):
        reached = partial(dials, client.namespace, "10.96.0.10", 80, patience=2.0)
        eventually(reached, "the service answers")
        eventually(lambda: node_ports(host), "a rule")
        before = service_flows(host), node_ports(host)
        assert before[0]
        api.failing = 503
        api.hang_up()
        bed.agents[0].kill()
        if not remembers:
            shutil.rmtree(cache)
        bed.agents[0].start()
        assert (service_flows(host), node_ports(host)) == before
        assert reached()
        state = json.loads(get(host, "/inspect/kubernetes"))
        assert state["complete"] == remembers
        assert "503" in state["resources"]["services"]["fault"]
        api.delete(SERVICES, "shop", "web")
        api.failing = 0
        eventually(lambda: not service_flows(host), "now the server says that it is gone")
        eventually(lambda: not node_ports(host), "its node port too")


@pytest.mark.usefixtures("pods")
def test_labels_place_a_pod(bed: Bed, host: Host, api: ApiServer) -> None:
    bed.netctl("net", "create", "--subnet=10.77.0.0/24", "--gateway=10.77.0.254", "labelled")
    placed = bed.add_pod(host, "placed", labels={"io.contiv.network": "labelled", "app": "web"})
    try:
        assert placed.address.startswith("10.77.0.")
        container = placed.sandbox.container_id

        def labels() -> str:
            shown = bed.netctl("endpoint", "inspect", container)
            return shown.partition('"labels"')[2].partition("\n")[0]

        assert "app:web" in labels()
        for name in ("placed", "default/placed", "default/pla*"):
            (line,) = bed.netctl("endpoint", "ls", "--all", "--pod", name).splitlines()[2:]
            assert line.split()[-1] == "default/placed"
        again = kube_pod(host.label, placed.sandbox.uid, {"app": "db"})
        api.put("pods", "default", "placed", **again)
        eventually(lambda: "app:db" in labels(), "the labels follow")
    finally:
        bed.delete_pod(placed)
    api.failing = 503
    api.hang_up()
    try:
        with pytest.raises(CniFailed) as failed:
            bed.add_pod(host, "unknown")
    finally:
        api.failing = 0
    assert failed.value.answer["code"] == 11
    assert failed.value.answer["msg"] == "Contiv:Error getting labels"
    bed.netctl("net", "rm", "labelled")


def get(host: Host, path: str) -> str:
    """Ask the agent's REST server."""
    url = f"http://{host.address}:9090{path}"
    return host.namespace.run(["curl", "-sf", url]).stdout


def test_pods_hear_of_services(api: ApiServer, pods: list[Pod]) -> None:
    asker, other = pods
    api.put(SERVICES, "shop", "db", **service("10.96.0.20", {"port": 5432}))
    with serving(other) as server:
        for name in ("db.shop", "db.shop.svc.cluster.local"):
            hears(asker, server, name, {"10.96.0.20"})
        for name in ("db.blog", "db"):
            hears(asker, server, name, {OUTSIDE})
        api.put(SERVICES, "default", "db", **service("10.96.0.21", {"port": 5432}))
        hears(asker, server, "db", {"10.96.0.21"})
        api.delete(SERVICES, "default", "db")
        api.delete(SERVICES, "shop", "db")
        hears(asker, server, "db.shop", {OUTSIDE})


DNS = "10.96.0.53"
DNS_PORTS = [{"name": f"dns-{kind}", "port": 53, "protocol": kind} for kind in ("UDP", "TCP")]


@pytest.fixture
def cluster_dns(api: ApiServer, pods: list[Pod]) -> Iterator[None]:
    """Run dnsmasq in a pod behind the service kube-dns, in the place of CoreDNS."""
    _, provider = pods
    api.put(SERVICES, "kube-system", "kube-dns", **service(DNS, *DNS_PORTS))
    behind = endpoint_slice("kube-dns", provider.address, ports=DNS_PORTS)
    api.put(SLICES, "kube-system", "kube-dns-a", **behind)
    command = ["dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--user=root"]
    command += ["--pid-file=", "--conf-file=/dev/null", "--bind-interfaces"]
    command += [f"--listen-address={provider.address}", f"--address=/cluster.local/{OUTSIDE}"]
    server = provider.namespace.popen([*command, "--address=/example.com/192.0.2.9"])
    try:
        yield
    finally:
        server.terminate()
        server.wait()
        api.delete(SLICES, "kube-system", "kube-dns-a")
        api.delete(SERVICES, "kube-system", "kube-dns")


@pytest.mark.usefixtures("cluster_dns")
def test_names_beside_a_name_server_of_the_cluster(api: ApiServer, pods: list[Pod]) -> None:
    """Pods ask the service's address: what the agent does not know goes on to who is behind it."""
    asker, provider = pods
    api.put(SERVICES, "shop", "db", **service("10.96.0.20", {"port": 5432}))
    known = {
        "db.shop.svc.cluster.local": "10.96.0.20",
        "two": provider.address,
        "only-there.shop.svc.cluster.local": OUTSIDE,
        "www.example.com": "192.0.2.9",
    }
    for transport in ("+notcp", "+tcp"):
        for name, where in known.items():
            ask = partial(dug, asker, DNS, transport, name)
            eventually(lambda ask=ask, where=where: ask() == [where], f"{name} by {transport}")  # type: ignore[misc]  # bound now
    api.delete(SERVICES, "shop", "db")
    ask = partial(dug, asker, DNS, "db.shop.svc.cluster.local")
    eventually(lambda: ask() == [OUTSIDE], "a name that is no service's any more goes on too")


def test_no_pod_takes_a_name_of_others(
    bed: Bed, host: Host, api: ApiServer, pods: list[Pod]
) -> None:
    asker, other = pods
    zone = "pay.shop.svc.cluster.local"
    names = ["github.com", "localhost", "wpad", zone]
    elsewhere = bed.add_pod(host, "mail", kube_namespace="shop")
    takers = [bed.add_pod(host, name) for name in (*names, "api")]
    bed.netctl("group", "create", "default-net", "example.org")
    takers.append(bed.add_pod(host, "member", group="example.org"))
    try:
        with serving(other) as server:
            # the last ones are known by their own names: so are those before them
            hears(asker, server, "member", {takers[-1].address})
            hears(asker, server, "api", {takers[-2].address})
            for words in ([], ["+tcp"]):
                for name in (*names, "example.org", "mail"):
                    assert dug(asker, server, name, *words) == [OUTSIDE], (name, words)
            assert "status: NOERROR" in dug_whole(asker, server, "api", "HTTPS")
            hears(elsewhere, server, "mail", {elsewhere.address})
            hears(elsewhere, server, "api", {OUTSIDE})
            api.put(SERVICES, "default", "api", **service("10.96.0.22", {"port": 80}))
            hears(asker, server, "api", {"10.96.0.22"})
            api.put(SERVICES, "shop", "pay", **service("10.96.0.23", {"port": 80}))
            hears(asker, server, zone, {"10.96.0.23"})
    finally:
        api.delete(SERVICES, "default", "api")
        api.delete(SERVICES, "shop", "pay")
        for pod in (elsewhere, *takers):
            bed.delete_pod(pod)
        bed.netctl("group", "rm", "example.org")


def dug(pod: Pod, server: str, *words: str) -> list[str]:
    """Return what `dig` says of a name in a pod."""
    return dug_whole(pod, server, "+short", *words).splitlines()


def dug_whole(pod: Pod, server: str, *words: str) -> str:
    return pod.namespace.run(["dig", f"@{server}", "+tries=2", "+time=2", *words]).stdout
