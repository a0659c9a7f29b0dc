"""Pods on networks without a gateway have a second interface, `host1`, and go by their host."""

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.netns import Namespace
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials, passes, private_address, reaches, unbroken
from tests.system.footprint import eventually_same, steady
from tests.system.planes import FWD_MODES, planes

pytestmark = [pytest.mark.system, pytest.mark.ovs]

BARE: Mapping[str, Sequence[str]] = {
    "vxlan-bare": ["--subnet=10.70.0.0/24", "--encap=vxlan"],
    "vlan-bare": ["--subnet=10.71.0.0/24", "--encap=vlan", "--pkt-tag=71"],
}
SERVICES = "10.96.0.0/12"
GATEWAY = "172.19.255.254"


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a host in a forwarding mode, with a network without gateway of either encapsulation."""
    directory = next(bed_dirs)
    config = directory.with_suffix(".json")
    config.write_text(json.dumps({"SVC_SUBNET": SERVICES}))
    flags = {"netplugin": ["--audit-interval", "2", "--k8s-config", str(config)]}
    with planes(directory, request.param, hosts=1, flags=flags) as bed:
        (host,) = bed.hosts
        strict = ["net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=1"]
        host.namespace.run(["sysctl", "-q", "-w", *strict])
        for name, words in BARE.items():
            bed.netctl("net", "create", *words, name)
        yield bed


@pytest.fixture(params=list(BARE))
def pod(request: pytest.FixtureRequest, bed: Bed) -> Iterator[Pod]:
    """Run a pod without a gateway, and see that it leaves nothing."""
    before = steady(bed)
    pod = bed.add_pod(bed.hosts[0], "bare", network=request.param)
    yield pod
    bed.delete_pod(pod)
    eventually_same(bed, before)


def test_the_pod_has_a_way_by_its_host(bed: Bed, pod: Pod) -> None:
    shown = pod.namespace.run(["ip", "-json", "route", "show", "default"]).stdout
    (route,) = json.loads(shown)
    assert (route["dev"], route["gateway"]) == ("host1", GATEWAY)
    (host,) = bed.hosts
    for target in (GATEWAY, host.address, bed.fabric.address):
        eventually(partial(reaches, pod.namespace, target), f"{target} is reached")
    with answering(bed.fabric.namespace, bed.fabric.address, 86) as callers:
        assert dials(pod.namespace, bed.fabric.address, 86)
    assert callers == [host.address], "the outside sees the host"
    private = private_address(pod)
    eventually(partial(reaches, host.namespace, private), "the host reaches the pod")
    with answering(pod.namespace, private, 87) as callers:
        assert dials(host.namespace, private, 87)
    assert callers == [host.address]


def test_services_are_for_its_own_interface(pod: Pod) -> None:
    """Whoever balances them is on that bridge, not the host."""
    (way,) = json.loads(pod.namespace.run(["ip", "-json", "route", "get", "10.99.1.2"]).stdout)
    assert (way["dst"], way["dev"]) == ("10.99.1.2", "eth0")
    assert "gateway" not in way
    (route,) = json.loads(pod.namespace.run(["ip", "-json", "route", "show", SERVICES]).stdout)
    assert route["dev"] == "eth0"


def mark_seen(source: Namespace, host: Host) -> int | None:
    """Return the DSCP of a datagram from a namespace to its host, if it arrives."""
    with (
        host.namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as ear,
        source.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as mouth,
    ):
        ear.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        ear.settimeout(1)
        ear.bind((host.address, 88))
        mouth.sendto(b"mark me", (host.address, 88))
        try:
            _, ((_, _, tos),), *_ = ear.recvmsg(16, 64)
        except TimeoutError:
            return None
        return tos[0] >> 2


def test_its_group_limits_and_marks_what_it_sends(bed: Bed) -> None:
    (host,) = bed.hosts
    bed.netctl("netprofile", "create", "--bandwidth=10 mbps", "--dscp=10", "--burst=2000", "gold")
    bed.netctl("group", "create", "-n", "gold", "vxlan-bare", "marked")
    pod = bed.add_pod(host, "marked", network="vxlan-bare", group="marked")
    port = str(pod.result["interfaces"][0]["name"]).replace("vvport", "hport")
    columns = ["ingress_policing_rate", "ingress_policing_burst"]
    assert host.ovs.vsctl("get", "interface", port, *columns).split() == ["10485", "2000"]
    eventually(lambda: mark_seen(pod.namespace, host) == 10, "the host sees the mark")
    bed.netctl("group", "create", "vxlan-bare", "marked")
    eventually(lambda: mark_seen(pod.namespace, host) == 0, "and then none")
    bed.delete_pod(pod)


def test_it_follows_the_links(bed: Bed, pod: Pod) -> None:
    (host,) = bed.hosts

    def mtu() -> int:
        (link,) = json.loads(pod.namespace.run(["ip", "-json", "link", "show", "host1"]).stdout)
        return int(link["mtu"])

    assert mtu() == 1450
    try:
        for underlay in (1400, 1500):
            host.namespace.run(["ip", "link", "set", "eth0", "mtu", str(underlay)])
            eventually(lambda: mtu() == underlay - 50, "host1 follows")  # noqa: B023 - now
            largest = partial(passes, pod.namespace, GATEWAY, underlay - 50)
            eventually(largest, f"{underlay - 50} bytes pass to the host")
            assert not passes(pod.namespace, GATEWAY, underlay - 49)
    finally:
        host.namespace.run(["ip", "link", "set", "eth0", "mtu", "1500"])


def test_it_reaches_no_other_pod_by_the_host(bed: Bed, pod: Pod) -> None:
    (host,) = bed.hosts
    other = bed.add_pod(host, "other", network="vxlan-bare")
    target = private_address(other)
    eventually(partial(reaches, host.namespace, target), "the host reaches the other one")
    eventually(partial(reaches, pod.namespace, GATEWAY), "the way to the host is open")
    assert not reaches(pod.namespace, target)
    pod.namespace.run(["ip", "address", "add", "172.19.9.9/32", "dev", "lo"])
    ping = ["ping", "-q", "-n", "-c", "1", "-W", "1", "-I", "172.19.9.9", GATEWAY]
    assert pod.namespace.run(ping, check=False).returncode, "under its own address alone"
    bed.delete_pod(other)


def test_a_restart_loses_nothing(bed: Bed, pod: Pod, tmp_path: Path) -> None:
    ways = {
        "outside": (pod.namespace, bed.fabric.address),
        "from-host": (bed.hosts[0].namespace, private_address(pod)),
    }
    before = steady(bed)
    with unbroken(tmp_path, **ways):
        bed.agents[0].kill()
        bed.agents[0].start()
    eventually_same(bed, before)


def test_its_port_comes_back(bed: Bed, pod: Pod) -> None:
    (host,) = bed.hosts
    port = str(pod.result["interfaces"][0]["name"]).replace("vvport", "hport")
    for name in (port, "contivh0"):
        eventually(partial(reaches, pod.namespace, bed.fabric.address), "the way is open")
        host.ovs.vsctl("del-port", name)
        back = partial(reaches, pod.namespace, bed.fabric.address)
        eventually(back, f"{name} is back")
