"""Keeps the World's Kubernetes services in sync with the API server.

In come lists and changes (`netplugin.kube.api`), which `netplugin.world.kube_services` converts to
services; out they go to `netplugin.world.builder`. An invalid object is reported and its last
valid state stays in force. While the API server is unreachable, all services stay as they were.
"""

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from core.change_notifier import ChangeNotifier
from core.errors import Invalid
from core.logs import fields
from netplugin.kube.api import KubeApi, KubeChange, KubeList
from netplugin.world.builder import WorldBuilder
from netplugin.world.kube_services import ENDPOINTS, SERVICES, KubeObject, KubeServices, key_of

log = logging.getLogger(__name__)

RESOURCES: Final = (SERVICES, ENDPOINTS)


class KubeFeed:
    """One per agent."""

    def __init__(self, api: KubeApi, world: WorldBuilder) -> None:
        self._api = api
        self._world = world
        self._services = KubeServices()
        self._unlisted = set(RESOURCES)
        self._changed = ChangeNotifier()

    @property
    def complete(self) -> bool:
        """True once every resource has been listed: what is absent does not exist."""
        return not self._unlisted

    async def listed(self, within: float) -> bool:
        """Wait up to `within` seconds for the first lists; return `complete`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not self.complete:
                    await self._changed.next.wait()
        return self.complete

    def changed(self) -> asyncio.Event:
        """Return the event of the next change: take it, read the state, then wait for it."""
        return self._changed.next

    async def run(self) -> None:
        """Follow services and their endpoints, for ever."""
        async with asyncio.TaskGroup() as group:
            for resource in RESOURCES:
                group.create_task(self._follow(resource), name=f"kubernetes {resource}")

    async def _follow(self, resource: str) -> None:
        async for event in self._api.list_and_watch(resource):
            self.apply(resource, event)

    def apply(self, resource: str, event: KubeList | KubeChange) -> None:
        """Apply a list or a change of a resource to the World."""
        if isinstance(event, KubeList):
            # Only a list shows deletions that happened while there was no watch.
            altered = self._services.retain(resource, {key_of(one) for one in event.objects})
            altered.update(*(self._put(resource, one) for one in event.objects))
            self._unlisted.discard(resource)
        elif event.deleted:
            altered = self._services.remove(resource, key_of(event.object))
        else:
            altered = self._put(resource, event.object)
        self._publish(altered)

    def _put(self, resource: str, received: KubeObject) -> set[str]:
        try:
            return self._services.put(resource, received)
        except Invalid as exc:
            log.warning("Kubernetes object invalid", extra=fields(error=exc))
            return set()

    def _publish(self, altered: Collection[str]) -> None:
        for key in altered:
            service = self._services.services.get(key)
            if service is not None:
                self._world.put_kube_service(service)
            else:
                self._world.remove_kube_service(key)
        self._changed.notify()
