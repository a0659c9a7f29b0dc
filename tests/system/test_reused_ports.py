"""A host that uses a port of its own again and again, to a pod of another host.

What it sends there is given the address that it has already, which ends some releases of Open
vSwitch (`ofnet.datapath`). Pods do the same in `tests/integration/ofnet/test_services.py`.
"""

import socket
import struct

import pytest

from tests.bed.cluster import Bed
from tests.bed.connections import wait_without
from tests.bed.netns import Namespace
from tests.bed.waiting import eventually
from tests.system.echoes import answering, reaches

pytestmark = [pytest.mark.system, pytest.mark.ovs]

AGAIN = 50
OWN_PORT = 20000
"""Below those that Linux gives: an ended connection keeps one of these for a minute."""
PATIENCE = 10.0


def connects(namespace: Namespace, source: str, target: str) -> None:
    """Connect from a port, and end the connection by a reset: the port is free at once."""
    with namespace.call(lambda: socket.socket(type=socket.SOCK_STREAM)) as end:
        end.settimeout(PATIENCE)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.bind((source, OWN_PORT))
        end.connect((target, 80))
        assert end.recv(1) == b"", "the pod has closed it"


def test_the_switches_of_both_hosts_go_on(bed: Bed) -> None:
    first, second = bed.hosts
    pod = bed.add_pod(second, "served")
    try:
        eventually(lambda: reaches(first.namespace, pod.address), "the host reaches the pod")
        with answering(pod.namespace, pod.address, 80):
            for _ in range(AGAIN):
                connects(first.namespace, first.address, pod.address)
                wait_without(pod.namespace, 80)
        for host in bed.hosts:
            # answers nothing if it has ended
            assert host.ovs.appctl("version")
    finally:
        bed.delete_pod(pod)
