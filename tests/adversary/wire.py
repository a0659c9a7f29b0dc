"""Peers that lie: a BGP router, a switch, a docker engine and a container runtime.

Each sends what is nearly right, at random, and what is meant to use the agent up. The agent lives,
blames the peer, and works with the right one afterwards.
"""

import json
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from ofnet.bgp import messages as bgp
from tests.bed.bgp_router import ADDRESS
from tests.bed.cluster import Bed
from tests.bed.hosts import UPLINK
from tests.bed.pods import CniFailed
from tests.bed.waiting import eventually
from tests.system.conftest import unforeseen
from tests.system.footprint import BRIDGES
from tests.system.peers import ROUTER_AS, all_at_peace, peer, peers
from tests.system.planes import applied

pytestmark = [pytest.mark.system, pytest.mark.ovs]

Figures = Callable[[str], None]

SECONDS = 20.0
SEED = 20261125
BGP_PORT = 179
TRY_AGAIN_LATER = 11


@pytest.fixture(scope="module")
def hosts() -> int:
    return 2


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    return {}


def mutated(dice: random.Random, sample: bytes) -> bytes:
    """Return a sample with some bytes changed, cut, doubled or put in."""
    data = bytearray(sample)
    for _ in range(dice.choice([1, 1, 2, 5])):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(5):
            case 0 if data:
                data[at % len(data)] = dice.randrange(256)
            case 1:
                del data[at : at + dice.randrange(1, 9)]
            case 2:
                data[at:at] = dice.randbytes(dice.randrange(1, 9))
            case 3:
                data[at:at] = data[at : at + 20]
            case _:
                data[at:at] = dice.choice([b"\xff" * 4, b"\0" * 4, b"\x7f\xff\xff\xff"])
    return bytes(data)


# -- BGP ---------------------------------------------------------------------------------------


def bgp_message(kind: int, body: bytes) -> bytes:
    return bgp.MARKER + struct.pack(">HB", bgp.HEADER + len(body), kind) + body


def opening(hold: int = 90, asn: int = ROUTER_AS) -> bytes:
    capability = bytes([bgp.CAPABILITIES, 6, bgp.MULTIPROTOCOL, 4, 0, 1, 0, 1])
    head = struct.pack(">BHH4sB", 4, asn, hold, socket.inet_aton(ADDRESS), len(capability))
    return bgp_message(bgp.OPEN, head + capability)


def update(prefixes: Sequence[IPv4Network]) -> bytes:
    attributes = (
        bytes([0x40, bgp.ORIGIN, 1, 0])
        + bytes([0x40, bgp.AS_PATH, 6, 2, 1])
        + struct.pack(">I", ROUTER_AS)
        + bytes([0x40, bgp.NEXT_HOP, 4])
        + socket.inet_aton(ADDRESS)
    )
    told = b"".join(bytes([24]) + one.network_address.packed[:3] for one in prefixes)
    return bgp_message(bgp.UPDATE, struct.pack(">HH", 0, len(attributes)) + attributes + told)


class Liar:
    """A BGP speaker at the router's address that says something else at each connection."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._dice = random.Random(SEED)
        self.sessions = 0
        self.said = 0

    def run(self, until: float) -> None:
        self._door.settimeout(0.5)
        while time.monotonic() < until:
            with suppress(OSError):
                peer_of, _ = self._door.accept()
                with peer_of:
                    self.sessions += 1
                    peer_of.settimeout(2)
                    self._lie(peer_of)

    def _lie(self, sock: socket.socket) -> None:
        right = [opening(), bgp.keepalive(), update(networks(3)), bgp.notification(6, 2)]
        match self._dice.randrange(6):
            case 0:  # half a message, and silence
                sock.sendall(opening()[: self._dice.randrange(30)])
                time.sleep(0.3)
                return
            case 1:  # nothing that is BGP
                said = [self._dice.randbytes(self._dice.choice([1, 19, 5000, 100_000]))]
            case 2:  # more prefixes than any table takes
                many = networks(30_000)
                said = [opening(), bgp.keepalive()]
                said += [update(many[at : at + 900]) for at in range(0, len(many), 900)]
            case 3:  # updates before anything else
                said = [update(networks(5))] * 3
            case _:
                said = [right[0], right[1]] + [
                    mutated(self._dice, self._dice.choice(right)) for _ in range(10)
                ]
        for message in said:
            sock.sendall(message)
            self.said += 1
        with suppress(OSError):
            while sock.recv(4096):
                pass


def networks(count: int) -> list[IPv4Network]:
    base = 11 << 24
    return [IPv4Network((base + (number << 8), 24)) for number in range(count)]


def test_a_bgp_router_that_lies(bed_dirs: Iterator[Path], figures: Figures) -> None:
    """A BGP peer sends malformed, early, endless and far too many messages."""
    with peers(next(bed_dirs), (UPLINK,)) as site:
        for host in site.bed.hosts:
            peer(site, host)
        all_at_peace(site)
        pids = [agent.pid for agent in site.bed.agents]
        site.router.daemon.kill()
        door = site.router.namespace.call(
            lambda: socket.create_server((ADDRESS, BGP_PORT), backlog=16)
        )
        with door:
            liar = Liar(door)
            liar.run(time.monotonic() + SECONDS)
        site.router.daemon.start()
        since = time.monotonic()
        all_at_peace(site)
        assert [agent.pid for agent in site.bed.agents] == pids
        figures(
            f"{liar.sessions} sessions, {liar.said} messages; the right router again after "
            f"{time.monotonic() - since:.1f} s"
        )
        assert liar.sessions > 5


# -- OpenFlow ----------------------------------------------------------------------------------


def test_a_switch_that_lies(bed: Bed, figures: Figures) -> None:
    """Who has the switch's user connects as a switch: garbage, foreign and stolen datapath ids."""
    host, agent = bed.hosts[0], bed.agents[0]
    dice = random.Random(SEED)
    pid = agent.pid
    one, two = (bed.add_pod(each, f"of-{each.label}") for each in bed.hosts)
    eventually(lambda: one.ping(two.address), "pods reach each other")
    stolen = int(host.ovs.vsctl("get", "bridge", BRIDGES[0], "datapath_id").strip().strip('"'), 16)
    hello = struct.pack(">BBHI", 4, 0, 8, 1)
    features = [
        struct.pack(">BBHIQIBBHII", 4, 6, 32, 2, datapath, 0, 254, 0, 0, 0x4F, 0)
        for datapath in (stolen, 0xBAD)
    ]
    packet_in = struct.pack(">BBHIIHBBQ", 4, 10, 60, 3, 0xFFFFFFFF, 14, 0, 9, 0) + bytes(36)
    connections = sent = 0
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        path = host.ovs.rundir / f"{dice.choice(BRIDGES)}.openflow"
        with socket.socket(socket.AF_UNIX) as sock, suppress(OSError):
            sock.settimeout(1)
            sock.connect(str(path))
            connections += 1
            said = [hello, dice.choice(features), *([packet_in] * dice.randrange(50))]
            if dice.randrange(3) == 0:
                said = [mutated(dice, message) for message in said]
            for message in said:
                sock.sendall(message)
                sent += 1
            sock.recv(4096)
    assert agent.pid == pid
    since = time.monotonic()
    applied(bed)
    eventually(lambda: added(bed, "of-three"), "a pod is added", within=60)
    three = bed.pods[-1]
    eventually(lambda: three.ping(two.address), "a pod that came after reaches others")
    assert one.ping(two.address)
    assert unforeseen(bed) == []
    figures(
        f"{connections} connections, {sent} messages; a new pod works after "
        f"{time.monotonic() - since:.1f} s"
    )
    for pod in (one, two, three):
        bed.delete_pod(pod)


def added(bed: Bed, name: str) -> bool:
    """Add a pod, as kubelet does, which tries again where it is told to."""
    try:
        bed.add_pod(bed.hosts[0], name)
    except CniFailed as exc:
        if exc.answer.get("code") != TRY_AGAIN_LATER:
            raise
        return False
    return True


# -- JSON --------------------------------------------------------------------------------------


def bodies(dice: random.Random, samples: Sequence[Mapping[str, object]]) -> Iterator[bytes]:
    """Yield bodies that are nearly right, deep, huge, odd."""
    yield b"[" * 100_000
    yield b'{"a":' * 50_000
    yield b'"' + b"x" * 1_000_000
    yield b'{"a": 1e999, "b": -1e999, "c": NaN}'
    yield b'{"a": ' + b"9" * 5_000 + b"}"
    yield b'{"a": "\\ud800"}'
    yield b"\xff\xfe{}"
    yield b""
    while True:
        yield mutated(dice, json.dumps(dice.choice(samples)).encode())


def posted(path: Path, route: str, body: bytes) -> int:
    """Send a body to a unix socket; return the status, 0 if the connection was closed."""
    with socket.socket(socket.AF_UNIX) as sock, suppress(OSError):
        sock.settimeout(10)
        sock.connect(str(path))
        head = f"POST {route} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)
        answer = sock.recv(4096)
        return int(answer.split()[1]) if answer.startswith(b"HTTP/") else 0
    return 0


@contextmanager
def counted(figures: Figures, what: str) -> Iterator[dict[int, int]]:
    statuses: dict[int, int] = {}
    yield statuses
    told = ", ".join(f"{status or 'closed'}: {number}" for status, number in statuses.items())
    figures(f"{sum(statuses.values())} {what} ({told})")


def test_a_docker_engine_that_lies(bed_dirs: Iterator[Path], figures: Figures) -> None:
    """The docker plugin gets JSON of all shapes on all its calls."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Bed(directory, 1, engines=()).start()
    try:
        bed.netctl("net", "create", "--subnet=10.1.0.0/24", "--gateway=10.1.0.254", "net1")
        pid = bed.agents[0].pid
        samples: list[dict[str, object]] = [
            {"NetworkID": "d1", "EndpointID": "e1", "Options": {}},
            {"PoolID": "net1.default|10.1.0.0/24", "Address": "10.1.0.9", "Options": {}},
            {"AddressSpace": "x", "Pool": "10.1.0.0/24", "SubPool": "", "Options": {}, "V6": False},
        ]
        calls = [
            *(f"/NetworkDriver.{call}" for call in ("CreateNetwork", "CreateEndpoint", "Join")),
            *(f"/NetworkDriver.{call}" for call in ("Leave", "DeleteEndpoint", "DeleteNetwork")),
            *(f"/IpamDriver.{call}" for call in ("RequestPool", "RequestAddress")),
            *(f"/IpamDriver.{call}" for call in ("ReleaseAddress", "ReleasePool")),
            *("/Plugin.Activate", "/NetworkDriver.GetCapabilities"),
        ]
        dice = random.Random(SEED)
        socket_path = bed.engines[0].plugin_socket
        given = bodies(dice, samples)
        until = time.monotonic() + SECONDS
        with counted(figures, "bodies") as statuses:
            while time.monotonic() < until:
                status = posted(socket_path, dice.choice(calls), next(given))
                statuses[status] = statuses.get(status, 0) + 1
        assert bed.agents[0].pid == pid
        assert unforeseen(bed) == []
        assert 200 in statuses or 400 in statuses or 500 in statuses
    finally:
        bed.stop()


def test_a_runtime_that_lies(bed: Bed, figures: Figures) -> None:
    """The CNI socket gets bodies of all shapes, many at once, and connections that say nothing."""
    host, agent = bed.hosts[0], bed.agents[0]
    pid = agent.pid
    sample = {
        "cniVersion": "1.0.0",
        "name": "contiv-net",
        "type": "contivk8s",
        "runtimeConfig": {"portMappings": [{"hostPort": 80, "containerPort": 80}]},
        "contiv": {"tenant": "default", "network": "default-net"},
    }
    statuses: dict[int, int] = {}
    until = time.monotonic() + SECONDS

    def send(seed: int) -> None:
        given = bodies(random.Random(seed), [sample])
        while time.monotonic() < until:
            status = posted(bed.cni_socket(host), "/", next(given))
            statuses[status] = statuses.get(status, 0) + 1

    idle = []
    with suppress(OSError):
        for _ in range(200):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(str(bed.cni_socket(host)))
            idle.append(sock)
    threads = [threading.Thread(target=send, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sock in idle:
        sock.close()
    assert agent.pid == pid
    bed.delete_pod(bed.add_pod(host, "after"))
    assert unforeseen(bed) == []
    figures(
        f"{sum(statuses.values())} bodies, {len(idle)} silent connections; a pod was added after"
    )
