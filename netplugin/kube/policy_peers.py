"""Puts what the network policies of Kubernetes name by labels into the World.

In come namespaces and nodes (`netplugin.kube.feed`); out they go to `netplugin.world.pod_policies`,
which takes the policies itself and has the pods from the store.
"""

from collections.abc import Container

from netplugin.kube.resources import NAMESPACES, NODES
from netplugin.world.kubernetes.kube_objects import KubeObject
from netplugin.world.kubernetes.kube_pods import namespace_of, node_of
from netplugin.world.pod_policies import PodPolicies


class PeerHandler:
    """A `KubeHandler` of what policies name by labels: namespaces and nodes."""

    def __init__(self, policies: PodPolicies) -> None:
        self._policies = policies
        self._known: dict[str, set[str]] = {NAMESPACES.name: set(), NODES.name: set()}

    def put(self, resource: str, received: KubeObject) -> None:
        """As `KubeHandler.put`."""
        if resource == NODES.name:
            name, node = node_of(received)
            self._policies.put_node(name, node)
        else:
            name, labels = namespace_of(received)
            self._policies.put_namespace(name, labels)
        self._known[resource].add(name)

    def remove(self, resource: str, key: str) -> None:
        """As `KubeHandler.remove`."""
        self._known[resource].discard(key)
        if resource == NODES.name:
            self._policies.remove_node(key)
        else:
            self._policies.remove_namespace(key)

    def retain(self, resource: str, keys: Container[str]) -> None:
        """As `KubeHandler.retain`."""
        for name in [name for name in self._known[resource] if name not in keys]:
            self.remove(resource, name)
