"""The datapath follows the flows, also where Open vSwitch writes a change to the wrong megaflow.

Two megaflows overlap: a narrow one, made while a rule with a port was in force, and a wide one,
made after it. The next change of rules is written to the wide one twice, and the exact match cache
keeps sending packets to the narrow one, which still forwards.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.bed.cluster import Bed
from tests.bed.pods import Pod
from tests.bed.waiting import eventually, repeating
from tests.system.planes import applied

pytestmark = [pytest.mark.system]

KEPT, NARROW, WIDE = 5000, 7001, 7100
"""Ports: of packets to another pod, of the narrow megaflow, of the wide one."""
RULED = 7000
"""A port whose rule makes the megaflow of `NARROW` match all bits of the port."""
PACE = 0.01


@pytest.fixture(scope="module")
def hosts() -> int:
    """One host is enough."""
    return 1


@contextmanager
def sending(source: Pod, *to: tuple[str, int]) -> Iterator[None]:
    """Send datagrams to each address and port all the while."""
    with source.namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as end:

        def send() -> None:
            for where in to:
                end.sendto(b"x", where)

        with repeating(send, PACE):
            yield


@contextmanager
def hearing(pod: Pod, port: int) -> Iterator[socket.socket]:
    def make() -> socket.socket:
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.bind((pod.address, port))
        end.settimeout(1.0)
        return end

    with pod.namespace.call(make) as end:
        yield end


def hears(end: socket.socket) -> bool:
    """Return whether a datagram arrives from now on within a second."""
    end.setblocking(False)
    try:
        while end.recv(16):
            pass
    except BlockingIOError:
        end.settimeout(1.0)
    try:
        return bool(end.recv(16))
    except TimeoutError:
        return False


def test_a_denied_lane_closes_though_megaflows_overlap(bed: Bed) -> None:
    """The finding of docs/notes/trust.md §5."""
    (host,) = bed.hosts
    # every packet of a megaflow is entered into the exact match cache, not one of a hundred
    host.ovs.vsctl("set", "open", ".", "other_config:emc-insert-inv-prob=1")
    bed.netctl("policy", "create", "guard")
    bed.netctl("group", "create", "-p", "guard", "default-net", "web")
    source, other = (bed.add_pod(host, name) for name in ("source", "other"))
    target = bed.add_pod(host, "target", group="web")
    rule(bed, "1", "--action=allow", "--priority=1")
    with ExitStack() as stack:
        narrow = stack.enter_context(hearing(target, NARROW))
        wide = stack.enter_context(hearing(target, WIDE))
        # of the same mask as the wide megaflow: the wide one is found before the narrow one then
        stack.enter_context(sending(source, (other.address, KEPT)))
        rule(bed, "2", "--action=deny", f"--port={RULED}", "--priority=10")
        stack.enter_context(sending(source, (target.address, NARROW)))
        eventually(lambda: hears(narrow), "the first lane is open")
        bed.netctl("policy", "rule-rm", "guard", "2")
        applied(bed)
        stack.enter_context(sending(source, (target.address, WIDE)))
        eventually(lambda: hears(wide), "the second lane is open")
        assert hears(narrow)
        rule(bed, "3", "--action=deny", "--priority=5")
        eventually(lambda: not hears(wide), "the second lane closes")
        eventually(lambda: not hears(narrow), "the first lane closes")
        bed.netctl("policy", "rule-rm", "guard", "3")
        applied(bed)
        assert hears(narrow)
        assert hears(wide)


def rule(bed: Bed, number: str, *words: str) -> None:
    """Add a rule for UDP into the group; return when it is in force."""
    bed.netctl("policy", "rule-add", "-d", "in", "--protocol=udp", *words, "guard", number)
    applied(bed)
