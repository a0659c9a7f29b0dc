"""What one pod sends as fast as it can, and what another pod of the same host feels of it."""

import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system import forging
from tests.system.conftest import unforeseen
from tests.system.services import create_service, label

pytestmark = [pytest.mark.system, pytest.mark.ovs]

Figures = Callable[[str], None]

SECONDS = 8.0
PINGS = 40
PINGS_LOST = 4
"""Of `PINGS`. The switch here shares two processors with the flood itself."""
CONNECTIONS = 2000
"""What the switch may track in all where that is to be used up."""
TICKS = os.sysconf("SC_CLK_TCK")

FLOOD = """
import itertools, socket, sys, time
frames = [bytes.fromhex(line) for line in sys.stdin.read().split()]
door = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
door.bind(("eth0", 0))
sent, end = 0, time.monotonic() + float(sys.argv[1])
for frame in itertools.cycle(frames):
    try:
        door.send(frame)
    except OSError:  # its own queue is full
        continue
    sent += 1
    if not sent % 64 and time.monotonic() > end:
        break
print(sent)
"""


@pytest.fixture(scope="module")
def hosts() -> int:
    return 2


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    return {}


@pytest.fixture(scope="module")
def pods(bed: Bed) -> dict[str, Pod]:
    """Run the attacker, and beside it a bystander whose peer is on the other host."""
    here, there = bed.hosts
    pods = {
        "bad": bed.add_pod(here, "bad"),
        "near": bed.add_pod(here, "near"),
        "far": bed.add_pod(there, "far"),
    }
    eventually(lambda: pods["near"].ping(pods["far"].address), "they reach each other")
    return pods


@contextmanager
def flooding(pod: Pod, frames: Sequence[bytes]) -> Iterator[list[int]]:
    """Send frames from a pod as fast as can be for some seconds; the list gets their number."""
    command = [*pod.namespace.enter, sys.executable, "-c", FLOOD, str(SECONDS)]
    counted: list[int] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdin is not None
        run.stdin.write("\n".join(frame.hex() for frame in frames))
        run.stdin.close()
        try:
            yield counted
            assert run.stdout is not None
            counted.append(int(run.stdout.read()))
        finally:
            run.kill()


def processor(daemon: Daemon) -> float:
    """Return the seconds of processor time that a daemon has used."""
    fields = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def lost(pod: Pod, address: str) -> int:
    """Return how many pings of `PINGS` got no answer."""
    command = ["ping", "-q", "-c", str(PINGS), "-i", "0.1", "-W", "1", address]
    said = pod.namespace.run(command, check=False).stdout
    received = int(said.partition(" received")[0].rpartition(", ")[2])
    return PINGS - received


def suffered(bed: Bed, pods: Mapping[str, Pod], frames: Sequence[bytes], figures: Figures) -> int:
    """Flood; note what it took; return how many pings of the bystander were lost."""
    used = processor(bed.agents[0])
    with flooding(pods["bad"], frames) as sent:
        missing = lost(pods["near"], pods["far"].address)
    spent = processor(bed.agents[0]) - used
    figures(
        f"{sent[0] / SECONDS:.0f} frames/s; bystander lost {missing} of {PINGS} pings; "
        f"agent {spent / SECONDS * 100:.0f} % of a processor"
    )
    assert bed.agents[0].running
    assert unforeseen(bed) == []
    return missing


def frames_of(
    pod: Pod, payloads: Iterable[bytes], *, kind: int = 0x0800, to: str = forging.ROUTER
) -> list[bytes]:
    mac = pod.mac
    return [forging.ethernet(to, mac, kind, payload) for payload in payloads]


def test_arp_requests(bed: Bed, pods: dict[str, Pod], figures: Figures) -> None:
    """ARP requests for addresses that nobody has."""
    bad = pods["bad"]
    mac = bad.mac
    asked = (
        forging.arp(1, (mac, bad.address), ("00:00:00:00:00:00", f"10.20.{n // 250}.{n % 250 + 1}"))
        for n in range(2000)
    )
    frames = frames_of(bad, asked, kind=0x0806, to=forging.BROADCAST)
    assert suffered(bed, pods, frames, figures) <= PINGS_LOST


def test_questions_to_the_name_service(bed: Bed, pods: dict[str, Pod], figures: Figures) -> None:
    """DNS questions, all different; a bystander asks meanwhile."""
    bad, near = pods["bad"], pods["near"]

    def question(number: int) -> bytes:
        name = b"".join(
            struct.pack("B", len(label)) + label
            for label in (f"n{number}".encode(), b"example", b"org")
        )
        return struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + name + b"\0\0\1\0\1"

    asked = (
        forging.ipv4(bad.address, "10.20.0.1", 17, forging.udp(1024 + n, 53, question(n)))
        for n in range(2000)
    )
    frames = frames_of(bad, asked)
    used = processor(bed.agents[0])
    answers = []
    with flooding(bad, frames) as sent:
        for _ in range(20):
            began = time.monotonic()
            command = ["dig", "+time=2", "+tries=1", "+short", "@10.20.0.1", "far"]
            said = near.namespace.run(command, check=False).stdout
            answers.append((pods["far"].address in said, time.monotonic() - began))
    spent = processor(bed.agents[0]) - used
    right = sum(ok for ok, _ in answers)
    figures(
        f"{sent[0] / SECONDS:.0f} questions/s; bystander got {right} of {len(answers)} answers, "
        f"slowest {max(took for _, took in answers):.2f} s; "
        f"agent {spent / SECONDS * 100:.0f} % of a processor"
    )
    assert unforeseen(bed) == []


def test_new_connections(bed: Bed, pods: dict[str, Pod], figures: Figures) -> None:
    """UDP from all ports to all ports: each frame a connection for the switch to track."""
    bad, far = pods["bad"], pods["far"]
    sent = (
        forging.ipv4(bad.address, far.address, 17, forging.udp(n % 60000 + 1024, n, b"x"))
        for n in range(1, 60000)
    )
    frames = frames_of(bad, sent)
    assert suffered(bed, pods, frames, figures) <= PINGS_LOST


def test_large_frames(bed: Bed, pods: dict[str, Pod], figures: Figures) -> None:
    """Full-size UDP to a pod of another host: the line between hosts is filled."""
    bad, far = pods["bad"], pods["far"]
    body = forging.udp(4000, 4000, b"x" * 1300)
    frames = frames_of(bad, [forging.ipv4(bad.address, far.address, 17, body)])
    assert suffered(bed, pods, frames, figures) <= PINGS_LOST


def test_spoofed_frames(bed: Bed, pods: dict[str, Pod], figures: Figures) -> None:
    """Frames of all kinds in the names of others."""
    party = {
        name: forging.Party(mac=pod.mac, ip=pod.address, ip6="fe80::2")
        for name, pod in pods.items()
    }
    hosts = tuple(forging.Party(mac=forging.BROADCAST, ip=host.address) for host in bed.hosts)
    forgery = forging.Forgery(
        forger=party["bad"], pods=(party["near"], party["far"]), hosts=hosts, vnis=(1, 2, 3)
    )
    frames = [
        frame for kind in ("vxlan", "arp", "rpc") for frame in forging.frames(kind, 500, forgery, 1)
    ]
    assert suffered(bed, pods, frames, figures) <= PINGS_LOST


def test_tracked_connections_used_up(bed: Bed, pods: dict[str, Pod], figures: Figures) -> None:
    """All connections that the switch may track, by way of a service: others open new ones."""
    here = bed.hosts[0]
    bad, near, far = pods["bad"], pods["near"], pods["far"]

    def ask(*words: str) -> str:
        command = ["ovs-appctl", "-t", "ovs-vswitchd", *words]
        done = here.namespace.run(command, env=here.ovs.environment, check=False)
        return (done.stdout + done.stderr).strip()

    address = create_service(bed, "default-net", "7:7:UDP", name="far", address="10.20.9.9")
    label(bed, far, app="far")
    before = ask("dpctl/ct-get-maxconns")
    ask("dpctl/ct-set-maxconns", str(CONNECTIONS))
    try:
        many = (
            forging.ipv4(bad.address, address, 17, forging.udp(n % 60000 + 1024, 7, b"x"))
            for n in range(10 * CONNECTIONS)
        )
        opened, tries = 0, 40
        frames = frames_of(bad, many)
        door = far.namespace.call(lambda: socket.create_server(("", 8000)))
        with door, flooding(bad, frames) as sent:
            for _ in range(tries):
                opened += _connects(near, far.address, 8000)
            tracked = ask("dpctl/ct-get-nconns")
        figures(
            f"{sent[0]} datagrams, {tracked} of {CONNECTIONS} connections tracked; a bystander "
            f"opened {opened} of {tries}"
        )
    finally:
        ask("dpctl/ct-set-maxconns", before)
        ask("dpctl/flush-conntrack")
        bed.netctl("service", "rm", "far")
    assert opened >= tries * 9 // 10


def _connects(pod: Pod, address: str, port: int) -> bool:
    def connect() -> bool:
        with socket.socket() as sock:
            sock.settimeout(0.5)
            return sock.connect_ex((address, port)) == 0

    return pod.namespace.call(connect)


def test_connections_of_hosts_used_up(bed: Bed, pods: dict[str, Pod], figures: Figures) -> None:
    """Connections to the outside, which the host's kernel tracks: what one pod makes it hold."""
    bad = pods["bad"]
    here, there = bed.hosts
    here.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
    limit = int(Path("/proc/sys/net/netfilter/nf_conntrack_max").read_text())
    outward = (
        forging.ipv4(bad.address, there.address, 17, forging.udp(n % 60000 + 1024, 9, b"x"))
        for n in range(60000)
    )
    with flooding(bad, frames_of(bad, outward)) as sent:
        pass
    count = here.namespace.run(["cat", "/proc/sys/net/netfilter/nf_conntrack_count"])
    held = int(count.stdout)
    figures(f"{sent[0]} datagrams; {held} of {limit} entries of the host are used by one pod")
    assert held < limit
