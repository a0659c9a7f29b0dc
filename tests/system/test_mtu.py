"""What pods can send in one piece fits the links between hosts, also when these change."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pytest

from tests.bed.cluster import Bed
from tests.bed.netns import Namespace
from tests.bed.pods import IFNAME, Pod
from tests.bed.traffic import throughput
from tests.bed.waiting import eventually
from tests.system.echoes import passes
from tests.system.rest import ask

pytestmark = [pytest.mark.system]


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    return {"netplugin": ["--probe-interval", "1"]}


@pytest.fixture(scope="module")
def pods(bed: Bed) -> Iterator[list[Pod]]:
    pods = [bed.add_pod(host, f"mtu-{host.label}") for host in bed.hosts]
    yield pods
    for pod in pods:
        bed.delete_pod(pod)


def set_mtu(namespace: Namespace, link: str, mtu: int) -> None:
    namespace.run(["ip", "link", "set", link, "mtu", str(mtu)])


def set_underlay(bed: Bed, mtu: int) -> None:
    """Give every link between the hosts another MTU."""
    for host in bed.hosts:
        set_mtu(bed.fabric.namespace, host.link, mtu)
        set_mtu(host.namespace, "eth0", mtu)


def mtu_of(pod: Pod) -> int:
    (link,) = json.loads(pod.namespace.run(["ip", "-json", "link", "show", IFNAME]).stdout)
    return int(link["mtu"])


def others(bed: Bed, pod: Pod) -> list[tuple[Namespace, str]]:
    """Return whom a pod sends to: a pod on another host, its host, and somebody outside."""
    peer = next(one for one in bed.pods if one.host is not pod.host)
    pod.host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
    return [
        (peer.namespace, peer.address),
        (pod.host.namespace, pod.host.address),
        (bed.fabric.namespace, bed.fabric.address),
    ]


def carries(bed: Bed, pod: Pod, mtu: int) -> None:
    """See that packets of this length, and connections, reach everybody."""
    for namespace, address in others(bed, pod):
        eventually(partial(passes, pod.namespace, address, mtu), f"{mtu} bytes pass to {address}")
        assert throughput(pod.namespace, namespace, address, seconds=1) > 0


def errors(bed: Bed, host: str) -> str:
    found = ask(bed, "GET", f"/hosts/{host}").json()
    return "\n".join(found["errors"])


def test_the_longest_packet_passes_and_no_longer_one(bed: Bed, pods: list[Pod]) -> None:
    one, two = pods
    assert [mtu_of(pod) for pod in pods] == [1450, 1450]
    carries(bed, one, 1450)
    assert not passes(one.namespace, two.address, 1451)


def test_pods_follow_the_links(bed: Bed, pods: list[Pod]) -> None:
    one, two = pods
    set_underlay(bed, 2000)
    try:
        eventually(lambda: [mtu_of(pod) for pod in pods] == [1950, 1950], "pods follow")
        carries(bed, one, 1950)
        late = bed.add_pod(bed.hosts[0], "late")
        assert mtu_of(late) == 1950
        bed.delete_pod(late)
    finally:
        set_underlay(bed, 1500)
    eventually(lambda: [mtu_of(pod) for pod in pods] == [1450, 1450], "pods follow back")
    carries(bed, two, 1450)
    assert not passes(two.namespace, one.address, 1451)


def test_a_link_between_that_carries_less_is_reported(bed: Bed) -> None:
    link, wanted = bed.hosts[1].link, "path to h2: packets of 1500 bytes do not pass to "
    assert errors(bed, "h1") == ""
    set_mtu(bed.fabric.namespace, link, 1400)
    try:
        eventually(lambda: wanted in errors(bed, "h1"), "the path is reported")
        assert "path to h2" in bed.netctl("host", "inspect", "h1")
    finally:
        set_mtu(bed.fabric.namespace, link, 1500)
    eventually(lambda: errors(bed, "h1") == "", "and is no more")
