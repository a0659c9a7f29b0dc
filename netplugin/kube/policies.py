"""Puts the network policies of Kubernetes into the World.

In come policies, namespaces and nodes (`netplugin.kube.feed`); out they go to
`netplugin.world.pod_policies`, which has the pods from the store.
"""

import logging
from collections.abc import Container, Iterable

from core.logs import fields
from netplugin.kube.feed import KubeHandler
from netplugin.kube.resources import NAMESPACES, NODES
from netplugin.world.kube_objects import KubeObject, key_of
from netplugin.world.kube_pods import namespace_of, node_of
from netplugin.world.pod_policies import PodPolicies

log = logging.getLogger(__name__)


class PolicyHandler:
    """A `KubeHandler` of policies."""

    def __init__(self, policies: PodPolicies) -> None:
        self._policies = policies

    def put(self, resource: str, received: KubeObject) -> None:
        """As `KubeHandler.put`."""
        self._policies.put(resource, received)
        for text in self._policies.policies.unfollowed_of(resource, key_of(received)):
            log.warning("Kubernetes policy rule not followed", extra=fields(error=text))

    def remove(self, resource: str, key: str) -> None:
        """As `KubeHandler.remove`."""
        self._policies.remove(resource, key)

    def retain(self, resource: str, keys: Container[str]) -> None:
        """As `KubeHandler.retain`."""
        self._policies.retain(resource, keys)


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


class FanOut:
    """A `KubeHandler` that passes each call on to several handlers."""

    def __init__(self, handlers: Iterable[KubeHandler]) -> None:
        self._handlers = tuple(handlers)

    def put(self, resource: str, received: KubeObject) -> None:
        """As `KubeHandler.put`."""
        for handler in self._handlers:
            handler.put(resource, received)

    def remove(self, resource: str, key: str) -> None:
        """As `KubeHandler.remove`."""
        for handler in self._handlers:
            handler.remove(resource, key)

    def retain(self, resource: str, keys: Container[str]) -> None:
        """As `KubeHandler.retain`."""
        for handler in self._handlers:
            handler.retain(resource, keys)
