"""A cluster of Kubernetes without another name server: what `dig` says in a pod."""

import json
from collections.abc import Iterator, Mapping, Sequence

import pytest

from netplugin.world.kube_services import SERVICES, SLICES
from tests.bed.cluster import Bed
from tests.bed.hosts import FABRIC_ADDRESS
from tests.bed.kubernetes import ApiServer, endpoint_slice, service
from tests.bed.pods import Pod
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.timeout(120)]

API_PORT = 6443
OWN = "10.96.0.2"
HTTP = {"name": "http", "port": 80, "protocol": "TCP"}


@pytest.fixture(scope="module")
def hosts() -> int:
    """One host is enough: names are the same on every host."""
    return 1


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Sequence[str]]:
    """Make the agent the pods' name server."""
    file = tmp_path_factory.mktemp("kubernetes") / "contiv.json"
    server = f"http://{FABRIC_ADDRESS}:{API_PORT}"
    file.write_text(json.dumps({"K8S_API_SERVER": server, "K8S_TOKEN": "secret"}))
    own = ["--dns-address", OWN, "--dns-upstream", FABRIC_ADDRESS, "--dns-rate", "0"]
    return {"netplugin": ["--k8s-config", str(file), *own]}


@pytest.fixture(scope="module")
def api(bed: Bed) -> Iterator[ApiServer]:
    """Run the API server, with a service of either kind."""
    with ApiServer(bed.fabric.address, API_PORT, namespace=bed.fabric.namespace) as api:
        api.token = "secret"
        api.put(SERVICES, "default", "web", **service("10.96.0.10", HTTP))
        api.put(SERVICES, "default", "db", **service("None", HTTP))
        ready = endpoint_slice("db", "192.0.2.1", "192.0.2.2", ports=[HTTP | {"port": 8080}])
        api.put(SLICES, "default", "db-a", **ready)
        bed.api = api
        yield api
        bed.api = None


@pytest.fixture
def pod(bed: Bed, api: ApiServer) -> Iterator[Pod]:
    assert bed.api is api, "kubelet tells the server of pods"
    (host,) = bed.hosts
    pod = bed.add_pod(host, "asker")
    yield pod
    bed.delete_pod(pod)


def dig(pod: Pod, *words: str) -> list[str]:
    """Return what dig prints of an answer, in order; nothing without one."""
    done = pod.namespace.run(["dig", f"@{OWN}", "+tries=1", "+time=2", *words], check=False)
    return sorted(done.stdout.splitlines())


@pytest.mark.parametrize("transport", ["+notcp", "+tcp"])
@pytest.mark.usefixtures("api")
def test_names_of_a_cluster(pod: Pod, transport: str) -> None:
    def said(*words: str) -> list[str]:
        return dig(pod, transport, "+short", *words)

    members = ["192.0.2.1", "192.0.2.2"]
    # services and their endpoints come by watches of their own: both must be there
    eventually(lambda: said("db.default.svc.cluster.local") == members, "endpoints are known")
    eventually(lambda: said("web.default.svc.cluster.local") == ["10.96.0.10"], "services are")
    own = "web.default.svc.cluster.local."
    assert said("_http._tcp.web.default.svc.cluster.local", "SRV") == [f"0 100 80 {own}"]
    assert said("-x", "10.96.0.10") == [own]
    assert said("192-0-2-1.db.default.svc.cluster.local") == ["192.0.2.1"]
    assert said("-x", "192.0.2.2") == ["192-0-2-2.db.default.svc.cluster.local."]
    assert said("_http._tcp.db.default.svc.cluster.local", "SRV") == [
        "0 50 8080 192-0-2-1.db.default.svc.cluster.local.",
        "0 50 8080 192-0-2-2.db.default.svc.cluster.local.",
    ]
    assert said("10-1-2-3.default.pod.cluster.local") == ["10.1.2.3"]
    assert said("dns-version.cluster.local", "TXT") == ['"1.1.0"']
    nothing = "\n".join(dig(pod, transport, "www.example.com.default.svc.cluster.local"))
    assert "status: NXDOMAIN" in nothing
    assert "cluster.local.\t\t5\tIN\tSOA" in nothing
    search = ["+search", "+domain=default.svc.cluster.local", "+ndots=5", "web"]
    assert said(*search) == ["10.96.0.10"]


@pytest.mark.parametrize("transport", ["+notcp", "+tcp"])
@pytest.mark.usefixtures("api")
def test_names_outside(bed: Bed, pod: Pod, transport: str) -> None:
    command = ["dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--user=root"]
    command += ["--pid-file=", "--address=/example.com/192.0.2.9", "--bind-interfaces"]
    command += [f"--listen-address={FABRIC_ADDRESS}", "--conf-file=/dev/null"]
    server = bed.fabric.namespace.popen(command)
    try:
        wanted = ["192.0.2.9"]
        eventually(
            lambda: dig(pod, transport, "+short", "www.example.com") == wanted, "it is asked"
        )
    finally:
        server.terminate()
        server.wait()
    failed = "\n".join(dig(pod, transport, "+time=5", "www.example.com"))
    assert "status: SERVFAIL" in failed
