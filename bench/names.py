"""DNS of a pod: queries a second and their times, ours beside `dnsmasq`'s (Debian's).

The whole system runs. One pod asks for the name of another, with so many queries under way at a
time. It asks the agent, by the switch; and `dnsmasq` in another pod of the same host, for a name
that it knows: its queries pass the same switch, and the agent too, which sends them on. A third
series asks the same `dnsmasq` at another port, which no agent sees: what the switch and the asker
cost alone. The agent runs without `--dns-rate`; Open vSwitch's limit of 2000 packets a second to
the agent, for each bridge, is in force: it is what bounds the first two series.
"""

import select
import socket
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import dns.message

from bench.cni import NETWORK, manage
from bench.table import Row, at
from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.questions import asked

QUERIES = 3000
UNDER_WAY = (1, 16)
OTHER_PORT = 5353
KNOWN = "known.example"
ADDRESS = "192.0.2.9"


def rows() -> Iterable[Row]:
    """Measure on one simulated host."""
    flags = {"netplugin": ["--dns-rate", "0"]}
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=1, flags=flags).start()
        try:
            manage(bed)
            bed.netctl("net", "create", *NETWORK)
            yield from _rows(bed)
        finally:
            bed.stop()


def _rows(bed: Bed) -> Iterable[Row]:
    (host,) = bed.hosts
    asker, server = bed.add_pod(host, "asker"), bed.add_pod(host, "server")
    command = ["dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--user=root"]
    command += ["--pid-file=", "--conf-file=/dev/null", f"--address=/{KNOWN}/{ADDRESS}"]
    daemons = [
        server.namespace.popen([*command, f"--port={port}", "--bind-interfaces"])
        for port in (53, OTHER_PORT)
    ]
    try:
        eventually(lambda: asked(asker, server.address, KNOWN) == {ADDRESS}, "dnsmasq answers")
        eventually(lambda: asked(asker, server.address, "server"), "the agent answers")
        there = ["dig", f"@{server.address}", f"-p{OTHER_PORT}", "+short", "+tries=1", KNOWN]
        eventually(
            lambda: asker.namespace.run(there, check=False).stdout.strip() == ADDRESS,
            "dnsmasq answers at its other port",
        )
        for under_way in UNDER_WAY:
            alone = _ask(asker, (server.address, OTHER_PORT), KNOWN, under_way)
            known = _ask(asker, (server.address, 53), "server", under_way)
            passed = _ask(asker, (server.address, 53), KNOWN, under_way)
            yield from _compared(f"DNS, {under_way} at once, the agent", known, alone)
            yield from _compared(f"DNS, {under_way} at once, past the agent", passed, alone)
    finally:
        for daemon in daemons:
            daemon.terminate()
            daemon.wait()


@dataclass(frozen=True, slots=True)
class _Series:
    """The seconds that a series took, and the sorted milliseconds of its answers."""

    seconds: float
    times: list[float]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.times) / self.seconds


def _compared(what: str, ours: _Series, dnsmasq: _Series) -> Iterable[Row]:
    yield Row(
        what=f"{what}: answers",
        ours=ours.rate,
        unit="/s",
        reference=dnsmasq.rate,
        ratio=ours.rate / dnsmasq.rate,
        note=f"{QUERIES - len(ours.times)} of {QUERIES} lost; reference: dnsmasq, unintercepted",
    )
    for rank in (0.5, 0.99):
        time_of, reference = at(ours.times, rank), at(dnsmasq.times, rank)
        yield Row(
            what=f"{what}: p{rank * 100:.0f}",
            ours=time_of,
            unit="ms",
            reference=reference,
            ratio=reference / time_of,
        )


def _ask(asker: Pod, server: tuple[str, int], name: str, under_way: int) -> _Series:
    """Ask so many times, with so many queries under way."""

    def make() -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    times: list[float] = []
    sent: dict[int, float] = {}
    with asker.namespace.call(make) as end:
        end.connect(server)
        query = bytearray(dns.message.make_query(name, "A").to_wire())
        begun = time.perf_counter()
        for number in range(QUERIES + under_way):
            while len(sent) >= under_way or (number >= QUERIES and sent):
                _hear(end, sent, times)
            if number < QUERIES:
                query[:2] = number.to_bytes(2)
                sent[number] = time.perf_counter()
                end.send(query)
        return _Series(time.perf_counter() - begun, sorted(times))


def _hear(end: socket.socket, sent: dict[int, float], times: list[float]) -> None:
    """Take one answer; a question without one for a second is lost."""
    if not select.select([end], [], [], 1)[0]:
        sent.clear()
        return
    number = int.from_bytes(end.recv(2048)[:2])
    asked_at = sent.pop(number, None)
    if asked_at is not None:
        times.append((time.perf_counter() - asked_at) * 1000)
