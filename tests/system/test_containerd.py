"""Pods that a real containerd runs by CRI, as kubelet has it do: many at once, through faults.

What kubelet does beyond that is done here: it stops what failed, stops twice at once, and repeats
what failed until it succeeds.
"""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.containerd import Containerd
from tests.bed.cri import Cri, CriError, Mapped
from tests.bed.netns import Namespace
from tests.bed.traffic import round_trip
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials
from tests.system.footprint import Footprint, eventually_same, footprint

pytestmark = [pytest.mark.system]

CROWD = 20
PLUGIN = "contivk8s"
GATEWAY = "10.20.0.1"
BRIDGE = Bridge.VXLAN
HOST_PORT, POD_PORT = 8080, 80


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


@pytest.fixture(scope="module")
def flags() -> dict[str, Sequence[str]]:
    # An ADD whose answer is lost with the agent, and whose DEL fails for it is away: containerd 1.7
    # removes the pod without another DEL (its pull request 12132), and the agent finds it gone.
    return {"netplugin": ("--leak-grace", "30")}


@pytest.fixture(scope="module")
def containerd(bed: Bed) -> Iterator[Containerd]:
    (host,) = bed.hosts
    runtime = Containerd(host.dir / "ctd", host.namespace, bed.runtime.plugin)
    runtime.prepare(conflist(bed))
    try:
        runtime.start()
        runtime.load_image()
        yield runtime
    finally:
        runtime.destroy()


@pytest.fixture
def cri(bed: Bed, containerd: Containerd) -> Iterator[Cri]:
    """Give a client; see that nothing is left of the pods once they are removed."""
    before = footprint(bed)
    with containerd.client() as cri:
        yield cri
        removed(cri, cri.pods())
        gone(bed, containerd, before)


def conflist(bed: Bed, *chained: dict[str, Any]) -> dict[str, Any]:
    ours = bed.conf(bed.hosts[0])
    shared = {name: ours.pop(name) for name in ("cniVersion", "name")}
    return {**shared, "plugins": [ours, *chained]}


def gone(bed: Bed, containerd: Containerd, before: Footprint) -> None:
    assert containerd.namespaces() == []
    eventually_same(bed, before)


def run(cri: Cri, name: str, **more: Any) -> str:
    return cri.run(name, str(uuid.uuid4()), **more)


def attempt(cri: Cri, name: str) -> str | None:
    """Run a pod; None if that failed."""
    try:
        return run(cri, name)
    except CriError:
        return None


def ended(cri: Cri, pod: str) -> str:
    """Stop a pod twice at once, as kubelet now and then does, and remove it; say what failed.

    Some may be gone: a pod that could not be started is cleaned up by containerd if it can.
    """
    with ThreadPoolExecutor(2) as twice:
        stops = [twice.submit(cri.stop, pod) for _ in range(2)]
    try:
        if any([refused_by_containerd(stop) for stop in stops]):  # noqa: C419 - of each of them
            cri.stop(pod)
        cri.remove(pod)
    except CriError as exc:
        return str(exc)
    return ""


def refused_by_containerd(stop: Future[None]) -> bool:
    """Tell whether containerd itself refused one of two stops of a pod; raise what else failed.

    containerd 1.6 does not keep two stops of a pod apart. One of them may find the shim ended that
    it asks to kill ("ttrpc: closed"), or a network namespace that the other has unmounted and not
    yet removed ("unknown FS magic"). kubelet then stops the pod again. What the plugin refuses
    names it.
    """
    try:
        stop.result()
    except CriError as exc:
        if PLUGIN in str(exc):
            raise
        return True
    return False


def removed(cri: Cri, pods: Iterable[str]) -> None:
    """Remove pods, all at once, each as often as it takes."""
    asked = frozenset(pods)

    def all_ended() -> bool:
        left = asked.intersection(cri.pods())
        with ThreadPoolExecutor(CROWD) as pool:
            return not any(pool.map(partial(ended, cri), left))

    eventually(all_ended, "all pods are removed")
    assert not set(pods) & set(cri.pods())


def test_twenty_pods_at_once(containerd: Containerd, cri: Cri) -> None:
    with ThreadPoolExecutor(CROWD) as pool:
        pods = list(pool.map(partial(run, cri), (f"p{number}" for number in range(CROWD))))
    addresses = [cri.addresses(pod) for pod in pods]
    assert len({address for (address,) in addresses}) == CROWD
    inside = [Namespace(str(path)) for path in containerd.namespaces()]
    assert len(inside) == CROWD
    for number, namespace in enumerate(inside):
        (other,) = addresses[(number + 1) % CROWD]
        eventually(partial(round_trip, namespace, other), f"{other} is reached")
    # half of them leave while others come
    leaving, staying = pods[::2], pods[1::2]
    with ThreadPoolExecutor(CROWD) as pool:
        ends = pool.map(partial(ended, cri), leaving)
        later = list(pool.map(partial(run, cri), (f"q{number}" for number in range(CROWD // 2))))
        assert [failure for failure in ends if failure] == []
    assert {*cri.pods()} == {*staying, *later}
    now = [address for pod in (*staying, *later) for address in cri.addresses(pod)]
    assert len(set(now)) == CROWD


def test_the_agent_is_killed_while_pods_start_and_while_they_end(
    bed: Bed, containerd: Containerd, cri: Cri
) -> None:
    (agent,) = bed.agents
    names = [f"k{number}" for number in range(CROWD)]
    with ThreadPoolExecutor(CROWD) as pool:
        tries = {name: pool.submit(attempt, cri, name) for name in names}
        eventually(lambda: any(one.done() for one in tries.values()), "a pod runs")
        agent.kill()
        tried = {name: one.result() for name, one in tries.items()}
    started = [pod for pod in tried.values() if pod is not None]
    assert started, "one pod ran before the agent was killed"
    agent.start()
    removed(cri, [pod for pod in cri.pods() if pod not in started])
    with ThreadPoolExecutor(CROWD) as pool:
        again = [name for name, pod in tried.items() if pod is None]
        pods = [*started, *pool.map(partial(run, cri), again)]
    addresses = [address for pod in pods for address in cri.addresses(pod)]
    assert len(set(addresses)) == CROWD
    for path in containerd.namespaces():
        inside = Namespace(str(path))
        eventually(partial(round_trip, inside, addresses[0]), f"{inside.name} reaches a pod")

    with ThreadPoolExecutor(CROWD) as pool:
        ends = [pool.submit(ended, cri, pod) for pod in pods]
        eventually(lambda: any(one.done() for one in ends), "the first pod ended")
        agent.kill()
        left = [pod for pod, end in zip(pods, ends, strict=True) if end.result()]
    agent.start()
    removed(cri, left)


def test_a_chain_of_plugins(bed: Bed, containerd: Containerd, cri: Cri) -> None:
    chained: list[dict[str, Any]] = [
        {"type": "portmap", "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}},
        {"type": "tuning", "sysctl": {"net.ipv4.conf.eth0.arp_notify": "1"}},
    ]
    host = bed.hosts[0].namespace
    configure(containerd, cri, conflist(bed, *chained))
    try:
        rates = ("kubernetes.io/ingress-bandwidth", "kubernetes.io/egress-bandwidth")
        annotations = dict.fromkeys(rates, "10M")
        pod = run(cri, "chained", ports=[Mapped(HOST_PORT, POD_PORT)], annotations=annotations)
        (address,) = cri.addresses(pod)
        (path,) = containerd.namespaces()
        inside = Namespace(str(path))
        link = veth_of(host, inside)
        assert "tbf" in host.run(["tc", "qdisc", "show", "dev", link]).stdout
        sysctl = inside.run(["cat", "/proc/sys/net/ipv4/conf/eth0/arp_notify"])
        assert sysctl.stdout.strip() == "1"
        host.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        with answering(inside, address, POD_PORT):
            own = bed.hosts[0].address
            eventually(lambda: dials(host, own, HOST_PORT, patience=1), "the host's port answers")
            outside = bed.fabric.namespace
            eventually(lambda: dials(outside, own, HOST_PORT, patience=1), "from outside as well")
        removed(cri, [pod])
        assert str(HOST_PORT) not in host.run(["iptables-save", "-t", "nat"]).stdout
    finally:
        configure(containerd, cri, conflist(bed))


def test_host_ports_and_bandwidth_are_contiv_s(bed: Bed, containerd: Containerd, cri: Cri) -> None:
    """Contiv reads what containerd writes: `HostPort`, `IngressRate`, and 2^32-1 for no burst."""
    host = bed.hosts[0].namespace
    conf = conflist(bed)
    conf["plugins"][0]["capabilities"] = {"portMappings": True, "bandwidth": True, "dns": True}
    configure(containerd, cri, conf)
    try:
        rates = {"ingress": "10M", "egress": "8M"}
        annotations = {f"kubernetes.io/{way}-bandwidth": rate for way, rate in rates.items()}
        pod = run(cri, "capable", ports=[Mapped(HOST_PORT, POD_PORT)], annotations=annotations)
        (address,) = cri.addresses(pod)
        (path,) = containerd.namespaces()
        inside = Namespace(str(path))
        queue = host.run(["tc", "-json", "qdisc", "show", "dev", veth_of(host, inside)]).stdout
        (bucket,) = [one for one in json.loads(queue) if one["kind"] == "tbf"]
        assert bucket["options"]["rate"] * 8 == 10_000_000
        assert bucket["options"]["burst"] * 8 <= 8_000_000, "the usual burst"
        assert "rate=8000 burst_size=8000" in bed.hosts[0].ovs.ofctl("dump-meters", BRIDGE)
        host.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        own = bed.hosts[0].address
        with answering(inside, address, POD_PORT):
            eventually(lambda: dials(host, own, HOST_PORT, patience=1), "the host's port answers")
            outside = bed.fabric.namespace
            eventually(lambda: dials(outside, own, HOST_PORT, patience=1), "from outside as well")
        removed(cri, [pod])
        assert str(HOST_PORT) not in host.run(["iptables-save", "-t", "nat"]).stdout
    finally:
        configure(containerd, cri, conflist(bed))


def configure(containerd: Containerd, cri: Cri, conf: dict[str, Any]) -> None:
    """Give containerd another list of plugins; return when it has read that."""
    wanted = [plugin["type"] for plugin in conf["plugins"]]
    containerd.configure(conf)
    eventually(lambda: cri.plugins() == wanted, "containerd has read its configuration")


def veth_of(host: Namespace, inside: Namespace) -> str:
    """Return the name of the host's end of a pod's link."""
    shown = json.loads(inside.run(["ip", "-json", "link", "show", "eth0"]).stdout)
    index = shown[0]["link_index"]
    links = json.loads(host.run(["ip", "-json", "link", "show"]).stdout)
    return str(next(link["ifname"] for link in links if link["ifindex"] == index))
