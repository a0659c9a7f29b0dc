"""How often Open vSwitch goes through all of its ports for pods that go.

By its own counter `bridge_reconfigure`. It does so once for each batch of changes of its database,
and apart from that once for each batch of events of links (vswitchd/bridge.c: bridge_run), so a pod
that goes alone costs two at least (docs/performance.md).
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.bed.cluster import NO_AUDITS, Bed
from tests.bed.ovs import DATAPATH
from tests.bed.pods import Pod
from tests.bed.waiting import PATIENCE, eventually

pytestmark = [
    pytest.mark.system,
    pytest.mark.usefixtures("no_pods_left", "line"),
    pytest.mark.skipif(DATAPATH != "netdev", reason="counted in the userspace datapath"),
]

CROWD = 50
REST = 0.5 * PATIENCE
"""Seconds without a reconfiguration after which there will be no more of them."""


@pytest.fixture(scope="module")
def hosts() -> int:
    return 1


@pytest.fixture(scope="module")
def flags() -> Mapping[str, Sequence[str]]:
    return {"netplugin": NO_AUDITS}


def counted(bed: Bed) -> int:
    """Return the number of reconfigurations, once there are no more of them."""
    ovs, seen = bed.hosts[0].ovs, -1

    def rests() -> bool:
        nonlocal seen
        before, seen = seen, int(ovs.appctl("coverage/read-counter", "bridge_reconfigure"))
        time.sleep(REST)
        return before == seen

    eventually(rests, "the switch rests")
    return seen


def unplugged(bed: Bed, pod: Pod) -> None:
    """Have the plugin disconnect a pod; its namespace stays, whose end is an event of its own."""
    path = str(pod.namespace.path)
    assert bed.runtime.call("DEL", pod.host, pod.conf, pod.sandbox, netns=path).returncode == 0


def test_pods_that_go_at_once_cost_less_than_one_each(bed: Bed) -> None:
    with ThreadPoolExecutor(CROWD) as pool:
        pods = list(pool.map(lambda n: bed.add_pod(bed.hosts[0], f"pod{n}"), range(CROWD)))
        before = counted(bed)
        list(pool.map(lambda pod: unplugged(bed, pod), pods))
    assert counted(bed) - before < CROWD
