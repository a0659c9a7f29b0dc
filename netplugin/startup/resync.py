"""Resync at the start: reads the store and the host once, then lets absence mean gone (ADR 11).

In come parts that are wired and idle. The store's records are read, and the ports of pods, of the
host itself and of tunnels are found in OVSDB. With both the World is complete, and only from then
on is anything deleted. When the switch has acknowledged all flows, the loops of all subsystems
start (`netplugin.startup.daemon`). A step that fails here does not end the start: the loop of that
subject retries it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from core.errors import ContivError, SwitchRefused, SwitchUnavailable
from core.ids import EndpointKey, NetworkId
from core.logs import fields
from core.retry import Loop, retry
from netplugin.pods.registry.pod_host import PodHost
from netplugin.startup.clients import Clients
from netplugin.startup.context import Context
from netplugin.startup.dataplane import Dataplane
from netplugin.startup.host_services import HostServices
from netplugin.startup.pod_services import PodServices
from netplugin.world.bridges import port_names
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge
from state.watch_scope import networks_in

log = logging.getLogger(__name__)


async def resync(
    context: Context,
    clients: Clients,
    dataplane: Dataplane,
    host_services: HostServices,
    pod_services: PodServices,
) -> None:
    """Read store and host, and program the switch."""
    # The order keeps the data plane of a restarted agent untouched. While the World is incomplete
    # no flow is written. From `set_complete` on, the switch gets the flows of the World, and flows
    # of objects that are not in it are deleted. So it comes only after every record and every
    # existing port is there: a port that is missing then loses its flows, and a running pod its
    # network.
    if dataplane.scope is not None:
        dataplane.scope.follow(partial(_used_networks, pod_services.host))
    await _read_records(context, dataplane)
    await clients.underlay_routes.start(clients.store)
    await _adopt_pods(pod_services)
    await pod_services.claims.mark()
    await _publish_ports(dataplane, host_services, pod_services)
    # After the ports: the host's own ones have addresses that pods must not reach.
    await host_services.pod_guard.start()
    await _once("host guard", host_services.host_guard.converge)
    dataplane.world.set_complete()
    # With the flows and not with the other loops, which wait for the switch: a bridge without its
    # controller would keep them waiting.
    context.start(dataplane.flow_tasks())
    await _wait_for_flows(dataplane, context.timing.switch_wait)


def _used_networks(host: PodHost) -> Iterator[NetworkId]:
    """Yield the networks that this host has pods on, and maybe some that do not exist."""
    for entry in host.registry.entries():
        yield entry.spec.network_id
    for row in host.ovsdb.ports().values():  # those without entry are to be adopted
        key = EndpointKey(row.external_ids.get(port_names.ENDPOINT_ID, ""))
        if host.registry.get(key) is None:
            yield from networks_in(key)


async def _read_records(context: Context, dataplane: Dataplane) -> None:
    complete = asyncio.Event()
    context.supervisor.supervise("records", dataplane.feed.run())
    context.supervisor.supervise(
        "record events", dataplane.records.follow(dataplane.feed, complete)
    )
    await complete.wait()


async def _adopt_pods(pod_services: PodServices) -> None:
    # Before the claims, which give the adopted their positions in the store's lineage. An agent
    # that cannot adopt does not go on: it would remove the ports of running pods.
    await retry(Loop(log, "pods not adopted"), pod_services.adoption.adopt)


async def _once(name: str, converge: Callable[[], Awaitable[object]]) -> None:
    """Do what a loop repeats that is started later."""
    try:
        await converge()
    except ContivError as exc:
        log.warning("%s not in sync yet", name, extra=fields(error=exc))


async def _publish_ports(
    dataplane: Dataplane, host_services: HostServices, pod_services: PodServices
) -> None:
    """Put the ports that exist into the World, and create those that can be created now."""
    for key, reason in pod_services.ports.publish().items():
        log.warning("endpoint is not connected", extra=fields(endpoint=key, error=reason))
    host_services.name_ports.publish()
    host_services.infra.place()
    host_services.bgp.publish()
    await _once("tunnel ports", dataplane.ports.converge)
    await _once("host access", host_services.host_access.converge)
    # After host access: the address of an interface to the host is derived from `contivh0`'s.
    pod_services.host_interfaces.publish()


async def _wait_for_flows(dataplane: Dataplane, reminder: float) -> None:
    """Return when the switch has acknowledged the World of this moment.

    The switch may disconnect and return meanwhile. Flows it refuses are not waited for.
    """

    async def attempt() -> None:
        for bridge, agent in dataplane.agents.items():
            await _wait_for_switch(bridge, agent, reminder)
        try:
            await dataplane.reconciler.flush()
        except SwitchRefused as exc:  # `ofnet.agent` retries at every audit
            log.warning("flows refused", extra=fields(error=exc))

    await retry(Loop(log, "flows not acknowledged", errors=SwitchUnavailable), attempt)


async def _wait_for_switch(bridge: Bridge, agent: BridgeAgent, reminder: float) -> None:
    while True:
        try:
            async with asyncio.timeout(reminder):
                await agent.sync.wait_synced()
        except TimeoutError:
            log.warning("no switch yet: is ovs-vswitchd running?", extra=fields(bridge=bridge))
        else:
            return
