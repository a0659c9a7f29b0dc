"""What a pod gets, and whom it reaches: two hosts, several networks and tenants."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address, ip_interface
from pathlib import Path
from typing import Any

import pytest

from tests.bed.cluster import Bed
from tests.bed.netns import Namespace, fresh_name
from tests.bed.pods import IFNAME, Pod, new_sandbox
from tests.bed.waiting import WITHIN, eventually
from tests.system.footprint import eventually_same, flows, inspect, steady
from tests.system.watcher import both_ways, watching

pytestmark = [pytest.mark.system]

ROUTER_MAC = "00:00:11:11:11:11"
UNDERLAY_MTU = 1500
VXLAN_OVERHEAD = 50
SAME_SUBNET = ["--subnet=10.99.0.0/24", "--gateway=10.99.0.1"]
DUAL = ["--subnetv6=fd00:7::/64", "--gatewayv6=fd00:7::1"]


@pytest.fixture(scope="module", autouse=True)
def networks(bed: Bed) -> None:
    """Make more networks, one whose addresses nobody has had, and tenants with the same subnet."""
    bed.netctl("net", "create", "--subnet=10.40.0.0/24", "--gateway=10.40.0.1", "other")
    bed.netctl("net", "create", "--subnet=10.50.0.0/24", "--gateway=10.50.0.1", *DUAL, "dual")
    bed.netctl("net", "create", "--subnet=10.90.0.0/24", "--gateway=10.90.0.1", "unused")
    bed.netctl("group", "create", "default-net", "web")
    profile(bed, "10 mbps", dscp=10, burst=2000)
    for tenant in ("red", "blue"):
        bed.netctl("tenant", "create", tenant)
        bed.netctl("net", "create", "-t", tenant, *SAME_SUBNET, "same")


@pytest.fixture(autouse=True)
def no_pods_left(bed: Bed) -> Iterator[None]:
    """Delete the pods of each test, and see that they leave nothing."""
    before = steady(bed)
    yield
    for pod in list(bed.pods):
        bed.delete_pod(pod)
    eventually_same(bed, before)


def reaches(source: Pod, target: Pod) -> None:
    # another host hears of a pod a moment after its runtime does
    eventually(lambda: source.ping(target.address), f"{source.name} reaches {target.name}")


def inside(pod: Pod, *words: str) -> Any:
    return json.loads(pod.namespace.run(["ip", "-json", *words]).stdout)


def neighbour(pod: Pod, address: str) -> str:
    return str(inside(pod, "neigh", "show", address)[0]["lladdr"])


def ping6(pod: Pod, address: str) -> bool:
    command = ["ping", "-6", "-q", "-n", "-c", "2", "-i", "0.2", "-W", "1", address]
    return pod.namespace.run(command, check=False).returncode == 0


def address6(pod: Pod) -> str:
    return str(ip_interface(pod.result["ips"][1]["address"]).ip)


def test_every_pod_reaches_every_other_on_both_hosts(bed: Bed) -> None:
    pods = [bed.add_pod(bed.hosts[n % 2], f"p{n}") for n in range(4)]
    for source in pods:
        for target in pods:
            reaches(source, target)
    assert len({pod.address for pod in pods}) == 4


def test_the_result_is_what_the_kernel_has(bed: Bed) -> None:
    pod = bed.add_pod(bed.hosts[0], "p")
    link, *_ = inside(pod, "link", "show", IFNAME)
    (address,) = [
        a for a in inside(pod, "addr", "show", IFNAME)[0]["addr_info"] if a["family"] == "inet"
    ]
    (route,) = inside(pod, "route", "show", "default")
    assert ip_address(pod.address) in ip_interface("10.20.0.0/16").network
    assert pod.result["ips"][0]["address"] == f"{address['local']}/{address['prefixlen']}"
    assert pod.result["ips"][0]["gateway"] == route["gateway"] == "10.20.0.1"
    assert pod.result["routes"] == [{"dst": "0.0.0.0/0", "gw": "10.20.0.1"}]
    host_end, pod_end = pod.result["interfaces"]
    assert pod_end == {"name": IFNAME, "mac": pod.mac, "sandbox": str(pod.namespace.path)}
    assert bed.hosts[0].ovs.vsctl("port-to-br", host_end["name"]).strip() == "contivVxlanBridge"
    assert pod.mac == "02:02:" + ":".join(f"{byte:02x}" for byte in ip_address(pod.address).packed)
    assert link["mtu"] == UNDERLAY_MTU - VXLAN_OVERHEAD
    assert inside(pod, "link", "show", "lo")[0]["operstate"] != "DOWN"


@pytest.mark.parametrize("version", ["0.3.1", "0.4.0", "1.0.0"])
def test_the_result_speaks_the_version_asked_for(version: str, bed: Bed) -> None:
    sandbox = new_sandbox("p", Namespace(fresh_name("p")))
    conf = {**bed.conf(bed.hosts[0]), "cniVersion": version}
    pod = bed.runtime.add(bed.hosts[0], conf, sandbox)
    bed.pods.append(pod)
    assert pod.result["cniVersion"] == version
    (ip,) = pod.result["ips"]
    assert ip.get("version") == (None if version == "1.0.0" else "4")
    assert pod.result["interfaces"][ip["interface"]]["sandbox"] == str(pod.namespace.path)


def test_the_largest_frame_passes_and_is_not_fragmented(bed: Bed) -> None:
    source, target = bed.add_pod(bed.hosts[0], "a"), bed.add_pod(bed.hosts[1], "b")
    reaches(source, target)
    payload = UNDERLAY_MTU - VXLAN_OVERHEAD - 28
    command = ["ping", "-q", "-n", "-c", "2", "-i", "0.2", "-W", "5", "-M", "do"]
    for size, status in ((payload, 0), (payload + 1, 1)):
        done = source.namespace.run([*command, "-s", str(size), target.address], check=False)
        assert done.returncode == status, done.stdout


SERVE = """
import socket
with socket.create_server(("", 7)) as listener:
    print(len(listener.accept()[0].recv(1 << 20, socket.MSG_WAITALL)))
"""
SEND = """
import socket, sys
with socket.create_connection((sys.argv[1], 7), 60) as sender:
    sender.sendall(bytes(1 << 20))
"""


def test_tcp_carries_data_between_hosts(bed: Bed) -> None:
    source, target = bed.add_pod(bed.hosts[0], "a"), bed.add_pod(bed.hosts[1], "b")
    reaches(source, target)
    received = bed.dir / "received"
    server = target.namespace.popen(["python3", "-c", SERVE], log=received)
    try:
        listening = partial(target.namespace.run, ["ss", "-tln"])
        eventually(lambda: ":7 " in listening().stdout, "the server listens")
        source.namespace.run(["python3", "-c", SEND, target.address], timeout=WITHIN)
        assert server.wait(WITHIN) == 0
    finally:
        server.kill()
        server.wait()
    assert received.read_text().split() == [str(1 << 20)]


def test_the_gateway_answers_arp_and_routes_to_another_network(bed: Bed) -> None:
    source = bed.add_pod(bed.hosts[0], "a")
    for host in bed.hosts:
        target = bed.add_pod(host, f"b-{host.label}", network="other")
        reaches(source, target)
        reaches(target, source)
        assert neighbour(target, "10.40.0.1") == ROUTER_MAC
    assert neighbour(source, "10.20.0.1") == ROUTER_MAC


def test_a_pod_of_a_group_reaches_others_and_is_counted_in_it(bed: Bed) -> None:
    source, target = bed.add_pod(bed.hosts[0], "a", group="web"), bed.add_pod(bed.hosts[1], "b")
    reaches(source, target)
    reaches(target, source)
    groups = {
        e["endpointID"]: e.get("serviceName")
        for e in inspect(bed, "default", "default-net")["endpoints"]
    }
    assert groups == {source.sandbox.container_id: "web", target.sandbox.container_id: None}


def profile(bed: Bed, bandwidth: str, *, dscp: int, burst: int) -> None:
    """Make the netprofile `gold`, or change it."""
    options = [f"--bandwidth={bandwidth}", f"--dscp={dscp}", f"--burst={burst}"]
    bed.netctl("netprofile", "create", *options, "gold")


def limits(pod: Pod) -> list[str]:
    columns = ["ingress_policing_rate", "ingress_policing_burst"]
    return pod.host.ovs.vsctl("get", "interface", port_name(pod), *columns).split()


def port_name(pod: Pod) -> str:
    return str(pod.result["interfaces"][0]["name"])


def marks(pod: Pod) -> set[str]:
    """Return the DSCP the switch gives a pod's packets."""
    own = f"in_port={port_name(pod).removeprefix('vvport')} "
    marking = [flow for flow in flows(pod.host) if own in flow and "->ip_dscp" in flow]
    return {flow.partition("set_field:")[2].partition("->")[0] for flow in marking}


def test_a_netprofile_limits_and_marks_running_pods(bed: Bed) -> None:
    pod = bed.add_pod(bed.hosts[0], "a", group="web")
    other = bed.add_pod(bed.hosts[0], "b")
    row = pod.host.ovs.vsctl("get", "interface", port_name(pod), "_uuid", "ofport")

    def has(rate: int, burst: int, dscp: int) -> None:
        wanted = ([str(rate), str(burst)], {str(dscp)} if dscp else set())
        eventually(lambda: (limits(pod), marks(pod)) == wanted, f"{wanted}")

    has(0, 0, 0)
    bed.netctl("group", "create", "-n", "gold", "default-net", "web")
    has(10485, 2000, 10)
    pod.host.ovs.vsctl("set", "interface", port_name(pod), "ingress_policing_rate=1")
    has(10485, 2000, 10)
    profile(bed, "20 mbps", dscp=46, burst=3000)
    has(20971, 3000, 46)
    late = bed.add_pod(bed.hosts[1], "c", group="web")
    assert (limits(late), marks(late)) == (["20971", "3000"], {"46"})
    bed.netctl("group", "create", "default-net", "web")
    has(0, 0, 0)
    profile(bed, "10 mbps", dscp=10, burst=2000)
    assert pod.host.ovs.vsctl("get", "interface", port_name(pod), "_uuid", "ofport") == row
    assert (limits(other), marks(other)) == (["0", "0"], set())
    reaches(pod, other)


def test_tenants_with_the_same_subnet_do_not_meet(bed: Bed) -> None:
    pods = {
        (tenant, number): bed.add_pod(host, f"{tenant}{number}", tenant=tenant, network="same")
        for number, host in enumerate(bed.hosts)
        for tenant in ("red", "blue")
    }
    third = bed.add_pod(bed.hosts[1], "red2", tenant="red", network="same")
    for number in (0, 1):
        assert pods["red", number].address == pods["blue", number].address
    for tenant in ("red", "blue"):
        reaches(pods[tenant, 0], pods[tenant, 1])
        reaches(pods[tenant, 1], pods[tenant, 0])
    reaches(pods["red", 0], third)
    assert pods["blue", 0].ping(third.address) is None
    assert pods["blue", 1].ping(third.address) is None
    outsider = bed.add_pod(bed.hosts[0], "out")
    assert outsider.ping(third.address) is None
    # what reaches an address is answered by the tenant's own pod
    for tenant in ("red", "blue"):
        before = {key: echoes_received(pod) for key, pod in pods.items()}
        assert pods[tenant, 0].loses_nothing_to(pods[tenant, 1].address, count=3, interval=0.05)
        grown = {key for key, pod in pods.items() if echoes_received(pod) > before[key]}
        assert grown == {(tenant, 1)}


def echoes_received(pod: Pod) -> int:
    counters = pod.namespace.run(["cat", "/proc/net/snmp"], check=True)
    names, values = [
        line.split() for line in counters.stdout.splitlines() if line.startswith("Icmp:")
    ]
    return int(values[names.index("InEchos")])


RETRANSMITTED = 60
"""Seconds after which a pod asks for an address again (ARP): its first packet is lost by then."""
PATIENCE = (0.05, 0.05, 10.0, 10.0)
"""Seconds for the answers to some echo requests: even a busy machine has had time in the end."""

ECHO = b"\x08\x00\xf7\xff\x00\x00\x00\x00"
"""ICMP echo request: type, code, checksum, identifier, sequence number."""


@dataclass(frozen=True)
class Sender:
    """A pod whose socket is made before the pod has a network.

    A program that is started afterwards takes longer than a port takes to become ready.
    """

    pod: Pod
    socket: socket.socket

    def answered(self, address: str, within: float) -> bool:
        """Send one echo request; say whether it is answered in time."""
        self.socket.settimeout(within)
        self.socket.sendto(ECHO, (address, 0))
        try:
            return bool(self.socket.recvfrom(1500)[1][0] == address)
        except TimeoutError:
            return False


@contextmanager
def sender(bed: Bed, name: str, network: str) -> Iterator[Sender]:
    """Run a pod that can send the moment its ADD is answered."""
    sandbox = new_sandbox(name, Namespace(fresh_name(name)))
    raw = sandbox.namespace.call(partial(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1))
    with raw:
        host = bed.hosts[0]
        pod = bed.runtime.add(host, bed.conf(host, network=network), sandbox)
        bed.pods.append(pod)
        # the usual second is no more than a busy machine takes
        again = Path(f"/proc/sys/net/ipv4/neigh/{IFNAME}/retrans_time_ms")
        sandbox.namespace.call(partial(again.write_text, str(1000 * RETRANSMITTED)))
        yield Sender(pod, raw)


def pair(bed: Bed, network: str) -> tuple[Pod, Pod]:
    """Run a pod on each host."""
    near, far = (bed.add_pod(host, f"on-{host.label}", network=network) for host in bed.hosts)
    reaches(near, far)
    return near, far


def test_the_first_packet_of_a_pod_is_not_lost(bed: Bed) -> None:
    peer, _ = pair(bed, "unused")
    lost = []
    for number in range(20):
        with sender(bed, f"p{number}", "unused") as pod:
            if not pod.answered(peer.address, RETRANSMITTED / 2):
                lost.append(number)
    assert lost == []


@pytest.mark.parametrize("host", [0, 1], ids=["near", "far"])
def test_a_pod_with_an_address_just_released_is_reached_at_once(host: int, bed: Bed) -> None:
    # The userspace switch holds on to its verdict on the old pod for a moment after it took the
    # new flows, and may drop a packet of a tunnel when a link comes: the first may be lost here.
    peer = pair(bed, "default-net")[host]
    addresses = set()
    for number in range(15):
        with sender(bed, f"p{number}", "default-net") as pod:
            addresses.add(pod.pod.address)
            assert any(pod.answered(peer.address, within) for within in PATIENCE), number
        bed.delete_pod(pod.pod)
    assert len(addresses) < 15, "no address was used again"


def test_a_pod_with_two_families_has_both_addresses_and_routes(bed: Bed) -> None:
    pod = bed.add_pod(bed.hosts[0], "a", network="dual")
    four, six = pod.result["ips"]
    assert ip_interface(six["address"]).network == ip_interface("fd00:7::/64").network
    assert (four["gateway"], six["gateway"]) == ("10.50.0.1", "fd00:7::1")
    assert {"dst": "::/0", "gw": "fd00:7::1"} in pod.result["routes"]
    (address,) = [
        a
        for a in inside(pod, "addr", "show", IFNAME)[0]["addr_info"]
        if a["scope"] == "global" and a["family"] == "inet6"
    ]
    assert f"{address['local']}/{address['prefixlen']}" == six["address"]
    assert "tentative" not in address, "usable at once"
    (route,) = inside(pod, "-6", "route", "show", "default")
    assert route["gateway"] == "fd00:7::1"


def test_ipv6_is_forwarded_between_hosts_where_neighbours_are_known(bed: Bed) -> None:
    # no answers to neighbour solicitations on a routed bridge (docs/original/ofnet-pipelines.md §8)
    a, b = (bed.add_pod(host, f"on-{host.label}", network="dual") for host in bed.hosts)
    c = bed.add_pod(bed.hosts[0], "c", network="dual")
    for pod in (a, b, c):
        for peer in (a, b, c):
            entry = ["ip", "-6", "neigh", "replace", address6(peer), "lladdr", peer.mac]
            pod.namespace.run([*entry, "dev", IFNAME])
    reaches(a, b)
    for source, target in ((a, b), (b, a), (a, c)):
        assert ping6(source, address6(target)), (source.name, target.name)


def test_fifty_adds_at_once_on_one_host_succeed_and_reach_each_other(bed: Bed) -> None:
    target = bed.add_pod(bed.hosts[1], "target")
    for count in (10, 50):
        with ThreadPoolExecutor(count) as pool:
            pods = list(pool.map(lambda n: bed.add_pod(bed.hosts[0], f"p{n}"), range(count)))
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda pod: reaches(pod, target), pods))
        assert len({pod.address for pod in pods}) == count
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(bed.delete_pod, pods))


def test_a_watcher_notices_what_is_lost(bed: Bed) -> None:
    a, b = (bed.add_pod(host, f"on-{host.label}") for host in bed.hosts)
    with watching(both_ways((a, b))) as watcher:
        bed.fabric.cut(bed.hosts[1].link)
        eventually(lambda: sum(watcher.lost().values()) > 40, "datagrams that do not arrive")
        bed.fabric.heal(bed.hosts[1].link)
    assert len(watcher.lost()) == 2


def test_a_watcher_notices_what_leaks(bed: Bed) -> None:
    a, b = (bed.add_pod(bed.hosts[0], name) for name in ("a", "b"))
    there, back = both_ways((a, b))
    with pytest.raises(AssertionError, match="b to a"), watching([there], [back]):
        pass
