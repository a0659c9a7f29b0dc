"""What tests of resync share."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from core import keys
from core.tasks import supervisor
from netplugin.startup.resync import resync
from objdb.memory import MemoryBackend
from state.records import EndpointRecord, HostRecord
from tests.unit.netplugin.agent import (
    Agent,
    Outside,
    build_agent,
)
from tests.unit.netplugin.records import network
from tests.unit.netplugin.starts import GLOBAL, put


async def resync_of(agent: Agent) -> None:
    """Go on as `netplugin.startup.daemon` does, up to the servers."""
    subsystems = agent.clients, agent.dataplane, agent.host_services, agent.pod_services
    await resync(agent.context, *subsystems)
    for one in subsystems:
        agent.context.start(one.tasks())
    await agent.pod_services.adoption.sweep()


@asynccontextmanager
async def starting(outside: Outside, store: MemoryBackend) -> AsyncIterator[Agent]:
    """Build an agent as `netplugin.startup.daemon` does, up to its resync."""
    async with supervisor() as sup:
        yield await build_agent(outside, sup, store=store)
        assert not sup.stopping
    await store.close()


async def stored(*records: EndpointRecord | HostRecord) -> MemoryBackend:
    """Return a store with a network and the records given."""
    backend = MemoryBackend()
    await put(backend, keys.GLOBAL_CONFIG, GLOBAL)
    await put(backend, keys.network(network().id), network())
    for record in records:
        if isinstance(record, HostRecord):
            await put(backend, keys.host(record.label), record)
        else:
            await put(backend, keys.endpoint(record.key), record)
    return backend
