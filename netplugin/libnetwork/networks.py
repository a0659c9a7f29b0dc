"""Tells which of our networks, and which group, a docker network stands for.

In comes docker's id of a network; out goes its place. What was learned before is in a file
(`netplugin.libnetwork.network_file`). Else it is what the options of its creation name, or the
record that netmaster writes, or what the engine tells. The engine comes last, for its API does not
answer while it starts containers of its own accord.
"""

import asyncio
import logging
from dataclasses import replace
from typing import Final

from core.errors import ContivError, NotFound
from core.ids import GroupName, NetworkName, TenantName, group_key
from core.logs import fields
from core.patience import patient
from netplugin.bridges.record_events import RecordEvents
from netplugin.libnetwork.calls import TAG
from netplugin.libnetwork.engine import Engine, EngineNetwork
from netplugin.libnetwork.network_file import KnownNetwork, NetworkFiles
from netplugin.libnetwork.pools import known, tagged, with_subnet
from netplugin.world.builder import WorldBuilder
from state.docker_networks import MARK, DockerPlace, of_name, of_options

log = logging.getLogger(__name__)

SWARM_SCOPE: Final = "swarm"
"""The scope of networks that a swarm has made."""

RECORD_WAIT: Final = patient(3.0)
"""Seconds to wait for a record: netmaster writes it after it has created the network in docker."""


class NetworkNames:
    """The places of docker's networks. One per agent; `record_wait` in seconds."""

    def __init__(
        self,
        files: NetworkFiles,
        world: WorldBuilder,
        records: RecordEvents,
        engine: Engine,
        *,
        record_wait: float = RECORD_WAIT,
    ) -> None:
        self._files = files
        self._world = world
        self._records = records
        self._engine = engine
        self._record_wait = record_wait

    async def created(
        self, docker_id: str, options: dict[str, str], auxiliary: list[str]
    ) -> DockerPlace | None:
        """Keep what the options of a new network name; return it, None where they name nothing.

        Raises NotFound for a tag that no group and no network has.
        """
        place = tagged(self._world, tag) if (tag := options.get(TAG)) else of_options(options)
        if place is not None:
            await self._keep(docker_id, place, tuple(auxiliary))
        return place

    def known(self) -> list[KnownNetwork]:
        """Return all that has been learned."""
        return self._files.all()

    async def removed(self, docker_id: str) -> None:
        """Forget a network that docker has removed."""
        await self._files.remove(docker_id)

    async def place_of(self, docker_id: str) -> DockerPlace:
        """Return what a docker network stands for.

        Raises NotFound if it stands for nothing that exists, EngineFailed if that cannot be told.
        """
        if (found := self._files.get(docker_id)) is not None:
            return found.place
        place = self._recorded(docker_id) or await self._told(docker_id)
        if place is None:
            place = await self._recorded_soon(docker_id)
        await self._keep(docker_id, place, ())
        return place

    async def learn(self, network: EngineNetwork) -> DockerPlace | None:
        """Keep what the engine tells of a network; return its place, None if it has none."""
        found = self._files.get(network.docker_id)
        if found is not None:
            return found.place
        place = self._recorded(network.docker_id) or self._named(network)
        if place is not None:
            await self._keep(network.docker_id, place, ())
        return place

    async def _keep(self, docker_id: str, place: DockerPlace, auxiliary: tuple[str, ...]) -> None:
        found = self._files.get(docker_id) or KnownNetwork(docker_id=docker_id, place=place)
        kept = auxiliary or found.auxiliary
        await self._files.put(replace(found, place=place, auxiliary=kept))

    def _recorded(self, docker_id: str) -> DockerPlace | None:
        record = self._world.docker_networks.of(docker_id)
        if record is None:
            return None
        return DockerPlace(record.tenant, record.network, record.group)

    async def _recorded_soon(self, docker_id: str) -> DockerPlace:
        try:
            async with asyncio.timeout(self._record_wait):
                while (place := self._recorded(docker_id)) is None:
                    await self._records.records_changed().wait()
                return place
        except TimeoutError as exc:
            raise NotFound(
                f"docker network {docker_id} is none of our networks: name it like one "
                "(network[/tenant] or group[/tenant]), give it the subnet of one, or create it "
                "with --ipam-opt network="
            ) from exc

    async def _told(self, docker_id: str) -> DockerPlace | None:
        try:
            network = await self._engine.network(docker_id)
        except ContivError as exc:
            log.info("docker network not shown", extra=fields(network=docker_id, error=exc))
            return None
        return None if network is None else self._named(network)

    def _named(self, network: EngineNetwork) -> DockerPlace | None:
        """Return what a network's options name, else its name, else whose subnet it has.

        None for nothing that exists.
        """
        for options in (network.ipam_options, network.options):
            try:
                place = tagged(self._world, options[TAG]) if TAG in options else of_options(options)
                if place is not None:
                    return place
            except NotFound as exc:
                log.warning("docker network", extra=fields(network=network.name, error=exc))
        try:
            name, tenant = of_name(network.name)
        except ContivError:
            return self._of_subnet(network)
        return self._of_name(name, tenant) or self._of_subnet(network)

    def _of_subnet(self, network: EngineNetwork) -> DockerPlace | None:
        """Return the one network whose subnet a user has named, as `IpamDriver` takes it."""
        # Not of those that we make, nor of a swarm's: their names and records are on the way.
        if MARK in network.options or network.scope == SWARM_SCOPE:
            return None
        texts = [text for one in network.subnets if (text := one.get("Subnet"))]
        owners = [{one.id for one in with_subnet(self._world, text)} for text in texts]
        ids = set.intersection(*owners) if owners else set()
        found = self._world.networks.get(ids.pop()) if len(ids) == 1 else None
        return None if found is None else DockerPlace(found.tenant, found.name)

    def _of_name(self, name: str, tenant: TenantName) -> DockerPlace | None:
        """Return the network, else the group, of a name: `[group.]network` was one, too."""
        if self._world.networks.named(NetworkName(name), tenant) is not None:
            return DockerPlace(tenant, NetworkName(name))
        group = self._world.endpoints.group(group_key(GroupName(name), tenant))
        if group is not None:
            return DockerPlace(tenant, group.network, group.name)
        own, dot, network = name.partition(".")
        place = DockerPlace(tenant, NetworkName(network), GroupName(own))
        return place if dot and known(self._world, place) else None
