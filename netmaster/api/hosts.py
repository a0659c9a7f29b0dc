"""Which hosts there are, whose agents are registered now, and what those have reported.

In come the host records and the service registry from the store, and the reports this master was
given; `netmaster.progress` judges them.
"""

from collections.abc import Mapping

from core import keys
from netmaster.progress import KnownHost
from objdb.api import Backend
from ofnet.control import Node, Report
from state import codec


class Hosts:
    """The hosts of the cluster; `reports` is kept by the control channel."""

    def __init__(self, backend: Backend, reports: Mapping[Node, Report]) -> None:
        self._backend = backend
        self._reports = reports

    async def known(self) -> list[KnownHost]:
        """Return every host that has a record, in the order of their labels."""
        found = await self._backend.snapshot(keys.HOSTS)
        ends = await self._ends()
        records = [codec.decode_host(key, entry.value) for key, entry in found.entries.items()]
        return [
            KnownHost(record=record, ends=ends.get(record.label, {}))
            for record in sorted(records, key=lambda record: record.label)
        ]

    async def _ends(self) -> dict[str, dict[Node, Report | None]]:
        """Return the registered ends of agents, and what they have said, by their host's label."""
        found = await self._backend.snapshot(keys.services(keys.SERVICE_NETPLUGIN))
        ends: dict[str, dict[Node, Report | None]] = {}
        for key, entry in sorted(found.entries.items()):
            instance = codec.decode_service(key, entry.value)
            node = Node(instance.address, instance.port)
            ends.setdefault(instance.hostname, {})[node] = self._reports.get(node)
        return ends
