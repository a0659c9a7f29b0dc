"""Keeps the World's services of Kubernetes those that its API server tells of.

In come lists and changes (`netplugin.kube.api`), which `netplugin.world.kube_services` makes
services of; `netplugin.world.builder` is given them.
What cannot be read is reported, and the last good stays in force. While the server is away, all
stays as it was.
"""

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from core.change_notifier import ChangeNotifier
from core.errors import Invalid
from core.logs import fields
from netplugin.kube.api import KubeApi, Listed, Told
from netplugin.world.builder import WorldBuilder
from netplugin.world.kube_services import ENDPOINTS, SERVICES, KubeObject, KubeServices, key_of

log = logging.getLogger(__name__)

RESOURCES: Final = (SERVICES, ENDPOINTS)


class KubeFeed:
    """One per agent."""

    def __init__(self, api: KubeApi, world: WorldBuilder) -> None:
        self._api = api
        self._world = world
        self._book = KubeServices()
        self._unread = set(RESOURCES)
        self._news = ChangeNotifier()

    @property
    def complete(self) -> bool:
        """True once all has been listed: what is not there is gone."""
        return not self._unread

    async def listed(self, patience: float) -> bool:
        """Wait until all has been listed, so many seconds at most; tell whether it has."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while not self.complete:
                    await self._news.next.wait()
        return self.complete

    def changed(self) -> asyncio.Event:
        """Return the event that the next change sets: take it, look, then wait."""
        return self._news.next

    async def run(self) -> None:
        """Follow services and their endpoints, for ever."""
        async with asyncio.TaskGroup() as group:
            for resource in RESOURCES:
                group.create_task(self._follow(resource), name=f"kubernetes {resource}")

    async def _follow(self, resource: str) -> None:
        async for event in self._api.follow(resource):
            self.take(resource, event)

    def take(self, resource: str, event: Listed | Told) -> None:
        """Take over what the server says."""
        if isinstance(event, Listed):
            altered = self._book.retain(resource, {key_of(one) for one in event.objects})
            altered.update(*(self._put(resource, one) for one in event.objects))
            self._unread.discard(resource)
        elif event.gone:
            altered = self._book.remove(resource, key_of(event.object))
        else:
            altered = self._put(resource, event.object)
        self._hand_on(altered)

    def _put(self, resource: str, said: KubeObject) -> set[str]:
        try:
            return self._book.put(resource, said)
        except Invalid as exc:
            log.warning("object of kubernetes not understood", extra=fields(error=exc))
            return set()

    def _hand_on(self, altered: Collection[str]) -> None:
        for key in altered:
            service = self._book.services.get(key)
            if service is not None:
                self._world.put_kube_service(service)
            else:
                self._world.remove_kube_service(key)
        self._news.notify()
