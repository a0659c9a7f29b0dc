"""What a master registers in the store: its REST and RPC services, its role and its addresses.

Other masters and agents find this one by it, and leaders refuse networks that take its addresses,
or those of the store's members (`netmaster.known_underlay`). Next: `objdb.registration`.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from core import keys
from core.errors import HostError
from core.retry import Loop, retry
from core.tasks import Supervisor
from daemons import machine_addresses
from objdb.api import Backend
from objdb.registration import Registration
from objdb.shared_lease import SharedLease
from state import codec
from state.records import ServiceInstance

log = logging.getLogger(__name__)

LOOK_EVERY: Final = 30.0
"""Seconds between two looks at the addresses of this machine and of the store's members."""
RESOLVE_LIMIT: Final = 5.0
"""Seconds that the names of the store's members may take."""
AGENTS_LINKS: Final = "contiv"
"""Links that an agent on this machine made begin so."""


class Registrations:
    """The registrations of one master. `members` are the store's, as `host:port`."""

    def __init__(
        self, backend: Backend, instances: Iterable[ServiceInstance], members: Iterable[str]
    ) -> None:
        self._instances = {one.service: one for one in instances}
        self._hosts = sorted({member.rpartition(":")[0].strip("[]") for member in members})
        self.by_service: Mapping[str, Registration] = {
            one.service: _registration(backend, one) for one in self._instances.values()
        }

    def run(self, tasks: Supervisor) -> None:
        """Keep the services registered, for as long as the supervisor runs."""
        for name, registration in self.by_service.items():
            tasks.supervise(f"service {name}", registration.run())
        tasks.supervise("addresses", self._follow())

    def announce(self, role: str) -> None:
        """Register this master's role."""
        for name, instance in self._instances.items():
            self._set(replace(instance, role=role), name)

    async def look(self) -> None:
        """Register the addresses of this machine and of the store's members as of now.

        Raises HostError.
        """
        found = await asyncio.to_thread(machine_addresses.read, _is_agents)
        known = self._instances[keys.SERVICE_NETMASTER]
        store = sorted({address for host in self._hosts for address in await _resolved(host)})
        self._set(
            replace(
                known,
                addresses=found.addresses,
                next_hops=found.next_hops,
                # A name that cannot be resolved now had an address before.
                store=tuple(store) or known.store,
            ),
            keys.SERVICE_NETMASTER,
        )

    async def _follow(self) -> None:
        loop = Loop(log, "addresses of this machine not read", errors=HostError)
        while True:
            await retry(loop, self.look)
            await asyncio.sleep(LOOK_EVERY)

    def _set(self, instance: ServiceInstance, name: str) -> None:
        if self._instances[name] != instance:
            self._instances[name] = instance
            self.by_service[name].update(codec.encode(instance))


def _registration(backend: Backend, instance: ServiceInstance) -> Registration:
    key = keys.service(instance.service, instance.address, instance.port)
    lease = SharedLease(backend, instance.ttl)
    return Registration(backend, key, codec.encode(instance), lease=lease)


def _is_agents(link: str) -> bool:
    return link.startswith(AGENTS_LINKS)


async def _resolved(host: str) -> list[str]:
    """Return the addresses of a host by name; none if it has none now."""
    try:
        async with asyncio.timeout(RESOLVE_LIMIT):
            found = await asyncio.get_running_loop().getaddrinfo(host, None)
    except (OSError, TimeoutError):
        return []
    return [str(address[0]).partition("%")[0] for *_, address in found]
