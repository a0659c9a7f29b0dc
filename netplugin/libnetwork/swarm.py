"""Networks of docker's swarm: what a manager allocates, netmaster records.

In come AllocateNetwork and FreeNetwork, which the leading manager sends once for each network of
the cluster (docs/original/docker-plugin.md §5); out go requests to netmaster, and the options that
each node is given when it creates the network (`netplugin.libnetwork.endpoints`). They name our
network, so that no node has to look it up.

Docker does not repeat FreeNetwork, whatever its answer is. So what cannot be freed yet, as a
network that still has endpoints, is kept in a directory and tried again, also by a later agent.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from contivmodel.rpc import AllocNetworkRequest
from core.errors import ContivError, HostError
from core.logs import fields
from core.retry import Loop, Pace, retry
from netplugin.libnetwork.calls import (
    TAG,
    AllocateNetwork,
    EngineSubnet,
    NetworkCall,
    address_of,
    read,
)
from netplugin.libnetwork.pools import tagged
from netplugin.masters.master_api import MasterApi
from netplugin.world.builder import WorldBuilder
from state import docker_networks
from state.docker_networks import DockerPlace, of_options
from state.records import Encap

log = logging.getLogger(__name__)

RETRY: Final = Pace(1.0, 5.0)
"""Of attempts to free a network."""
PATIENCE: Final = 10.0
"""Seconds for which one may be in use after docker has given it up."""


class SwarmNetworks:
    """Serves the calls of a manager. One per agent; `freed` is a directory of its own."""

    def __init__(
        self,
        master: MasterApi,
        world: WorldBuilder,
        encap: Encap,
        freed: Path,
        *,
        pace: Pace = RETRY,
    ) -> None:
        self._master = master
        self._world = world
        self._encap = encap
        self._freed = freed
        self._loop = Loop(log, "networks of the swarm not freed", pace=pace, patience=PATIENCE)
        self._due = asyncio.Event()

    async def allocate_network(self, body: bytes) -> dict[str, object]:
        """Have a network recorded, and created if its options name none."""
        call = read(AllocateNetwork, body)
        tag = call.options.get(TAG)
        named = tagged(self._world, tag) if tag else of_options(call.options)
        subnet, gateway = _subnet(call.ipv4)
        subnet6, gateway6 = _subnet(call.ipv6)
        place = await self._master.allocate_network(
            AllocNetworkRequest(
                docker_id=call.network_id,
                tenant_name=named.tenant if named else "",
                network_name=named.network if named else "",
                service_name=(named.group or "") if named else "",
                encap=self._encap,
                subnet=subnet,
                gateway=gateway,
                ipv6_subnet=subnet6,
                ipv6_gateway=gateway6,
            )
        )
        about = fields(network=call.network_id, place=place)
        log.info("network of the swarm allocated", extra=about)
        return {"Options": {**call.options, **_options(place)}}

    async def free_network(self, body: bytes) -> dict[str, object]:
        """Have a network forgotten, now or later."""
        docker_id = read(NetworkCall, body).network_id
        await self._keep(docker_id)
        try:
            await self._free(docker_id)
        except ContivError as exc:
            log.info("network of the swarm not freed", extra=fields(network=docker_id, error=exc))
            self._due.set()
        return {}

    async def run(self) -> None:
        """Free what could not be freed at once, for ever."""
        self._due.set()
        while True:
            await self._due.wait()
            await retry(self._loop, self._free_kept)

    async def _free_kept(self) -> None:
        """Free all that is kept; one that fails stops no other. Raises the last ContivError."""
        self._due.clear()
        failure: ContivError | None = None
        for docker_id in await asyncio.to_thread(self._kept):
            try:
                await self._free(docker_id)
            except ContivError as exc:
                failure = type(exc)(f"network {docker_id}: {exc}")
        if failure is not None:
            raise failure

    async def _free(self, docker_id: str) -> None:
        await self._master.free_network(docker_id)
        log.info("network of the swarm freed", extra=fields(network=docker_id))
        with suppress(OSError):  # what is freed once more does no harm
            await asyncio.to_thread((self._freed / docker_id).unlink, missing_ok=True)

    async def _keep(self, docker_id: str) -> None:
        def touch() -> None:
            self._freed.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._freed / docker_id).touch()

        try:
            await asyncio.to_thread(touch)
        except OSError as exc:
            raise HostError(f"freed networks {self._freed}: {exc.strerror or exc}") from exc

    def _kept(self) -> list[str]:
        return sorted(path.name for path in self._freed.glob("*"))


def _subnet(data: Sequence[EngineSubnet]) -> tuple[str, str]:
    """Return subnet and gateway, "" for none, of the first subnet of a family."""
    if not data:
        return "", ""
    gateway = address_of(data[0].gateway)
    # The subnet's own address stands for no gateway (`netplugin.libnetwork.pools`).
    return data[0].pool, "" if gateway == data[0].pool.partition("/")[0] else gateway


def _options(place: DockerPlace) -> dict[str, str]:
    """Return the options that name a place (`state.docker_networks.of_options`)."""
    named = {docker_networks.TENANT: place.tenant, docker_networks.NETWORK: place.network}
    return {**named, docker_networks.GROUP: place.group} if place.group else dict(named)
