"""Which hosts there are, and which of their agents are registered: one read of the store.

Agents write their host's record, which stays, and register services under leases, which end with
the agent. Both are read here alone. What agents have applied is for `netmaster.progress`.
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
    """The stored records of hosts, undecoded, and the services each host's agent registered."""

    records: Mapping[HostLabel, Entry]
    services: Mapping[HostLabel, list[ServiceInstance]]

    @property
    def absent(self) -> dict[HostLabel, int]:
        """Return the hosts with a record and without an agent, with the record's revision."""
        return {one: entry.rev for one, entry in self.records.items() if one not in self.services}

    @property
    def known(self) -> frozenset[HostLabel]:
        """Return the hosts that have a record or an agent."""
        return frozenset(self.services).union(self.records)

    def record(self, label: HostLabel) -> HostRecord:
        """Return the record of a host that has one. Raises Invalid if it cannot be read."""
        entry = self.records[label]
        return codec.decode_host(entry.key, entry.value)

    def revision(self, label: HostLabel) -> int | None:
        """Return the revision of a host's record, None if it has none."""
        entry = self.records.get(label)
        return entry.rev if entry else None

    def agent_nodes(self, label: HostLabel) -> list[Node]:
        """Return the addresses at which a host's agent accepts calls of masters."""
        return [
            Node(one.address, one.port)
            for one in self.services.get(label, ())
            if one.service == keys.SERVICE_NETPLUGIN
        ]


async def read(backend: Backend) -> HostInventory:
    """Return the hosts as of now, ordered by label.

    Raises StoreUnavailable. Raises Invalid for an agent's registration that cannot be decoded:
    skipping it would make a host look dead whose agent runs.
    """
    # Records first, registrations second. In the other order an agent that starts between the two
    # reads would look absent, and under the revision of the record it has just written.
    hosts = await backend.snapshot(keys.HOSTS)
    found = await backend.snapshot(keys.SERVICES)
    services: dict[HostLabel, list[ServiceInstance]] = {}
    for key, entry in sorted(found.entries.items()):
        if key.startswith(_PREFIXES):
            instance = codec.decode_service(key, entry.value)
            services.setdefault(HostLabel(instance.hostname), []).append(instance)
    records = {
        HostLabel(keys.after(keys.HOSTS, key)): entry
        for key, entry in sorted(hosts.entries.items())
    }
    return HostInventory(records, services)


_PREFIXES: Final = tuple(map(keys.services, AGENT_SERVICES))
