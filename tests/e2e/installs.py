"""Further installations, after `tests.e2e.kubernetes`: as docs/kubernetes.md says, and another one.

The document's commands are executed as they stand there, in their order: they install the single
manifest beside kube-proxy, use tenants, services, names and policies, upgrade and uninstall.
"""

import re
from functools import partial
from typing import Any

from core.addresses import authority
from tests.e2e.cluster import DEPLOY, ROOT, SYSTEM, RealCluster
from tests.e2e.images import PUBLIC
from tests.e2e.kubernetes import REPLICAS, is_ready, started

DOCUMENT = ROOT / "docs" / "kubernetes.md"


def commands() -> str:
    """Return what the document has for a shell, as one script."""
    return "\n".join(re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))


def serves(cluster: RealCluster, client: str, pod: dict[str, Any]) -> bool:
    """Return whether a client gets a pod's page, which has the pod's name."""
    url = f"http://{authority(pod['status']['podIP'], 8080)}/hostname"
    command = ("timeout", "5", "wget", "-q", "-O", "-", url)
    said = cluster.kubectl("exec", client, "--", *command, check=False)
    return said.strip() == str(pod["metadata"]["name"])


def test_what_the_document_says(cluster: RealCluster) -> None:
    *others, last = cluster.nodes
    for node in cluster.nodes:
        node.start_proxy()
    for node in others:
        cluster.kubectl("label", "node", node.name, "contiv.io/store-")
    script = commands()
    for part in ("apply -f", "rollout", "tenant create", "kind: NetworkPolicy", "uninstall"):
        assert part in script
    overlay = cluster.plain_overlay("vxlan")
    if overlay != DEPLOY / "overlays" / "vxlan":
        # contiv.yaml is made of that overlay, for API servers since 1.30
        script = script.replace("apply -f deploy/kubernetes/contiv.yaml", f"apply -k {overlay}")
    cluster.shell(script, NODE=last.name)
    assert cluster.get("namespace", SYSTEM) is None
    cluster.await_nodes(ready=False)


def test_open_vswitch_in_pods(cluster: RealCluster) -> None:
    """Nodes without a switch get one, put their cards on it, and have pods that reach others."""
    for node in cluster.nodes:
        node.remove_switch()
    cluster.kubectl("apply", "-k", str(cluster.plain_overlay("openvswitch")))
    cluster.until(
        lambda: sum(map(is_ready, cluster.pods_of("contiv-openvswitch"))) == len(cluster.nodes),
        "each node has a switch",
    )
    for node in cluster.nodes:
        node.bridge_card()
    cluster.await_nodes(ready=True)
    web = f"create deployment web --image={PUBLIC} --replicas={REPLICAS}"
    cluster.kubectl(*web.split(), "--", "httpd", "-f", "-p", "8080", "-h", "/etc")
    pods = started(cluster, "app=web", REPLICAS)
    assert {one["spec"]["nodeName"] for one in pods} == {node.name for node in cluster.nodes}
    client = pods[0]["metadata"]["name"]
    for pod in pods:
        # tunnels come with the cards, after the pods
        cluster.until(partial(serves, cluster, client, pod), f"{client} reaches each pod")
    cluster.kubectl("delete", "deployment", "web", "--wait")
    cluster.until(lambda: not cluster.get("pods")["items"], "its pods are gone")
    # the bridge ends with the switch's pod, and with it the machine's address
    for node in cluster.nodes:
        node.release_card()
    cluster.uninstall()
