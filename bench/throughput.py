"""Packets between two pods on different hosts, beside two namespaces on a plain Open vSwitch VXLAN.

Both pairs live on the same two simulated hosts, on the same userspace Open vSwitch and underlay:
ours behind all our tables, the other behind one flow that switches like a bridge. They take turns,
one at a time. Round trips are ping's, throughput is iperf3's over TCP. All packets of both are
handled by the processor that also makes them, so the figures say what we add and not what a host
can do.
"""

import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.table import Row, show
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.netns import Namespace, fresh_name, tx_checksum_off
from tests.bed.traffic import round_trip, throughput
from tests.bed.waiting import eventually

ROUNDS = 5
PINGS = 500
SECONDS = 3
MTU = 1450
NETWORK = ("--subnet=10.20.0.0/16", "--gateway=10.20.0.1", "default-net")


@dataclass(frozen=True, slots=True)
class Pair:
    """Who sends, and to whom."""

    sender: Namespace
    receiver: Namespace
    address: str


def rows() -> Iterable[Row]:
    """Measure on two simulated hosts."""
    with tempfile.TemporaryDirectory(prefix="ct-bench-", dir="/run") as directory:
        bed = Bed(Path(directory), hosts=2).start()
        try:
            bed.netctl("net", "create", *NETWORK)
            with _plain(bed.hosts) as plain:
                yield from _table({"ours": _ours(bed), "theirs": plain})
        finally:
            bed.stop()


def _ours(bed: Bed) -> Pair:
    one, two = (bed.add_pod(host, f"speed-{host.label}") for host in bed.hosts)
    return Pair(one.namespace, two.namespace, two.address)


@contextmanager
def _plain(hosts: list[Host]) -> Iterator[Pair]:
    """Make two namespaces, each on a bridge of its own with a tunnel to the other's."""
    one, two = hosts
    ends = [Namespace(fresh_name("plain")).create() for _ in hosts]
    try:
        for number, (host, end, other) in enumerate(
            zip(hosts, ends, (two, one), strict=True), start=1
        ):
            _plug(host, end, other, f"10.99.0.{number}/24")
        yield Pair(ends[0], ends[1], "10.99.0.2")
    finally:
        for end in ends:
            end.delete()


def _plug(host: Host, end: Namespace, other: Host, address: str) -> None:
    veth = ("link", "add", "plain0", "mtu", str(MTU), "type", "veth")
    host.namespace.run(["ip", *veth, "peer", "name", "eth0", "mtu", str(MTU), "netns", end.name])
    host.namespace.run(["ip", "link", "set", "plain0", "up"])
    end.run(["ip", "address", "add", address, "dev", "eth0"])
    end.run(["ip", "link", "set", "eth0", "up"])
    tx_checksum_off(end, "eth0")
    host.ovs.vsctl(
        *("add-br", "plain", "--", "set", "bridge", "plain", "datapath_type=netdev"),
        *("--", "add-port", "plain", "plain0", "--", "add-port", "plain", "plainvx"),
        *("--", "set", "interface", "plainvx", "type=vxlan", "options:key=99"),
        *(f"options:remote_ip={other.address}", "options:dst_port=4799"),
    )


def _table(pairs: Mapping[str, Pair]) -> Iterator[Row]:
    for pair in pairs.values():
        eventually(partial(_pings, pair), "the pair reaches each other")
    trips = _in_turns(pairs, lambda pair: _pings(pair) or float("inf"))
    yield Row(
        what="round trip, pod to pod on another host",
        ours=trips["ours"],
        unit="ms",
        reference=trips["theirs"],
        ratio=trips["theirs"] / trips["ours"],
        note=f"median of {ROUNDS} means of {PINGS}; reference: plain Open vSwitch VXLAN",
    )
    speeds = _in_turns(pairs, _speed)
    yield Row(
        what="TCP throughput, pod to pod on another host",
        ours=speeds["ours"],
        unit="Mbit/s",
        reference=speeds["theirs"],
        ratio=speeds["ours"] / speeds["theirs"],
        note=f"median of {ROUNDS} times {SECONDS} s; reference: plain Open vSwitch VXLAN",
    )


def _in_turns(pairs: Mapping[str, Pair], measure: Callable[[Pair], float]) -> dict[str, float]:
    found = [{who: measure(pair) for who, pair in pairs.items()} for _ in range(ROUNDS)]
    return {who: statistics.median(one[who] for one in found) for who in pairs}


def _pings(pair: Pair) -> float | None:
    return round_trip(pair.sender, pair.address, count=PINGS, interval=0.002)


def _speed(pair: Pair) -> float:
    return throughput(pair.sender, pair.receiver, pair.address, seconds=SECONDS)


if __name__ == "__main__":
    show(rows())
