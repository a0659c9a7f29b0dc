"""Machines of KubeVirt that migrate: of two pods the one is reached that the machine runs in.

The pods stand for those of `virt-launcher`: the machine stops in one when its link goes down, and
runs in the other when a frame of RARP comes from there, which is what qemu sends.
"""

import re
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from netplugin.world.kubernetes.pod_annotations import MACHINE_RUNS, MIGRATION
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.kubernetes import pod as kube_pod
from tests.bed.pods import CniFailed, Pod
from tests.bed.waiting import eventually
from tests.system.joined import joined_site
from tests.system.planes import FWD_MODES, NETWORKS, addresses

pytestmark = [
    pytest.mark.system,
    pytest.mark.ovs,
    pytest.mark.usefixtures("no_pods_left"),
    pytest.mark.thorough,
]

MACHINE = {"vm.kubevirt.io/name": "db"}
TARGET = {**MACHINE, MIGRATION: "5a1f"}
STICKY = {"io.contiv.sticky": "true"}
RUNS = {MACHINE_RUNS: "2026-11-28T12:00:00Z"}
RARP = 0x8035
EACH = 0.05
"""Seconds between two requests while a machine moves."""


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(
    request: pytest.FixtureRequest,
    bed_dirs: Iterator[Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bed]:
    """Run two hosts beside an API server."""
    with joined_site(next(bed_dirs), request.param, tmp_path_factory) as bed:
        yield bed


def source_pod(bed: Bed, network: str = "vxlan") -> Pod:
    return bed.add_pod(
        bed.hosts[0], "db-source", network=network, labels=MACHINE, annotations=STICKY
    )


def target_pod(bed: Bed, network: str = "vxlan", name: str = "db-target") -> Pod:
    return bed.add_pod(bed.hosts[1], name, network=network, labels=TARGET, annotations=STICKY)


def stop(pod: Pod) -> None:
    """Have the machine stop in a pod."""
    pod.namespace.run(["ip", "link", "set", "eth0", "down"])


def announce(pod: Pod) -> None:
    """Have the machine run in a pod: qemu sends a request of RARP (RFC 903)."""
    own = bytes.fromhex(pod.mac.replace(":", ""))
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 3) + own + bytes(4) + own + bytes(4)
    frame = b"\xff" * 6 + own + struct.pack("!H", RARP) + body.ljust(46, b"\0")
    with pod.namespace.call(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)) as door:
        door.bind(("eth0", 0))
        door.send(frame)


def received(pod: Pod) -> int:
    """Return how many requests of ICMP a pod's kernel has got."""
    shown = pod.namespace.run(["cat", "/proc/net/snmp"]).stdout.splitlines()
    names, values = (line.split() for line in shown if line.startswith("Icmp:"))
    return int(dict(zip(names, values, strict=True))["InEchos"])


def answers(client: Pod, there: Pod, elsewhere: Pod) -> bool:
    """Say whether a machine answers a client from one of its pods, and from that alone."""
    before, other = received(there), received(elsewhere)
    answered = client.ping(there.address) is not None
    return answered and received(there) > before and received(elsewhere) == other


@contextmanager
def longest_silence(client: Pod, address: str, log: Path) -> Iterator[Callable[[], float]]:
    """Ping an address meanwhile; give what returns the longest time without an answer, at the end.

    That is in seconds, from answer to answer.
    """
    words = ["ping", "-D", "-n", "-i", f"{EACH}", address]
    pinging = client.namespace.popen(words, log=log)

    def longest() -> float:
        at = [
            float(one)
            for one in re.findall(r"^\[([\d.]+)\] 64 bytes", log.read_text(), re.MULTILINE)
        ]
        return max(later - one for one, later in pairwise(at))

    try:
        eventually(lambda: log.exists() and "64 bytes" in log.read_text(), "the machine answers")
        yield longest
    finally:
        pinging.terminate()
        pinging.wait()


@pytest.mark.parametrize("network", list(NETWORKS))
def test_a_machine_that_announces_itself_is_reached_there(
    bed: Bed, network: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    source = source_pod(bed, network)
    clients = [bed.add_pod(host, f"client-{host.label}", network=network) for host in bed.hosts]
    target = target_pod(bed, network)
    assert addresses(target) == addresses(source)
    assert target.mac == source.mac
    for client in clients:
        eventually(lambda c=client: answers(c, source, target), "it runs in its source pod")  # type: ignore[misc]
        for address in addresses(source)[1:]:
            eventually(lambda c=client, a=address: c.ping(a) is not None, "and by IPv6")  # type: ignore[misc]
    silences = []
    for number, client in enumerate(clients):
        with longest_silence(client, source.address, tmp_path / f"{number}") as longest:
            if not number:
                stop(source)
                announce(target)
            eventually(lambda c=client: answers(c, target, source), "it runs in its target pod")  # type: ignore[misc]
            time.sleep(1)
        silences.append(longest())
    record_property("silence", f"{network}, {bed.fwd_mode}: {silences[0]:.3f} s")
    for address in addresses(source)[1:]:
        for client in clients:
            eventually(lambda c=client, a=address: c.ping(a) is not None, "by IPv6 there")  # type: ignore[misc]
    bed.delete_pod(source)
    for client in clients:
        assert client.loses_nothing_to(target.address, count=5)
    check_addresses(bed)


def check_addresses(bed: Bed) -> None:
    eventually(
        lambda: bed.netctl("ipam", "check", check=False) == "", "all addresses have their holders"
    )


def test_kubevirt_says_that_the_machine_runs(bed: Bed) -> None:
    source, target = source_pod(bed), target_pod(bed)
    client = bed.add_pod(bed.hosts[1], "client", network="vxlan")
    eventually(lambda: answers(client, source, target), "it runs in its source pod")
    annotate(bed, target, {**STICKY, **RUNS})
    eventually(lambda: answers(client, target, source), "it runs in its target pod")


def annotate(bed: Bed, pod: Pod, annotations: Mapping[str, str]) -> None:
    assert bed.api is not None
    described = kube_pod(pod.host.label, pod.sandbox.uid, TARGET, annotations)
    bed.api.put("pods", pod.sandbox.kube_namespace, pod.name, **described)


def test_the_source_pod_is_gone_before_anybody_says_anything(bed: Bed) -> None:
    source, target = source_pod(bed), target_pod(bed)
    client = bed.add_pod(bed.hosts[0], "client", network="vxlan")
    bed.delete_pod(source)
    eventually(lambda: client.ping(target.address) is not None, "it runs in its target pod")
    assert received(target)


def test_a_migration_that_is_given_up_leaves_the_machine_alone(bed: Bed) -> None:
    source, target = source_pod(bed), target_pod(bed)
    client = bed.add_pod(bed.hosts[1], "client", network="vxlan")
    eventually(lambda: answers(client, source, target), "it runs in its source pod")
    bed.delete_pod(target)
    assert client.loses_nothing_to(source.address, count=5)
    again = target_pod(bed, name="db-again")
    assert addresses(again) == addresses(source)
    check_addresses(bed)


def test_a_second_pod_of_a_machine_that_does_not_migrate_is_refused(bed: Bed) -> None:
    source = source_pod(bed)
    with pytest.raises(CniFailed) as caught:
        bed.add_pod(bed.hosts[1], "db-second", network="vxlan", labels=MACHINE, annotations=STICKY)
    assert f"{source.address} is kept for default/db@vm" in str(caught.value.answer["details"])


def test_daemons_that_end_while_a_machine_migrates(bed: Bed) -> None:
    source, target = source_pod(bed), target_pod(bed)
    client = bed.add_pod(bed.hosts[0], "client", network="vxlan")
    bed.agents[1].kill()
    bed.agents[1].start()
    eventually(lambda: answers(client, source, target), "it runs in its source pod")
    bed.netmaster.kill()
    stop(source)
    announce(target)
    bed.netmaster.start()
    eventually(lambda: answers(client, target, source), "it runs in its target pod")
    bed.agents[0].kill()
    bed.agents[0].start()
    eventually(lambda: answers(client, target, source), "and still does")
    bed.delete_pod(source)
    assert client.loses_nothing_to(target.address, count=5)
    check_addresses(bed)


def test_a_machine_migrates_back_and_forth(bed: Bed) -> None:
    here = source_pod(bed)
    client = bed.add_pod(bed.hosts[0], "client", network="vxlan")
    was = here.address
    for number in range(4):
        host: Host = bed.hosts[(number + 1) % 2]
        there = bed.add_pod(
            host, f"db-{number}", network="vxlan", labels=TARGET, annotations=STICKY
        )
        assert there.address == was
        stop(here)
        announce(there)
        eventually(lambda t=there, h=here: answers(client, t, h), "it runs there")  # type: ignore[misc]
        bed.delete_pod(here)
        here = there
    check_addresses(bed)
