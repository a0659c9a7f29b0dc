"""A tunnel that does not pass what it should is an error of both hosts."""

import time
from collections.abc import Iterator
from functools import partial

import pytest

from tests.bed.cluster import Bed
from tests.bed.ovs import DATAPATH
from tests.bed.waiting import eventually
from tests.system.tunnel_probes import both_tell, faults, hears, is_well, lossy, tells

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(DATAPATH != "netdev", reason="no switch of ours is below the tunnels"),
]

SOON = 10.0
"""Seconds in which a loss is told."""
TUNNELS = "priority=100,udp,tp_dst=4789"


@pytest.fixture(autouse=True)
def heard(bed: Bed) -> Iterator[None]:
    """Wait until each host has heard the other; see that no error is left."""
    for one, other in ((0, 1), (1, 0)):
        eventually(partial(hears, bed, one, other), "answers to probes")
    yield
    for number in range(2):
        eventually(partial(is_well, bed, number), "no errors any more")


def test_a_firewall_between_drops_the_tunnels_packets(bed: Bed) -> None:
    switch = bed.hosts[1].ovs
    switch.ofctl("add-flow", "br-phy", f"{TUNNELS},actions=drop")
    try:
        told = partial(both_tell, bed, "let UDP 4789 pass")
        eventually(told, "both hosts name the other")
        selftest = bed.netctl("selftest", check=False)
        assert "let UDP 4789 pass" in selftest
    finally:
        switch.ofctl("del-flows", "br-phy", "udp,tp_dst=4789")


def test_a_tunnel_that_is_cut_one_way_is_told_with_that_way(bed: Bed) -> None:
    switch, address = bed.hosts[1].ovs, bed.hosts[1].address
    switch.ofctl("add-flow", "br-phy", f"{TUNNELS},nw_dst={address},actions=drop")
    try:
        for number, text in (
            (0, "packets of the tunnel arrive from 192.168.77.2, which answers echo requests, but"),
            (1, "no packet of the tunnel arrives from 192.168.77.1"),
        ):
            eventually(partial(tells, bed, number, text), f"host {number + 1} tells the way")
    finally:
        switch.ofctl("del-flows", "br-phy", "udp,tp_dst=4789")


def test_a_tunnel_that_loses_nothing_has_no_fault_while_pods_send_all_they_can(bed: Bed) -> None:
    here, there = (bed.add_pod(host, f"busy-{host.label}") for host in bed.hosts)
    flood = ["ping", "-q", "-f", "-w", str(round(2 * SOON)), there.address]
    sending = here.namespace.popen(flood)
    try:
        while sending.poll() is None:
            assert not any(faults(bed, number) for number in range(2))
            time.sleep(1)
    finally:
        sending.kill()
        sending.wait()
        for pod in (here, there):
            bed.delete_pod(pod)


def test_a_tunnel_that_loses_five_percent_is_told(bed: Bed) -> None:
    with lossy(bed.fabric.namespace, bed.hosts[1].address, 0.05):
        eventually(
            lambda: any(tells(bed, number, "packets were lost") for number in range(2)),
            "one of both hosts names the other",
            within=SOON,
        )
