"""CoreDNS as the DNS of a cluster, as kubeadm installs it: its objects and its image."""

import json
from pathlib import Path
from typing import Any, Final

from tests.e2e import images
from tests.e2e.cluster import RealCluster
from tests.e2e.kubernetes import is_ready

IMAGE: Final = "local.test/coredns:1"
COREFILE: Final = """.:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    cache 30
}
"""
_NAME: Final = "coredns"
_LABELS: Final = {"k8s-app": "kube-dns"}
_PORTS: Final = [
    {"name": "dns", "port": 53, "protocol": "UDP"},
    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
]


def image(directory: Path, program: Path) -> Path:
    """Write the image of a CoreDNS program; return its tar."""
    config = {"Entrypoint": ["/coredns"], "Cmd": ["-conf", "/etc/coredns/Corefile"]}
    content = images.of_files({"coredns": program})
    return images.save(directory / "coredns.tar", content, {IMAGE: config})


def install(cluster: RealCluster) -> None:
    """Apply the objects; return when two CoreDNS are ready."""
    items = objects(cluster.family.dns)
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    cluster.kubectl("apply", "-f", "-", text=json.dumps(listed))

    def ready() -> bool:
        found = cluster.get("pods", "-n", "kube-system", "-l", "k8s-app=kube-dns")["items"]
        return len(found) == 2 and all(map(is_ready, found))

    cluster.until(ready, "CoreDNS is ready")


def objects(address: str) -> list[dict[str, Any]]:
    """Return what kubeadm applies, without what a cluster of several zones needs."""
    account = {"kind": "ServiceAccount", "name": _NAME, "namespace": "kube-system"}
    role = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "system:coredns",
    }
    container = {
        "name": _NAME,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "ports": [
            {"containerPort": one["port"], "name": one["name"], "protocol": one["protocol"]}
            for one in _PORTS
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}, "initialDelaySeconds": 60},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns", "readOnly": True}],
    }
    pod = {
        "serviceAccountName": _NAME,
        "dnsPolicy": "Default",
        "containers": [container],
        "volumes": [{"name": "config", "configMap": {"name": _NAME}}],
    }
    asked = ["endpoints", "services", "pods", "namespaces"]
    rules = [
        {"apiGroups": [""], "resources": asked, "verbs": ["list", "watch"]},
        {
            "apiGroups": ["discovery.k8s.io"],
            "resources": ["endpointslices"],
            "verbs": ["list", "watch"],
        },
    ]
    rbac = "rbac.authorization.k8s.io/v1"
    return [
        _object("v1", "ServiceAccount", _NAME),
        _object(rbac, "ClusterRole", "system:coredns", rules=rules),
        _object(rbac, "ClusterRoleBinding", "system:coredns", subjects=[account], roleRef=role),
        _object("v1", "ConfigMap", _NAME, data={"Corefile": COREFILE}),
        _object(
            "apps/v1",
            "Deployment",
            _NAME,
            spec={
                "replicas": 2,
                "selector": {"matchLabels": _LABELS},
                "template": {"metadata": {"labels": _LABELS}, "spec": pod},
            },
        ),
        _object(
            "v1",
            "Service",
            "kube-dns",
            spec={"clusterIP": address, "selector": _LABELS, "ports": _PORTS},
        ),
    ]


def _object(version: str, kind: str, name: str, **more: object) -> dict[str, Any]:
    named = {"name": name, "namespace": "kube-system", "labels": _LABELS}
    return {"apiVersion": version, "kind": kind, "metadata": named, **more}
