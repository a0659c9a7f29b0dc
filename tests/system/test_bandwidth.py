"""What a pod sends is limited by its group's profile, in the userspace datapath, by real packets.

A pod sends as fast as it can; what arrives is compared with what the limit allows for the time that
has passed. So a slow machine makes the test longer, not wrong.
"""

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.netns import Namespace
from tests.bed.pods import Pod
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.system, pytest.mark.ovs]

PORT = 9000
RATE, BURST = 1_048_000, 100_000
"""`1 mbps` in bits a second, and the bits of a burst (`netplugin.pods.rate_limits`)."""
DATAGRAM = b"x" * 1400
BITS = len(DATAGRAM) * 8
HOST = "172.19.255.254"


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    """Have the agent compare flows and meters every second."""
    return {"netplugin": ["--audit-interval", "1"]}


@contextmanager
def pods(bed: Bed, network: str) -> Iterator[tuple[Pod, Pod]]:
    """Run a pod of the group with the limit, and one without a group."""
    words = ["--bandwidth=1 mbps", f"--burst={BURST // 1000}", "--dscp=10", "slow"]
    bed.netctl("netprofile", "create", *words)
    bed.netctl("group", "create", "-n", "slow", network, "limited")
    limited = bed.add_pod(bed.hosts[0], "limited", network=network, group="limited")
    free = bed.add_pod(bed.hosts[0], "free", network=network)
    try:
        yield limited, free
    finally:
        for pod in (limited, free):
            bed.delete_pod(pod)
        eventually(lambda: not meters(bed.hosts[0]), "no meter is left")
        bed.netctl("group", "rm", "limited")
        bed.netctl("netprofile", "rm", "slow")


def excess(sender: Namespace, receiver: Namespace, address: str) -> float:
    """Send much more than the limit allows, for a second; return what arrives, in parts of that."""
    with (
        receiver.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as ear,
        sender.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as mouth,
    ):
        ear.bind((address, PORT))
        ear.setblocking(False)
        sent = arrived = 0
        began = time.monotonic()  # before the first datagram leaves
        allowed = float(BURST)
        while allowed < BURST + RATE or sent < 4 * allowed or not arrived:
            mouth.sendto(DATAGRAM, (address, PORT))
            sent += BITS
            arrived += heard(ear)
            allowed = BURST + BITS + RATE * (time.monotonic() - began)
        return arrived / allowed


def heard(ear: socket.socket) -> int:
    """Return the bits of the datagrams that have arrived."""
    bits = 0
    try:
        while ear.recv(len(DATAGRAM)):
            bits += BITS
    except BlockingIOError:
        pass
    return bits


def policed(host: Host) -> str:
    """Return the names and limits of the ports that the host's kernel limits: none in userspace."""
    asked = ("--columns=name,ingress_policing_rate", "find", "interface")
    return host.ovs.vsctl("--bare", *asked, "ingress_policing_rate>0").strip()


def meters(host: Host) -> str:
    """Return what the bridge of the pods has for meters, without its heading."""
    return host.ovs.ofctl("dump-meters", "contivVxlanBridge").partition("\n")[2].strip()


def test_a_group_limits_what_its_pods_send(bed: Bed) -> None:
    (host,) = bed.hosts
    with pods(bed, "default-net") as (limited, free):
        assert excess(limited.namespace, free.namespace, free.address) <= 1
        assert excess(free.namespace, limited.namespace, limited.address) > 2
        if port := policed(host).partition("\n")[0]:  # the kernel's datapath
            host.ovs.vsctl("set", "interface", port, "ingress_policing_rate=900000")
        else:
            number = meters(host).partition("meter=")[2].partition(" ")[0]
            bands = f"meter={number},kbps,burst,band=type=drop,rate=900000,burst_size=900000"
            host.ovs.ofctl("mod-meter", "contivVxlanBridge", bands)

        def limits() -> str:
            return policed(host) or meters(host)

        eventually(lambda: "1048" in limits(), "a limit changed by hand is corrected")
        bed.netctl("group", "create", "default-net", "limited")
        eventually(lambda: not limits(), "the limit is gone")
        assert excess(limited.namespace, free.namespace, free.address) > 2


def test_it_limits_what_they_send_to_their_host(bed: Bed) -> None:
    (host,) = bed.hosts
    bed.netctl("net", "create", "--subnet=10.70.0.0/24", "bare")
    with pods(bed, "bare") as (limited, free):
        assert excess(limited.namespace, host.namespace, HOST) <= 1
        assert excess(free.namespace, host.namespace, HOST) > 2
    bed.netctl("net", "rm", "bare")
