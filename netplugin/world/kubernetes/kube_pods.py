"""Pods and namespaces of Kubernetes, and the labels that mean something to Contiv. Pure.

`netplugin.kube.pods` keeps the pods of this node and the namespaces, and places pods by the labels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import Field, model_validator

from core.ids import POD_NAME, POD_NAMESPACE
from core.numbers import bounded
from netplugin.world.kubernetes.kube_objects import KubeObject, Part, parse, read_address
from netplugin.world.kubernetes.pod_annotations import ANNOTATIONS, MACHINE_RUNS, Wishes, wishes
from netplugin.world.kubernetes.policy_objects import PROTOCOLS
from netplugin.world.kubernetes.rules import PolicyNode

TENANT: Final = "io.contiv.tenant"
NETWORK: Final = "io.contiv.network"
GROUP: Final = "io.contiv.net-group"

POD_UID: Final = "io.kubernetes.pod.uid"
"""The label of an endpoint with the id of its pod, as container runtimes write it."""

PORT: Final = "io.contiv.port/"
"""Prefix of an endpoint's label for each named port of its pod; the value is `<protocol>/<port>`.

Policies on any host may name the port of a pod; the store tells them its number.
"""

_NODE_ADDRESSES: Final = frozenset({"InternalIP", "ExternalIP"})
ALWAYS: Final = "Always"
"""The `restartPolicy` of an init container that is a sidecar."""

MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of the API's picture of a static pod: the UID by which kubelet knows that pod."""


@dataclass(frozen=True, slots=True)
class KubePod:
    """A pod: `uids` are those by which a runtime may name it."""

    namespace: str
    name: str
    uids: frozenset[str]
    labels: Mapping[str, str]
    ports: Mapping[str, str] = field(default_factory=dict)
    """`<protocol>/<port>` of each named port."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    controller: str = ""
    """The kind of the object that made the pod, "" for none."""

    @property
    def key(self) -> str:
        """`<namespace>/<name>`."""
        return f"{self.namespace}/{self.name}"

    @property
    def machine_runs(self) -> bool:
        """Whether a machine that migrated to this pod runs in it."""
        return bool(self.annotations.get(MACHINE_RUNS))

    @property
    def wishes(self) -> Wishes:
        """What the pod asks for by annotations. Raises Invalid."""
        return wishes(self.key, self.annotations, self.labels, self.controller)


class _Owner(Part):
    kind: str = ""
    controller: bool = False


class _PodMeta(Part):
    name: str
    namespace: str
    uid: str
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owners: tuple[_Owner, ...] = Field((), alias="ownerReferences")


class _Port(Part):
    name: str = ""
    protocol: str = "TCP"
    number: int = Field(alias="containerPort", ge=1, le=65535)


class _Container(Part):
    ports: tuple[_Port, ...] = ()
    restarts: str = Field("", alias="restartPolicy")


class _PodSpec(Part):
    containers: tuple[_Container, ...] = ()
    init: tuple[_Container, ...] = Field((), alias="initContainers")

    @property
    def serving(self) -> tuple[_Container, ...]:
        """The sidecars, which are restartable init containers, and then the containers."""
        return (*(one for one in self.init if one.restarts == ALWAYS), *self.containers)


class _Pod(Part):
    metadata: _PodMeta
    spec: _PodSpec = Field(default_factory=_PodSpec)


class _NamespaceMeta(Part):
    name: str
    labels: dict[str, str] = Field(default_factory=dict)


class _Namespace(Part):
    metadata: _NamespaceMeta


def pod_of(received: KubeObject) -> KubePod:
    """Return a pod of the server's. Raises Invalid."""
    pod = parse(_Pod, "pods", received)
    meta = pod.metadata
    uids = {meta.uid, meta.annotations.get(MIRROR, "")} - {""}
    ports = {
        port.name: f"{port.protocol}/{port.number}"
        for container in pod.spec.serving
        for port in container.ports
        if port.name
    }
    return KubePod(
        meta.namespace,
        meta.name,
        frozenset(uids),
        meta.labels,
        ports,
        {name: text for name, text in meta.annotations.items() if name in ANNOTATIONS},
        next((one.kind for one in meta.owners if one.controller), ""),
    )


def namespace_of(received: KubeObject) -> tuple[str, Mapping[str, str]]:
    """Return name and labels of a namespace. Raises Invalid."""
    meta = parse(_Namespace, "namespaces", received).metadata
    return meta.name, meta.labels


class _NodeAddress(Part):
    type: str = ""
    address: str = ""

    @model_validator(mode="after")
    def _readable(self) -> "_NodeAddress":
        if self.type in _NODE_ADDRESSES:
            read_address(self.address)
        return self


class _NodeStatus(Part):
    addresses: tuple[_NodeAddress, ...] = ()


class _Node(Part):
    metadata: _NamespaceMeta
    status: _NodeStatus = Field(default_factory=_NodeStatus)


def node_of(received: KubeObject) -> tuple[str, PolicyNode]:
    """Return name, labels and addresses of a node. Raises Invalid."""
    node = parse(_Node, "nodes", received)
    texts = (one.address for one in node.status.addresses if one.type in _NODE_ADDRESSES)
    addresses = tuple(sorted({read_address(text) for text in texts}, key=str))
    return node.metadata.name, PolicyNode(labels=node.metadata.labels, addresses=addresses)


def endpoint_labels(pod: KubePod, uid: str) -> dict[str, str]:
    """Return the labels of a pod's endpoint: the pod's own, and those that name the pod."""
    ports = {f"{PORT}{name}": value for name, value in pod.ports.items()}
    own = {POD_NAMESPACE: pod.namespace, POD_NAME: pod.name, POD_UID: uid}
    return {**pod.labels, **ports, **own}


def named_ports(labels: Mapping[str, str]) -> dict[str, tuple[int, int]]:
    """Return protocol number and port of each named port in an endpoint's labels."""
    found: dict[str, tuple[int, int]] = {}
    for label, value in labels.items():
        protocol, _, port = value.partition("/")
        number = bounded(port, 0, 65535)
        if label.startswith(PORT) and protocol in PROTOCOLS and number is not None:
            found[label.removeprefix(PORT)] = PROTOCOLS[protocol], number
    return found
