"""Which hosts there are, and whose agents are registered, as the store says at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass

from core import keys
from core.ids import HostLabel
from objdb.api import Backend
from state import codec

AGENT_SERVICES = (keys.SERVICE_NETPLUGIN, keys.SERVICE_VTEP, keys.SERVICE_AGENT_REST)


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts with a record, by its revision, and those with a service under a lease."""

    records: Mapping[HostLabel, int]
    registered: frozenset[HostLabel]

    @property
    def absent(self) -> dict[HostLabel, int]:
        """Return the hosts with a record and without an agent."""
        return {label: rev for label, rev in self.records.items() if label not in self.registered}

    @property
    def known(self) -> frozenset[HostLabel]:
        """Return the hosts that have a record or an agent."""
        return self.registered.union(self.records)


async def look(backend: Backend) -> Hosts:
    """Return the hosts as of now. Raises StoreUnavailable, or Invalid for what cannot be read."""
    hosts = await backend.snapshot(keys.HOSTS)
    services = await backend.snapshot(keys.SERVICES)
    instances = [codec.decode_service(key, entry.value) for key, entry in services.entries.items()]
    return Hosts(
        records={
            HostLabel(keys.after(keys.HOSTS, key)): entry.rev
            for key, entry in hosts.entries.items()
        },
        registered=frozenset(
            HostLabel(instance.hostname)
            for instance in instances
            if instance.service in AGENT_SERVICES
        ),
    )
