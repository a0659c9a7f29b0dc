"""The modes of a running cluster are changed: its agents replay everything, and packets show it.

Between networks pods meet only where hosts route. Where ARP is flooded a pod hears who asks for it;
where it is proxied the switch answers. `netmaster` refuses another forwarding mode while there are
networks; the ARP mode may change under pods that talk.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.bed.cluster import Bed
from tests.bed.pods import IFNAME, Pod
from tests.bed.waiting import eventually
from tests.system.conftest import unforeseen
from tests.system.planes import FWD_MODES, NETWORKS, addresses, applied, planes
from tests.system.watcher import Lane, unbroken

pytestmark = [pytest.mark.system, pytest.mark.thorough]

ENCAPS = {"vxlan": 1, "vlan": 2}
"""Encapsulation -> the second octet of its addresses."""
PORT = 7000
ARP = 0x0806
REQUEST = b"\x00\x01"


@pytest.fixture
def empty(bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a bridged cluster of two hosts without networks."""
    directory = next(bed_dirs)
    directory.mkdir()
    bed = Bed(directory, fwd_mode="bridge").start()
    try:
        yield bed
        assert unforeseen(bed) == []
    finally:
        bed.stop()


def test_the_forwarding_mode_is_changed_there_and_back(empty: Bed) -> None:
    for mode in ("bridge", "routing", "bridge"):
        empty.netctl("global", "set", f"--fwd-mode={mode}")
        for encap, net in ENCAPS.items():
            with settled(empty, encap, net) as (near, far, beyond):
                eventually(lambda: near.ping(far.address), f"{encap}, {mode}: within a network")
                if mode == "routing":
                    eventually(lambda: near.ping(beyond.address), f"{encap}: between networks")
                else:
                    assert near.ping(beyond.address) is None
                with pytest.raises(RuntimeError, match="Unable to update forwarding mode"):
                    empty.netctl("global", "set", f"--fwd-mode={another(mode)}")


def another(mode: str) -> str:
    """Return the other forwarding mode."""
    return next(one for one in FWD_MODES if one != mode)


@contextmanager
def settled(bed: Bed, encap: str, net: int) -> Iterator[tuple[Pod, Pod, Pod]]:
    """Make two networks for the body; a pod of one on either host, then one of the other."""
    here, there = bed.hosts
    names = [f"{encap}{number}" for number in (1, 2)]
    for number, name in enumerate(names, 1):
        words = [f"--subnet=10.{net}.{number}.0/24", f"--gateway=10.{net}.{number}.254"]
        bed.netctl("net", "create", f"--encap={encap}", *words, name)
    pods = (
        bed.add_pod(here, "near", network=names[0]),
        bed.add_pod(there, "far", network=names[0]),
        bed.add_pod(there, "beyond", network=names[1]),
    )
    applied(bed)
    yield pods
    for pod in pods:
        bed.delete_pod(pod)
    for name in names:
        bed.netctl("net", "rm", name)


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode, with a network of either encapsulation."""
    with planes(next(bed_dirs), request.param) as bed:
        yield bed
        assert unforeseen(bed) == []


@pytest.mark.parametrize("network", list(NETWORKS))
def test_the_arp_mode_is_changed_under_pods_that_talk(bed: Bed, network: str) -> None:
    """Hosts that route answer all questions themselves, whatever the mode."""
    here, there = bed.hosts
    pods = asker, near, far = [
        bed.add_pod(host, name, network=network)
        for host, name in ((here, "asker"), (here, "near"), (there, "far"))
    ]
    passing = [Lane(asker, pod, to, PORT) for pod in (near, far) for to in addresses(pod)]
    with unbroken(passing):
        for mode in ("flood", "proxy", "flood", "proxy"):
            bed.netctl("global", "set", f"--arp-mode={mode}")
            applied(bed)
            for pod in (near, far):
                heard = partial(hears_the_question, pod, asker)
                if (mode, bed.fwd_mode) == ("flood", "bridge"):
                    eventually(heard, f"{pod.name} hears who asks for it")
                else:
                    assert not heard(), f"{mode}: {pod.name} hears who asks for it"
    for pod in pods:
        bed.delete_pod(pod)


def hears_the_question(pod: Pod, asker: Pod) -> bool:
    """Have a pod find another's MAC anew; tell whether its question gets there.

    It may ask nothing, if the other one asks first.
    """
    with pod.namespace.call(_ear) as ear:
        # `flush` looks and deletes until it finds nothing: it may find the entry of a datagram sent
        # meanwhile, whose question is open, and delete the datagram with it.
        asker.namespace.run(["ip", "neigh", "del", pod.address, "dev", IFNAME])
        eventually(lambda: asker.ping(pod.address), f"{asker.name} finds {pod.name}")
        return any(_asks(frame, asker, pod) for frame in _heard(ear))


def _ear() -> socket.socket:
    ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ARP))
    ear.bind((IFNAME, ARP))
    ear.setblocking(False)
    return ear


def _heard(ear: socket.socket) -> Iterator[bytes]:
    with suppress(BlockingIOError):
        while True:
            yield ear.recv(2048)


def _asks(frame: bytes, asker: Pod, pod: Pod) -> bool:
    """Tell whether a frame is one pod's question for the other."""
    ends = (frame[28:32], frame[38:42])
    return frame[20:22] == REQUEST and ends == (
        socket.inet_aton(asker.address),
        socket.inet_aton(pod.address),
    )
