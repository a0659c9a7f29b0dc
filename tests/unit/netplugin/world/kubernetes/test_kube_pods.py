"""Pods and namespaces, from what the API server says of them."""

from typing import Any

import pytest

from core.errors import Invalid
from netplugin.kube.resources import identity_and_ports
from netplugin.world.kubernetes.kube_pods import KubePod, endpoint_labels, namespace_of, pod_of

META = {"name": "web-1", "namespace": "shop", "uid": "u1"}


@pytest.mark.parametrize(
    ("more", "uids", "labels"),
    [
        ({}, {"u1"}, {}),
        ({"labels": None, "annotations": None}, {"u1"}, {}),
        ({"labels": {"a": "b"}, "annotations": {"c": "d"}}, {"u1"}, {"a": "b"}),
        ({"annotations": {"kubernetes.io/config.mirror": "u0"}}, {"u0", "u1"}, {}),
    ],
)
def test_a_pod(more: dict[str, Any], uids: set[str], labels: dict[str, str]) -> None:
    found = pod_of({"metadata": {**META, **more}})
    assert found == KubePod("shop", "web-1", frozenset(uids), labels)
    assert found.key == "shop/web-1"


def test_a_namespace() -> None:
    assert namespace_of({"metadata": {"name": "shop"}}) == ("shop", {})
    labelled = {"metadata": {"name": "shop", "labels": {"a": "b"}}}
    assert namespace_of(labelled) == ("shop", {"a": "b"})


def test_what_cannot_be_read() -> None:
    with pytest.raises(Invalid, match="pods shop/web-1 of Kubernetes"):
        pod_of({"metadata": {"name": "web-1", "namespace": "shop"}})
    with pytest.raises(Invalid, match="namespaces shop of Kubernetes"):
        namespace_of({"metadata": {"name": "shop", "labels": {"a": 1}}})


def test_the_labels_of_an_endpoint_name_its_pod() -> None:
    pod = KubePod("shop", "web-1", frozenset({"u1"}), {"io.kubernetes.pod.name": "forged"})
    assert endpoint_labels(pod, "u1") == {
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.name": "web-1",
        "io.kubernetes.pod.uid": "u1",
    }


def test_a_sidecar_s_named_ports_are_the_pod_s() -> None:
    """As upstream finds ports: a container's own before a sidecar's, and none of other inits."""

    def container(name: str, port: int, **more: str) -> dict[str, Any]:
        return {"ports": [{"name": name, "containerPort": port}], "image": "secret", **more}

    whole = {
        "metadata": META,
        "spec": {
            "initContainers": [
                container("metrics", 9000, restartPolicy="Always"),
                container("http", 1, restartPolicy="Always"),
                container("setup", 2),
                {"restartPolicy": "Always"},
            ],
            "containers": [container("http", 80)],
        },
    }
    expected = {"metrics": "TCP/9000", "http": "TCP/80"}
    assert pod_of(whole).ports == expected
    reduced = identity_and_ports(whole)
    assert pod_of(reduced).ports == expected
    assert "secret" not in str(reduced)
    assert "setup" not in str(reduced)
