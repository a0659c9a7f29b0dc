"""Reverse path filtering that an administrator sets to strict on all links of a host.

Packets of pods come in and go out by one link each, in both directions, so that none is dropped.
"""

import json
from collections.abc import Iterator

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import FABRIC_ADDRESS
from tests.bed.waiting import eventually
from tests.system.echoes import answering, dials

pytestmark = [pytest.mark.system]

HOST_PORT, PORT = 8080, 80
FILES = "/proc/sys/net/ipv4/conf/*/rp_filter"
STRICT = f"for file in {FILES}; do echo 1 >$file; done"


@pytest.fixture
def strict(bed: Bed) -> Iterator[None]:
    """Set it on both hosts, after pods are there: on their links too."""
    pods = [bed.add_pod(host, f"early-{host.label}") for host in bed.hosts]
    for host in bed.hosts:
        host.namespace.run(["ip", "route", "replace", "default", "via", FABRIC_ADDRESS])
        host.namespace.run(["sh", "-ec", STRICT])
        shown = host.namespace.run(["sh", "-c", f"sort -u {FILES}"]).stdout.split()
        assert shown == ["1"]
    yield
    for pod in pods:
        bed.delete_pod(pod)


@pytest.mark.usefixtures("strict")
def test_all_ways_are_open_where_reverse_paths_are_strict(bed: Bed) -> None:
    one, two = bed.hosts
    mapping = {"hostPort": HOST_PORT, "containerPort": PORT, "protocol": "tcp"}
    near, far = bed.add_pod(one, "near", host_ports=[mapping]), bed.add_pod(two, "far")
    eventually(lambda: near.ping(far.address) is not None, "pods of two hosts")
    eventually(lambda: near.ping(FABRIC_ADDRESS) is not None, "a pod and the outside")
    with answering(near.namespace, "0.0.0.0", PORT):
        for what, caller, address, port in (
            ("the outside, a host port", bed.fabric.namespace, one.address, HOST_PORT),
            ("a pod elsewhere, a host port", far.namespace, one.address, HOST_PORT),
            ("the host, its own host port", one.namespace, one.address, HOST_PORT),
            ("the host, its pod", one.namespace, near.address, PORT),
            ("another host, the pod", two.namespace, near.address, PORT),
        ):
            assert dials(caller, address, port), what
    for host in bed.hosts:
        assert json.loads(bed.netctl("host", "inspect", host.label))["errors"] == []
    bed.delete_pod(near)
    bed.delete_pod(far)
