"""The datapath follows the flows, also where Open vSwitch writes a change to the wrong megaflow.

Two megaflows overlap: a narrow one, made while a rule with a port was in force, and a wide one,
made after it. The next change of rules is written to the wide one twice, and the exact match cache
keeps sending packets to the narrow one, which still forwards. So it is with what an audit corrects.
"""

import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from netplugin.bridges.megaflow_purge import is_affected
from ofnet.world import Bridge
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.pods import Pod
from tests.bed.waiting import eventually, repeating
from tests.system.planes import applied

pytestmark = [pytest.mark.system]

KEPT, NARROW, WIDE = 5000, 7001, 7100
"""Ports: of packets to another pod, of the narrow megaflow, of the wide one."""
RULED = 7000
"""A port whose rule makes the megaflow of `NARROW` match all bits of the port."""
PACE = 0.01
AUDIT = 5
MANY = 300
"""Packets of some seconds, more than of the moment after a purge."""


@pytest.fixture(scope="module")
def hosts() -> int:
    """One host is enough."""
    return 1


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    return {"netplugin": ["--audit-interval", str(AUDIT)]}


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


def test_megaflows_are_made_anew_after_an_audit_that_corrected_something(bed: Bed) -> None:
    """Else one that was made while somebody had changed the flows may outlast the correction."""
    (host,) = bed.hosts
    if not is_affected(host.ovs.appctl("version")):
        pytest.skip("this Open vSwitch writes each change to its megaflow")
    source, target = (bed.add_pod(host, name) for name in ("asks", "asked"))
    with sending(source, (target.address, KEPT)):
        eventually(lambda: _packets(host, target) > MANY, "a megaflow has forwarded many packets")
        host.ovs.ofctl("add-flow", Bridge.VXLAN, "table=0,priority=65000,udp,tp_dst=9,actions=drop")
        eventually(lambda: _packets(host, target) < MANY, "it is made anew")


def _packets(host: Host, target: Pod) -> int:
    """Return how many packets the megaflows to a pod have forwarded since they were made."""
    shown = host.ovs.appctl("dpctl/dump-flows").splitlines()
    found = [re.search(r"packets:(\d+)", line) for line in shown if target.mac in line]
    return max((int(one[1]) for one in found if one), default=0)


def rule(bed: Bed, number: str, *words: str) -> None:
    """Add a rule for UDP into the group; return when it is in force."""
    bed.netctl("policy", "rule-add", "-d", "in", "--protocol=udp", *words, "guard", number)
    applied(bed)
