"""Pods a second on one real node, from their deployment to all of them ready, beside `bridge`.

A cluster of one machine (`tests.e2e.cluster`, with Kubernetes' programs of K8S_BIN and the images
of `make image`): kubelet, containerd and the control plane are real. It has Debian's plugins
`bridge` and `host-local` first, then this project's manifests, on the same machine. In each turn a
deployment gets NODE_PODS (110) pods at once; they are deleted before the next one. A pod is ready
when its container runs: what is measured is kubelet, containerd, runc and the plugin.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from bench.table import Row, show
from tests.e2e.cluster import RealCluster, missing
from tests.e2e.images import TOOLS
from tests.e2e.kubernetes import pods_with

PODS: Final = int(os.environ.get("NODE_PODS", "110"))
TURNS: Final = int(os.environ.get("NODE_TURNS", "3"))
WITHIN: Final = 900.0
BRIDGE: Final = {
    "cniVersion": "0.4.0",
    "name": "bridge",
    "type": "bridge",
    "bridge": "cni0",
    "isGateway": True,
    "ipMasq": False,
    "ipam": {"type": "host-local", "subnet": "10.22.0.0/16"},
}
"""The configuration that the reference runs with."""
FILE: Final = "/etc/cni/net.d/10-bridge.conf"


def rows() -> Iterable[Row]:
    """Measure; needs root, K8S_BIN and the images."""
    if fault := missing():
        sys.exit(fault)
    # not in /run: the machine has one of its own
    with tempfile.TemporaryDirectory(prefix="ct-bench-") as directory:
        cluster = RealCluster(Path(directory), nodes=1)
        try:
            cluster.start()
            yield from _measure(cluster)
        finally:
            cluster.close()


def _measure(cluster: RealCluster) -> Iterable[Row]:
    (node,) = cluster.nodes
    node.run("sh", "-c", "cp /usr/lib/cni/bridge /usr/lib/cni/host-local /opt/cni/bin/")
    node.run("sh", "-c", f"mkdir -p /etc/cni/net.d && echo '{json.dumps(BRIDGE)}' >{FILE}")
    cluster.await_nodes(ready=True)
    cluster.kubectl("apply", "-f", "-", text=json.dumps(_deployment()))
    _turn(cluster)  # the first one reads programs and images from the disk
    theirs = [_turn(cluster) for _ in range(TURNS)]
    node.run("rm", FILE)
    node.run("ip", "link", "delete", "cni0")
    cluster.await_nodes(ready=False)
    cluster.install()
    _turn(cluster)
    ours = [_turn(cluster) for _ in range(TURNS)]
    mine, reference = PODS / statistics.median(ours), PODS / statistics.median(theirs)
    shown = "; ".join(" ".join(f"{one:.1f}" for one in took) for took in (ours, theirs))
    yield Row(
        what=f"pods ready a second on a real node, {PODS} at once",
        ours=mine,
        unit="1/s",
        reference=reference,
        ratio=mine / reference,
        note=f"median of {TURNS}; target 0.9; reference: Debian's bridge and host-local; "
        f"seconds of each turn: {shown}",
    )


def _turn(cluster: RealCluster) -> float:
    """Return the seconds until all pods are ready; they are gone afterwards."""
    began = time.monotonic()
    cluster.kubectl("scale", "deployment/pods", f"--replicas={PODS}")
    # by a watch: to list them again and again would take from what is measured
    words = ("rollout", "status", "deployment/pods", f"--timeout={WITHIN:.0f}s")
    cluster.plane.kubectl(*words, timeout=WITHIN + 60)
    took = time.monotonic() - began
    cluster.kubectl("scale", "deployment/pods", "--replicas=0")
    cluster.until(lambda: not pods_with(cluster, "app=pods"), "no pod is left", within=WITHIN)
    return took


def _deployment() -> dict[str, object]:
    labels = {"app": "pods"}
    container = {
        "name": "c",
        "image": TOOLS,
        "imagePullPolicy": "Never",
        "command": ["sleep", "99999"],
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "pods"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }


if __name__ == "__main__":
    show(rows())
