"""Tells netmaster which containers run, with their names and labels.

In comes the engine's state; out go the original's two updates (docs/original/netplugin-agent.md
§10): a started container makes its endpoints providers of the services that select its labels, and
gives them its name, and the aliases it has on the network as one more label; one that ended
provides nothing. Both follow from a comparison with the records in the store, so an event that
nobody heard is made up for by the next look.
"""

import logging
import re
from collections.abc import Iterator
from typing import Final

from contivmodel.rpc import UpdateEndpointRequest
from core.errors import Invalid, MasterRefused, NotFound
from core.ids import EndpointKey
from core.logs import fields
from netplugin.libnetwork.engine import Container, EngineState
from netplugin.masters.master_api import MasterApi
from netplugin.pods.registry.endpoint_registry import EndpointRegistry
from netplugin.pods.registry.journal_entry import JournalEntry
from netplugin.world.builder import WorldBuilder
from netplugin.world.dns.bare_names import ALIASES
from state.records import EndpointRecord

log = logging.getLogger(__name__)

_ALIAS: Final = re.compile(r"[A-Za-z0-9_-]{1,63}")


class Containers:
    """The containers that netmaster has been told of. One per agent."""

    def __init__(self, registry: EndpointRegistry, world: WorldBuilder, master: MasterApi) -> None:
        self._registry = registry
        self._world = world
        self._master = master
        self._sent: dict[EndpointKey, UpdateEndpointRequest] = {}

    async def converge(self, state: EngineState) -> None:
        """Send what differs from the records, once. Raises ContivError."""
        wanted = dict(self._updates(state))
        self._sent = {key: sent for key, sent in self._sent.items() if wanted.get(key) == sent}
        for key, update in wanted.items():
            if self._sent.get(key) == update:  # its record may be on the way
                continue
            try:
                await self._master.update_endpoint(update)
            except (Invalid, MasterRefused, NotFound) as exc:
                log.warning("container not recorded", extra=fields(endpoint=key, error=exc))
            self._sent[key] = update

    def _updates(self, state: EngineState) -> Iterator[tuple[EndpointKey, UpdateEndpointRequest]]:
        running = {
            endpoint: container
            for container in state.containers
            for endpoint in container.endpoints
        }
        for entry in self._registry.idle():
            record = self._world.endpoint_records.get(entry.key)
            if not entry.spec.handed_over or record is None:
                continue
            container = running.get(entry.spec.endpoint)
            if container is not None and not _tells(entry, record, container):
                yield entry.key, _started(entry, record, container)
            elif container is None and record.container_id:
                yield (
                    entry.key,
                    UpdateEndpointRequest(event="die", container_id=record.container_id),
                )


def _tells(entry: JournalEntry, record: EndpointRecord, container: Container) -> bool:
    """Return whether a record has what a container is."""
    same = (record.container_id, record.common_name) == (container.docker_id, container.name)
    labels = _labels(entry, record, container)
    return same and labels.items() <= (record.labels or {}).items()


def _labels(entry: JournalEntry, record: EndpointRecord, container: Container) -> dict[str, str]:
    """Return the labels that an endpoint is to have, one of them for its aliases."""
    labels = {name: value for name, value in container.labels.items() if name != ALIASES}
    # Names with dots or spaces are nobody's in DNS (`netplugin.world.dns.bare_names`).
    told = container.aliases.get(entry.spec.endpoint, ())
    aliases = " ".join(name for name in told if _ALIAS.fullmatch(name))
    if aliases or ALIASES in (record.labels or {}):
        labels[ALIASES] = aliases  # what a record has is replaced, and never taken away
    return labels


def _started(
    entry: JournalEntry, record: EndpointRecord, container: Container
) -> UpdateEndpointRequest:
    return UpdateEndpointRequest(
        event="start",
        ip_address=record.ip_address or record.ipv6_address,
        container_id=container.docker_id,
        labels=_labels(entry, record, container),
        tenant=entry.spec.tenant,
        network=entry.spec.network,
        endpoint_id=entry.spec.endpoint,
        common_name=container.name,
    )
