"""Both drivers on an agent with fake clients, and an engine that is what a test makes of it."""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from netplugin.libnetwork.endpoints import NetworkDriver
from netplugin.libnetwork.engine import Container, Engine, EngineFailed, EngineNetwork, EngineState
from netplugin.libnetwork.network_file import NetworkFiles
from netplugin.libnetwork.networks import NetworkNames
from netplugin.libnetwork.pools import IpamDriver
from netplugin.startup.docker import handlers
from state.records import NetworkRecord
from tests.unit.netplugin.agent import Agent, Outside, running
from tests.unit.netplugin.records import network


class FakeEngine(Engine):
    """An engine without a process; `away`: it does not answer."""

    def __init__(self) -> None:
        self.networks: dict[str, EngineNetwork] = {}
        self.containers: list[Container] = []
        self.other_names: set[str] = set()
        self.away = False
        self.refusal = ""
        self.made: list[tuple[str, Mapping[str, Any]]] = []
        self.deleted: list[str] = []

    async def state(self) -> EngineState:
        self._answer()
        return EngineState(
            networks=tuple(self.networks.values()),
            containers=tuple(self.containers),
            other_names=frozenset(self.other_names),
        )

    async def network(self, docker_id: str) -> EngineNetwork | None:
        self._answer()
        return self.networks.get(docker_id)

    async def create(self, name: str, body: Mapping[str, Any]) -> None:
        self._answer()
        self.made.append((name, body))
        self.put(
            engine_network(
                f"id-{name}-{len(self.made)}",
                name,
                options=body["Options"],
                ipam_options=body["IPAM"]["Options"],
                subnets=tuple(body["IPAM"]["Config"]),
                ipv6=body["EnableIPv6"],
            )
        )

    async def delete(self, docker_id: str) -> None:
        self._answer()
        self.deleted.append(docker_id)
        self.networks.pop(docker_id, None)

    async def follow(self, notify: Callable[[], None]) -> None:
        self._answer()
        notify()
        raise EngineFailed("the engine ended its events")

    def put(self, network: EngineNetwork) -> None:
        self.networks[network.docker_id] = network

    def _answer(self) -> None:
        if self.away:
            raise EngineFailed("Cannot connect to the Docker daemon")
        if self.refusal:
            raise EngineFailed(self.refusal)


def engine_network(docker_id: str = "d1", name: str = "other", **more: Any) -> EngineNetwork:
    given: dict[str, Any] = {
        "scope": "local",
        "options": {},
        "ipam_options": {},
        "subnets": (),
        "ipv6": False,
        "endpoints": frozenset(),
        **more,
    }
    return EngineNetwork(docker_id=docker_id, name=name, **given)


def container(
    docker_id: str,
    *endpoints: str,
    name: str = "",
    aliases: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    **labels: str,
) -> Container:
    return Container(
        docker_id=docker_id,
        name=name or f"/{docker_id}",
        labels=labels,
        endpoints=frozenset(endpoints),
        aliases=aliases,
    )


@dataclass(kw_only=True)
class Drivers:
    """Both drivers, and all they use."""

    agent: Agent
    engine: FakeEngine
    names: NetworkNames
    files: NetworkFiles
    driver: NetworkDriver
    ipam: IpamDriver
    answers: list[Mapping[str, object]] = field(default_factory=list)

    async def call(self, name: str, **members: object) -> Mapping[str, Any]:
        """Call a driver as an engine does."""
        answer = await handlers(self.driver, self.ipam)[name](json.dumps(members).encode())
        self.answers.append(answer)
        return answer


@asynccontextmanager
async def drivers(
    outside: Outside,
    directory: Path,
    networks: tuple[NetworkRecord, ...] = (network(v6=True),),
    *,
    record_wait: float = 0.01,
    in_swarm: bool = False,
) -> AsyncIterator[Drivers]:
    """Run an agent with both drivers."""
    async with running(outside, networks) as agent:
        files, engine = NetworkFiles(directory), FakeEngine()
        await files.load()
        names = NetworkNames(files, agent.world, agent.records, engine, record_wait=record_wait)
        ipam = IpamDriver(outside.master, agent.world, in_swarm=in_swarm)
        yield Drivers(
            agent=agent,
            engine=engine,
            names=names,
            files=files,
            driver=NetworkDriver(agent.pods, names, ipam, agent.world),
            ipam=ipam,
        )
