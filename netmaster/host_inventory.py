"""Which hosts there are, and whose agents are registered: the store's word at one moment.

Agents write host records and register services under leases; only here are they read. What an
agent's ends have reported is another matter: `netmaster.progress` judges it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from core import keys
from core.ids import HostLabel
from objdb.api import Backend, Entry
from ofnet.rpc.control import Node
from state import codec
from state.records import HostRecord, ServiceInstance

AGENT_SERVICES: Final = (keys.SERVICE_NETPLUGIN, keys.SERVICE_VTEP, keys.SERVICE_AGENT_REST)


@dataclass(frozen=True, slots=True)
class HostInventory:
    """The records of hosts as they are stored, and what each host has registered under a lease."""

    stored: Mapping[HostLabel, Entry]
    services: Mapping[HostLabel, list[ServiceInstance]]

    @property
    def absent(self) -> dict[HostLabel, int]:
        """Return the hosts with a record and without an agent, with the record's revision."""
        return {one: entry.rev for one, entry in self.stored.items() if one not in self.services}

    @property
    def known(self) -> frozenset[HostLabel]:
        """Return the hosts that have a record or an agent."""
        return frozenset(self.services).union(self.stored)

    def record(self, label: HostLabel) -> HostRecord:
        """Return the record of a host that has one. Raises Invalid if it cannot be read."""
        entry = self.stored[label]
        return codec.decode_host(entry.key, entry.value)

    def revision(self, label: HostLabel) -> int | None:
        """Return the revision of a host's record, None if it has none."""
        entry = self.stored.get(label)
        return entry.rev if entry else None

    def ends(self, label: HostLabel) -> list[Node]:
        """Return where a host's agent takes calls of masters."""
        return [
            Node(one.address, one.port)
            for one in self.services.get(label, ())
            if one.service == keys.SERVICE_NETPLUGIN
        ]


async def look(backend: Backend) -> HostInventory:
    """Return the hosts as of now, in the order of their labels.

    Raises StoreUnavailable, or Invalid for an agent's registration that cannot be read: whose
    agent is there would not be known.
    """
    hosts = await backend.snapshot(keys.HOSTS)
    found = await backend.snapshot(keys.SERVICES)
    services: dict[HostLabel, list[ServiceInstance]] = {}
    for key, entry in sorted(found.entries.items()):
        if key.startswith(_PREFIXES):
            instance = codec.decode_service(key, entry.value)
            services.setdefault(HostLabel(instance.hostname), []).append(instance)
    stored = {
        HostLabel(keys.after(keys.HOSTS, key)): entry
        for key, entry in sorted(hosts.entries.items())
    }
    return HostInventory(stored, services)


_PREFIXES: Final = tuple(map(keys.services, AGENT_SERVICES))
