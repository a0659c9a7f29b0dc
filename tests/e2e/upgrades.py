"""Kubernetes itself is upgraded, release by release, under traffic; the network stays as it is.

`K8S_NEXT` names folders with the programs of the releases after that of `K8S_BIN`, in their order,
with ":" between them: an API server is upgraded to the next minor release alone. The control plane
comes first, then kubelet of one node after the other, whose containers run on, as kubeadm has it.
"""

import json
import os
import re
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.cluster import RealCluster
from tests.e2e.control_plane import version_of
from tests.e2e.kubernetes import (
    DEPLOYMENT,
    REPLICAS,
    address,
    agent_on,
    is_ready,
    pod,
    request,
    started,
    web_pod_on,
    works,
)
from tests.e2e.node import Node

NEXT = [Path(one) for one in filter(None, os.environ.get("K8S_NEXT", "").split(":"))]


def test_the_first_release_has_a_network(cluster: RealCluster) -> None:
    cluster.install()
    cluster.kubectl("apply", "-f", "-", text=DEPLOYMENT)
    started(cluster, "app=web", REPLICAS)
    for node in cluster.nodes:
        cluster.kubectl("apply", "-f", "-", text=pod(f"client-{node.name}", node, role="client"))
    started(cluster, "role=client", len(cluster.nodes))
    cluster.until(partial(works, cluster), "services work")


@pytest.mark.skipif(not NEXT, reason="K8S_NEXT names no folders of later releases")
@pytest.mark.parametrize("folder", NEXT, ids=lambda folder: str(version_of(folder / "kubelet")))
def test_a_release_follows_under_traffic(cluster: RealCluster, folder: Path) -> None:
    first, second, third = cluster.nodes
    release = str(version_of(folder / "kubelet"))
    before = {one["metadata"]["uid"] for one in started(cluster, "app=web", REPLICAS)}
    # pods of their own: what `kubectl exec` runs ends with the API server
    begin(cluster, "pinger", first, f"exec ping -i 0.2 {web_pod_on(cluster, second)}")
    asked = request(address(cluster, "web"), 80, within=30)
    told = "case $said in *' 200 '*) echo yes;; *) echo no: $said;; esac"
    begin(cluster, "asker", third, f"while :; do said=$({asked} 2>&1); {told}; done")
    cluster.plane.upgrade(folder)
    for node in cluster.nodes:
        node.upgrade(folder)
        cluster.until(
            lambda node=node: (  # type: ignore[misc]  # bound now
                runs(cluster, node.name, release)
                and cluster.ready(node)
                and is_ready(agent_on(cluster, node))
            ),
            f"{node.name} runs {release}",
        )
    heard = [int(number) for number in re.findall(r"seq=(\d+)", said(cluster, "pinger"))]
    assert heard == [*range(heard[0], heard[0] + len(heard))]
    answers = said(cluster, "asker").splitlines()
    print(f"{len(heard)} pings, {len(answers)} requests")  # noqa: T201 - the result
    assert {*answers} == {"yes"}
    cluster.kubectl("delete", "pod", "pinger", "asker", "--wait")
    assert {one["metadata"]["uid"] for one in started(cluster, "app=web", REPLICAS)} == before
    cluster.kubectl("scale", "deployment", "web", f"--replicas={REPLICAS + 3}")
    started(cluster, "app=web", REPLICAS + 3)
    cluster.kubectl("scale", "deployment", "web", f"--replicas={REPLICAS}")
    started(cluster, "app=web", REPLICAS)
    cluster.until(partial(works, cluster), "services work")


def begin(cluster: RealCluster, name: str, node: Node, script: str) -> None:
    """Have a pod of a name run a script on a node; return when it has said something."""
    body = json.loads(pod(name, node, role=name))
    body["spec"]["containers"][0]["command"] = ["sh", "-c", script]
    cluster.kubectl("apply", "-f", "-", text=json.dumps(body))
    started(cluster, f"role={name}", 1)
    cluster.until(partial(said, cluster, name), f"{name} has begun")


def said(cluster: RealCluster, name: str) -> str:
    """Return the whole lines that a pod has written."""
    return cluster.kubectl("logs", name, check=False).rpartition("\n")[0]


def runs(cluster: RealCluster, name: str, release: str) -> bool:
    """Return whether a node says that its kubelet is of a release."""
    found = cluster.get("node", name) or {}
    told = found.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
    return str(told).startswith(f"v{release}.")
