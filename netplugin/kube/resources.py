"""The resources of the Kubernetes API that this agent follows. Pure.

`netplugin.kube.api` lists and watches a `Resource`; `netplugin.kube.feed` has the table of those
that the agent follows and of what takes their objects. A further one is a line there and here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from netplugin.world.kubernetes import kube_services
from netplugin.world.kubernetes import policy_objects as policies
from netplugin.world.kubernetes.cluster_policies import CLUSTER_POLICIES as _CLUSTER_POLICIES
from netplugin.world.kubernetes.kube_objects import KubeObject
from netplugin.world.kubernetes.kube_pods import ALWAYS, MIRROR
from netplugin.world.kubernetes.pod_annotations import ANNOTATIONS

_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_IDENTITY: Final = ("name", "namespace", "uid", "labels", "resourceVersion")
_ANNOTATIONS: Final = (MIRROR, *ANNOTATIONS)
_CONTROLLER: Final = ("kind", "controller")


def without_bookkeeping(received: KubeObject) -> dict[str, Any]:
    """Return an object without what only its writers need, which is half of it and more."""
    meta = {name: value for name, value in _meta(received).items() if name != "managedFields"}
    annotations = meta.get("annotations")
    if isinstance(annotations, dict) and _APPLIED in annotations:
        meta["annotations"] = {n: one for n, one in annotations.items() if n != _APPLIED}
    return {**received, "metadata": meta}


def identity_only(received: KubeObject) -> dict[str, Any]:
    """Return of a pod or namespace what places pods: names, UID, labels, wishes.

    A pod's specification may have secrets in its environment; they are not to be kept.
    """
    meta = _meta(received)
    kept = {name: meta[name] for name in _IDENTITY if name in meta}
    annotations = meta.get("annotations")
    if isinstance(annotations, dict):
        read = {name: annotations[name] for name in _ANNOTATIONS if name in annotations}
        if read:
            kept["annotations"] = read
    owners = meta.get("ownerReferences")
    made = [one for one in owners if isinstance(one, dict)] if isinstance(owners, list) else []
    if made:
        kept["ownerReferences"] = [
            {name: one[name] for name in _CONTROLLER if name in one} for one in made
        ]
    return {"metadata": kept}


def identity_and_ports(received: KubeObject) -> dict[str, Any]:
    """Return of a pod what places it, and the ports of its containers, which policies name."""
    given = received.get("spec")
    spec = given if isinstance(given, dict) else {}
    containers = [{"ports": one["ports"]} for one in _with_ports(spec.get("containers"))]
    kept: dict[str, Any] = {"containers": containers}
    # A sidecar is a container of this list that is restarted always; others end before the pod is.
    sidecars = [
        {"ports": one["ports"], "restartPolicy": one["restartPolicy"]}
        for one in _with_ports(spec.get("initContainers"))
        if one.get("restartPolicy") == ALWAYS
    ]
    return {
        **identity_only(received),
        "spec": kept | ({"initContainers": sidecars} if sidecars else {}),
    }


def _with_ports(containers: object) -> list[dict[str, Any]]:
    listed = containers if isinstance(containers, list) else []
    return [one for one in listed if isinstance(one, dict) and one.get("ports")]


def node_addresses(received: KubeObject) -> dict[str, Any]:
    """Return of a node its identity and its addresses: its status changes every few seconds."""
    status = received.get("status")
    addresses = status.get("addresses") if isinstance(status, dict) else None
    return {**identity_only(received), "status": {"addresses": addresses or []}}


def _meta(received: KubeObject) -> Mapping[str, Any]:
    meta = received.get("metadata")
    return meta if isinstance(meta, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource: its plural name, and the API versions that serve it, the preferred one first.

    `reduced` returns what is kept of an object. `instead` is followed where none of the versions is
    served; an `optional` resource counts as empty then.
    """

    name: str
    versions: tuple[str, ...] = ("api/v1",)
    selector: str = ""
    """A field selector: only objects that match it are followed."""

    reduced: Callable[[KubeObject], dict[str, Any]] = without_bookkeeping
    instead: "Resource | None" = None
    optional: bool = False

    @property
    def group(self) -> str:
        """The API group, as a ClusterRole names it."""
        _, _, path = self.versions[0].partition("/")
        return path.rpartition("/")[0]

    def alternatives(self) -> tuple["Resource", ...]:
        """Return this resource and those that are followed instead of it."""
        return (self, *(self.instead.alternatives() if self.instead else ()))

    def path(self, version: str, namespace: str = "", name: str = "") -> str:
        """Return the path of the resource in all namespaces, or of one object."""
        parts = [version]
        if namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.name)
        if name:
            parts.append(quote(name, safe=""))
        return "/" + "/".join(parts)


SERVICES: Final = Resource(name=kube_services.SERVICES)
ENDPOINTS: Final = Resource(name=kube_services.ENDPOINTS)
SLICES: Final = Resource(
    name=kube_services.SLICES,
    versions=("apis/discovery.k8s.io/v1", "apis/discovery.k8s.io/v1beta1"),
    instead=ENDPOINTS,
)
NAMESPACES: Final = Resource(name="namespaces", reduced=identity_only)
NODES: Final = Resource(name="nodes", reduced=node_addresses)
NETWORK_POLICIES: Final = Resource(
    name=policies.NETWORK_POLICIES, versions=("apis/networking.k8s.io/v1",)
)
ADMIN_POLICIES: Final = Resource(
    name=policies.ADMIN_POLICIES,
    versions=("apis/policy.networking.k8s.io/v1alpha1",),
    optional=True,
)
BASELINE_POLICIES: Final = Resource(
    name=policies.BASELINE_POLICIES,
    versions=("apis/policy.networking.k8s.io/v1alpha1",),
    optional=True,
)
CLUSTER_POLICIES: Final = Resource(
    name=_CLUSTER_POLICIES,
    versions=("apis/policy.networking.k8s.io/v1alpha2",),
    optional=True,
)
POLICIES: Final = (NETWORK_POLICIES, ADMIN_POLICIES, BASELINE_POLICIES, CLUSTER_POLICIES)


def pods_of(node: str) -> Resource:
    """Return the pods of a node."""
    return Resource(name="pods", selector=f"spec.nodeName={node}", reduced=identity_and_ports)
