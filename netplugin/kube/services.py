"""Puts the services of Kubernetes into the World.

In come the objects of services and of their endpoints (`netplugin.kube.feed`), which
`netplugin.world.kubernetes.kube_services` converts; out go services to `netplugin.world.builder`.
"""

from collections.abc import Collection, Container
from typing import Final

from netplugin.kube.resources import NODES
from netplugin.world.builder import WorldBuilder
from netplugin.world.kubernetes.kube_objects import KubeObject
from netplugin.world.kubernetes.kube_pods import node_of
from netplugin.world.kubernetes.kube_services import KubeServices

ZONE: Final = "topology.kubernetes.io/zone"
"""The label of a node with its zone."""


class ServiceHandler:
    """A `netplugin.kube.feed.KubeHandler` of services, endpoints and slices, and of nodes.

    `node` is the name of this host's own, whose zone hints for clients are about.
    """

    def __init__(self, world: WorldBuilder, node: str = "") -> None:
        self._world = world
        self._node = node
        self._services = KubeServices(node)

    def put(self, resource: str, received: KubeObject) -> None:
        """As `KubeHandler.put`."""
        if resource == NODES.name:
            name, node = node_of(received)
            if name == self._node:
                self._publish(self._services.set_zone(node.labels.get(ZONE, "")))
            return
        self._publish(self._services.put(resource, received))

    def remove(self, resource: str, key: str) -> None:
        """As `KubeHandler.remove`."""
        if resource == NODES.name:
            if key == self._node:
                self._publish(self._services.set_zone(""))
            return
        self._publish(self._services.remove(resource, key))

    def retain(self, resource: str, keys: Container[str]) -> None:
        """As `KubeHandler.retain`."""
        if resource == NODES.name:
            if self._node not in keys:
                self.remove(resource, self._node)
            return
        self._publish(self._services.retain(resource, keys))

    def _publish(self, altered: Collection[str]) -> None:
        for key in altered:
            service = self._services.services.get(key)
            if service is not None:
                self._world.put_kube_service(service)
            else:
                self._world.remove_kube_service(key)
