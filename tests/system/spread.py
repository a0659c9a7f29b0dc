"""Ten thousand connections to one service: evenly spread, none refused, none to one that went.

Run by `make spread`, not by `make test`. Five providers on three hosts, a client on each host; TCP
and UDP, IPv4 and IPv6, in each forwarding mode and on each network. At half of the connections one
provider goes while clients run: once its removal is acknowledged it gets nothing new. Services with
IPv4 are those of labels, whose changes hosts acknowledge; those with IPv6 are of Kubernetes, where
a change is in force once no switch has a flow or a group that names the provider, and its datapath
has caught up. SPREAD_CONNECTIONS says how many connections there are; the shares are printed.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

import pytest

from netplugin.world.kubernetes.kube_services import SERVICES, SLICES
from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.kubernetes import endpoint_slice, service
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.crowd import FAILURES, REFUSED, RESET, SILENT, Asker, Heard, Server, crowd
from tests.system.kube_site import api_beside, api_flags
from tests.system.planes import FWD_MODES, NETWORKS, addresses, planes
from tests.system.services import create_service, label

pytestmark = [pytest.mark.system, pytest.mark.timeout(3600)]

CONNECTIONS = int(os.environ.get("SPREAD_CONNECTIONS", "10000"))
EVEN = 0.2
"""What a provider may get more or less than its share, as a part of it."""

PORT, TARGET = 80, 8080
CLUSTER_ADDRESS = "fd00:96::10"
NAMES = ("p1", "p2", "p3", "p4", "p5")
PORTS = [{"name": name, "port": PORT, "protocol": name.upper()} for name in ("tcp", "udp")]
GATEWAY_MAC = "02:00:00:00:00:fe"
BRIDGES = [bridge.value for bridge in Bridge]


@pytest.fixture(scope="module", params=product(FWD_MODES, ("labels", "kubernetes")), ids="-".join)
def bed(
    request: pytest.FixtureRequest,
    bed_dirs: Iterator[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Run a cluster of three hosts in a forwarding mode, for one kind of services.

    With Kubernetes there is an API server. It says what labels pods have, so that labels that a
    test gives them would be replaced.
    """
    fwd_mode, services = request.param
    if services == "labels":
        with planes(next(bed_dirs), fwd_mode, hosts=3) as bed:
            yield bed
        return
    flags = {"netplugin": api_flags(tmp_path_factory)}
    with (
        planes(next(bed_dirs), fwd_mode, hosts=3, flags=flags) as bed,
        api_beside(bed),
    ):
        yield bed


@pytest.fixture(params=list(NETWORKS))
def network(request: pytest.FixtureRequest, bed: Bed) -> Iterator[str]:
    """Give the network; delete the pods of each test."""
    yield request.param
    for pod in list(bed.pods):
        bed.delete_pod(pod)


@pytest.fixture
def providers(bed: Bed, network: str) -> dict[str, Pod]:
    """Run the providers: two on each of the first two hosts, one on the third."""
    places = [bed.hosts[number % 3] for number in range(len(NAMES))]
    return {
        name: bed.add_pod(host, name, network=network)
        for name, host in zip(NAMES, places, strict=True)
    }


@pytest.fixture
def clients(bed: Bed, network: str) -> list[Pod]:
    """Run a client on each host; it knows its gateway, which only a physical router would tell."""
    pods = [bed.add_pod(host, f"c-{host.label}", network=network) for host in bed.hosts]
    if bed.fwd_mode == "bridge":
        known = ["lladdr", GATEWAY_MAC, "dev", "eth0"]
        for pod in pods:
            pod.namespace.run(["ip", "neigh", "replace", NETWORKS[network][3], *known])
    return pods


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_connections_are_spread(
    bed: Bed, network: str, providers: dict[str, Pod], clients: list[Pod], kind: str
) -> None:
    judged = of_labels if bed.api is None else of_kubernetes
    judged(bed, network, providers, clients, kind)


def of_labels(
    bed: Bed, network: str, providers: dict[str, Pod], clients: list[Pod], kind: str
) -> None:
    name = f"web-{kind}"
    vip = create_service(bed, network, f"{PORT}:{TARGET}:{kind.upper()}", name=name)
    for pod in providers.values():
        label(bed, pod, app=name)

    def remove(gone: str) -> None:
        label(bed, providers[gone], event="die", app=name)  # returns when it is acknowledged

    try:
        judge(
            f"{bed.fwd_mode}, {network}, IPv4", vip, kind, providers, clients=clients, remove=remove
        )
    finally:
        bed.netctl("service", "rm", name)


def of_kubernetes(
    bed: Bed, network: str, providers: dict[str, Pod], clients: list[Pod], kind: str
) -> None:
    # a bridge prefers providers on the client's own network; nobody could reach the other one
    others = [name for name in NETWORKS if name != network and bed.fwd_mode == "bridge"]
    strangers = [bed.add_pod(bed.hosts[0], "stranger", network=other) for other in others]
    with provided(bed, [*providers.values(), *strangers]):

        def remove(gone: str) -> None:
            put(bed, [pod for name, pod in providers.items() if name != gone] + strangers)
            eventually(lambda: not named(bed, providers[gone]), "no flow names it")
            for host in bed.hosts:
                host.ovs.appctl("revalidator/wait")

        where = f"{bed.fwd_mode}, {network}, IPv6"
        judge(where, CLUSTER_ADDRESS, kind, providers, clients=clients, remove=remove)


@contextmanager
def provided(bed: Bed, pods: list[Pod]) -> Iterator[None]:
    """Have a service of Kubernetes with these providers."""
    assert bed.api is not None
    bed.api.put(SERVICES, "shop", "web", **service(CLUSTER_ADDRESS, *PORTS))
    put(bed, pods)
    eventually(lambda: all(named(bed, pod) for pod in pods), "the service")
    try:
        yield
    finally:
        bed.api.delete(SERVICES, "shop", "web")


def put(bed: Bed, pods: list[Pod]) -> None:
    assert bed.api is not None
    ready = [{"name": one["name"], "port": TARGET, "protocol": one["protocol"]} for one in PORTS]
    found = [addresses(pod)[1] for pod in pods]
    slice_ = endpoint_slice("web", *found, ports=ready, family="IPv6")
    bed.api.put(SLICES, "shop", "web-a", **slice_)


def named(bed: Bed, pod: Pod) -> bool:
    """Return whether a flow of any host sends new connections to a provider."""
    to = f"[{addresses(pod)[1]}]:{TARGET}"
    return any(
        to in line for host in bed.hosts for bridge in BRIDGES for line in in_use(host, bridge)
    )


def in_use(host: Host, bridge: str) -> list[str]:
    """Return the flows of a bridge and their groups; others wait for the next comparison."""
    flows = host.ovs.ofctl("dump-flows", bridge).splitlines()
    groups = {line.rpartition("group:")[2] for line in flows if "group:" in line}
    listed = host.ovs.ofctl("dump-groups", bridge).splitlines()
    return flows + [one for one in listed if one.strip().partition(",")[0][9:] in groups]


def judge(
    where: str,
    address: str,
    kind: str,
    providers: dict[str, Pod],
    *,
    clients: list[Pod],
    remove: Callable[[str], None],
) -> None:
    """Have clients ask, remove a provider at half, and judge who answered."""
    gone = NAMES[0]
    count = CONNECTIONS // 2 // len(clients)
    with ExitStack() as stack:
        servers = {
            name: Server(pod.namespace.enter, name, TARGET) for name, pod in providers.items()
        }
        for server in servers.values():
            stack.callback(server.kill)
        askers = [Asker(pod.namespace.enter, kind, address, PORT, count=count) for pod in clients]
        stack.enter_context(crowd(askers))
        before = sum((one.first() for one in askers), Heard())
        remove(gone)
        servers[gone].kill()  # what came to it now would be refused
        ended = [one.rest() for one in askers]
    meanwhile = sum((one for one, _ in ended), Heard())
    after = sum((one for _, one in ended), Heard())
    print(f"{where}, {kind}: {shares(before)}; then {shares(after)}; meanwhile {dict(meanwhile)}")  # noqa: T201 - the result
    is_even(before, set(NAMES), count * len(clients))
    is_even(after, set(NAMES) - {gone}, count * len(clients))
    assert REFUSED not in meanwhile
    # A connection that was under way to the provider when that was removed: it ends by a reset as
    # soon as its client sends something. A client that only waits hears nothing more.
    assert meanwhile[RESET] + meanwhile[SILENT] <= 2 * len(clients), meanwhile


def shares(heard: Heard) -> str:
    return " ".join(f"{name} {100 * heard[name] / heard.total():.1f} %" for name in sorted(heard))


def is_even(heard: Heard, names: set[str], total: int) -> None:
    """Check that all were answered, by these alone, each as often as the others, nearly."""
    assert not FAILURES & heard.keys(), heard
    assert heard.keys() == names
    assert heard.total() == total
    share = total / len(names)
    assert all(abs(count - share) <= EVEN * share for count in heard.values()), heard
