"""A cluster of two hosts on the kernel's datapath: pods reach each other by both families.

`make kernel-check` runs it in a virtual machine. It is no part of `make test`, whose machine may
have no such datapath.
"""

import re

import pytest

from tests.bed.cluster import Bed
from tests.bed.ovs import DATAPATH
from tests.bed.pods import IFNAME, Pod
from tests.bed.waiting import eventually

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        DATAPATH != "system", reason="for the kernel's datapath (make kernel-check)"
    ),
]

BRIDGES = ("contivVxlanBridge", "contivVlanBridge")
FOUR = ["--subnet=10.30.0.0/24", "--gateway=10.30.0.1"]
SIX = ["--subnetv6=fd00:30::/64", "--gatewayv6=fd00:30::1"]
UNLIKE = re.compile(r"^IPv6 ND Extension: +(\w+)$", re.MULTILINE)


def address6(pod: Pod) -> str:
    """Return the pod's IPv6 address of the network."""
    shown = pod.namespace.run(["ip", "-6", "-o", "address", "show", IFNAME, "scope", "global"])
    return shown.stdout.split()[3].partition("/")[0]


def test_pods_reach_each_other_by_both_families(bed: Bed) -> None:
    for host in bed.hosts:
        for bridge in BRIDGES:
            features = host.ovs.appctl("dpif/show-dp-features", bridge)
            assert UNLIKE.findall(features) == ["No"], "this is the kernel's datapath"
    bed.netctl("net", "create", *FOUR, *SIX, "dual")
    places = zip(bed.hosts * 2, "abcd", strict=True)
    pods = [bed.add_pod(host, name, network="dual") for host, name in places]
    for source in pods:
        for target in pods:
            for address in (target.address, address6(target)):
                eventually(lambda: source.ping(address), f"{source.name} reaches {address}")  # noqa: B023
    assert not [one for one in bed.agents if "flows refused by the switch" in one.log_text()]
