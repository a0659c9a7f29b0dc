"""Puts the services of Kubernetes into the World.

In come the objects of services and of their endpoints (`netplugin.kube.feed`), which
`netplugin.world.kube_services` converts; out go services to `netplugin.world.builder`.
"""

from collections.abc import Collection, Container

from netplugin.world.builder import WorldBuilder
from netplugin.world.kube_objects import KubeObject
from netplugin.world.kube_services import KubeServices


class ServiceHandler:
    """A `netplugin.kube.feed.KubeHandler` of services, endpoints and slices."""

    def __init__(self, world: WorldBuilder) -> None:
        self._world = world
        self._services = KubeServices()

    def put(self, resource: str, received: KubeObject) -> None:
        """As `KubeHandler.put`."""
        self._publish(self._services.put(resource, received))

    def remove(self, resource: str, key: str) -> None:
        """As `KubeHandler.remove`."""
        self._publish(self._services.remove(resource, key))

    def retain(self, resource: str, keys: Container[str]) -> None:
        """As `KubeHandler.retain`."""
        self._publish(self._services.retain(resource, keys))

    def _publish(self, altered: Collection[str]) -> None:
        for key in altered:
            service = self._services.services.get(key)
            if service is not None:
                self._world.put_kube_service(service)
            else:
                self._world.remove_kube_service(key)
