"""Three hundred pods on one node: their addresses, a service of all of them, and their end."""

import json
from functools import partial
from typing import Final

from tests.e2e.cluster import PATIENCE, RealCluster
from tests.e2e.images import TOOLS
from tests.e2e.kubernetes import (
    address,
    agent_on,
    endpoints,
    fetched,
    is_ready,
    pod,
    pods_with,
    restarts_of,
    started,
)

CROWD: Final = 300
STEP: Final = 50
"""Pods that come at a time. For each container runc reads the table of all mounts; of more at once
many take so long there that the kubelet gives them up and begins anew."""
_SERVE: Final = "hostname >/www/index.html; exec httpd -f -p 8080 -h /www"


def test_a_node_takes_three_hundred_pods(cluster: RealCluster) -> None:
    first, *_, last = cluster.nodes
    cluster.install()
    cluster.kubectl("apply", "-f", "-", text=pod("client", first, role="client"))
    started(cluster, "role=client", 1)
    before = restarts_of(cluster, last)
    cluster.kubectl("apply", "-f", "-", text=json.dumps(crowd(last.name)))
    for count in range(STEP, CROWD + 1, STEP):
        cluster.kubectl("scale", "deployment/crowd", f"--replicas={count}")
        ready = partial(all_ready, cluster, count)
        cluster.until(ready, f"{count} pods are ready", within=2 * PATIENCE)
    found = pods_with(cluster, "app=crowd")
    assert {one["spec"]["nodeName"] for one in found} == {last.name}
    addresses = {one["status"]["podIP"] for one in found}
    assert len(addresses) == CROWD
    assert addresses <= endpoints(cluster)
    where, names = address(cluster, "crowd"), {one["metadata"]["name"] for one in found}
    answers = {fetched(cluster, "client", where, 80) for _ in range(20)}
    assert answers <= names
    assert len(answers) > 1
    assert is_ready(agent_on(cluster, last))
    assert restarts_of(cluster, last) == before


def test_they_leave_nothing(cluster: RealCluster) -> None:
    cluster.kubectl("delete", "deployment/crowd", "service/crowd")
    gone = partial(pods_with, cluster, "app=crowd")
    cluster.until(lambda: not gone(), "no pod of the crowd is left", within=4 * PATIENCE)
    (client,) = started(cluster, "role=client", 1)
    only = {client["status"]["podIP"]}
    cluster.until(lambda: endpoints(cluster) == only, "no endpoint of the crowd is left")


def all_ready(cluster: RealCluster, count: int) -> bool:
    return sum(map(is_ready, pods_with(cluster, "app=crowd"))) == count


def crowd(node: str) -> dict[str, object]:
    """Return a deployment on one node, which has no pods yet, and its service."""
    labels = {"app": "crowd"}
    container = {
        "name": "c",
        "image": TOOLS,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", _SERVE],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "timeoutSeconds": 5},
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "crowd"},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "crowd"},
        "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    return {"apiVersion": "v1", "kind": "List", "items": [deployment, service]}
