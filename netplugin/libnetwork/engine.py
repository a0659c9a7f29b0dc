"""Client of this host's docker engine; no other module of the agent calls docker.

Out come the networks of our driver, the running containers and their endpoints, and a wake-up for
each event that concerns them. The API version is negotiated with the engine. What an answer lacks
makes it unreadable: an endpoint that is missing by mistake would be released
(`netplugin.libnetwork.endpoint_check`).
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import aiodocker
from aiodocker import DockerError
from aiohttp import ClientError, ClientTimeout

from core.errors import ContivError
from core.patience import patient
from core.tasks import background

log = logging.getLogger(__name__)

TIMEOUT: Final = patient(30.0)
"""Seconds for one request; a created network calls this agent back meanwhile."""
OVERLAP: Final = 2
"""Seconds before it is followed of which an engine tells the events once more; clocks are set back
a little now and then. What is missed nevertheless is seen by the next look without events."""
NO_CONNECTION: Final = 900
"""The status in the library's errors when the engine cannot be reached."""
NOT_FOUND: Final = 404
SHORT_ID: Final = 12
"""Digits of a container's id that stand for it."""
MAX_ALIASES: Final = 64
"""Aliases of an endpoint that are told of."""
_EVENTS: Final = {
    "type": ["container", "network"],
    "event": ["start", "die", "create", "destroy", "connect", "disconnect", "rename"],
}


class EngineFailed(ContivError):
    """The engine of this host cannot be reached, or refused a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineNetwork:
    """A network of our driver; `endpoints` are the ids of those that the engine knows."""

    docker_id: str
    name: str
    scope: str
    options: Mapping[str, str]
    ipam_options: Mapping[str, str]
    subnets: tuple[Mapping[str, str], ...]
    ipv6: bool
    endpoints: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A running container; `endpoints` are the ids of those that it has on any network.

    `aliases` are more names that it has on networks of our driver, by endpoint.
    """

    docker_id: str
    name: str
    labels: Mapping[str, str]
    endpoints: frozenset[str]
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineState:
    """What the engine has at one moment."""

    networks: tuple[EngineNetwork, ...]
    containers: tuple[Container, ...]
    other_names: frozenset[str]
    """The names of networks of other drivers."""

    @property
    def endpoints(self) -> frozenset[str]:
        """The ids of all endpoints that the engine knows."""
        return frozenset().union(
            *(network.endpoints for network in self.networks),
            *(container.endpoints for container in self.containers),
        )


class Engine:
    """The engine at a socket, as far as networks of `driver` are concerned."""

    def __init__(
        self,
        socket: str,
        driver: str,
        *,
        timeout: float = TIMEOUT,
        now: Callable[[], int] = lambda: int(datetime.now(UTC).timestamp()),
    ) -> None:
        self._now = now
        self._url = f"unix://{socket}"
        self._driver = _plain(driver)
        self._timeout = ClientTimeout(total=timeout)
        # An endpoint has the aliases with which its container was connected, for as long as it is
        # there. The list of containers does not tell them, so each container is asked for once.
        self._aliases: dict[str, tuple[str, ...]] = {}

    async def state(self) -> EngineState:
        """Return what the engine has now. Raises EngineFailed."""
        async with self._open() as engine:
            listed = await engine.networks.list()
            own = [one["Id"] for one in listed if self._is_own(one)]
            networks = [await _shown(engine, docker_id) for docker_id in own]
            containers = [one._container for one in await engine.containers.list()]  # noqa: SLF001 - the library has no other way to what was listed
            await self._learn_aliases(engine, containers, frozenset(own))
            return EngineState(
                networks=tuple(map(_network, filter(None, networks))),
                containers=tuple(_container(one, self._aliases) for one in containers),
                other_names=frozenset(one["Name"] for one in listed if not self._is_own(one)),
            )

    async def version(self) -> str:
        """Return the release of the engine. Raises EngineFailed."""
        async with self._open() as engine:
            return str((await engine.version())["Version"])

    async def network(self, docker_id: str) -> EngineNetwork | None:
        """Return a network, None if there is none of our driver. Raises EngineFailed."""
        async with self._open() as engine:
            shown = await _shown(engine, docker_id)
            return _network(shown) if shown and self._is_own(shown) else None

    async def create(self, name: str, body: Mapping[str, Any]) -> None:
        """Create a network of our driver. Raises EngineFailed."""
        ipam = {**body["IPAM"], "Driver": self._driver}
        wanted = {**body, "Name": name, "Driver": self._driver, "IPAM": ipam}
        async with self._open() as engine:
            await engine.networks.create(wanted)

    async def delete(self, docker_id: str) -> None:
        """Delete a network; one that does not exist is a success. Raises EngineFailed."""
        async with self._open() as engine:
            try:
                await (await engine.networks.get(docker_id)).delete()
            except DockerError as exc:
                if exc.status != NOT_FOUND:
                    raise

    async def follow(self, notify: Callable[[], None]) -> None:
        """Call `notify` once the engine is followed, and after each event, until that ends.

        Raises EngineFailed.
        """
        # What an event says is not used: each leads to a look at the engine's state, which has all
        # that happened before it, also while the engine could not be followed. So no event from
        # before the first look is needed. But that look is not after the subscription: the engine
        # answers a request for events some time before it subscribes, so that no client can tell
        # when it has. What happens between look and subscription would be seen by neither. So the
        # events of that time are asked for too, by the clock of this host, which is the engine's.
        async with self._open(ClientTimeout(total=None)) as engine:
            await engine.version()
            follower = engine.events.subscribe(create_task=False)  # type: ignore[no-untyped-call] # the library's
            following = engine.events.run(
                filters=aiodocker.utils.clean_filters(_EVENTS), since=str(self._now() - OVERLAP)
            )
            async with background("docker events", following) as task:
                notify()
                while await follower.get() is not None:
                    notify()
                await task
        raise EngineFailed(f"the Docker daemon at {self._url} ended its events")

    async def _learn_aliases(
        self, engine: aiodocker.Docker, listed: Sequence[Mapping[str, Any]], own: frozenset[str]
    ) -> None:
        """Ask for the containers with endpoints on our networks that were not seen before."""
        there = {one["Id"]: _endpoints(one, own) for one in listed}
        known = {
            endpoint: self._aliases.get(endpoint) for ids in there.values() for endpoint in ids
        }
        for docker_id, endpoints in there.items():
            if any(known[endpoint] is None for endpoint in endpoints):
                try:
                    shown = await (await engine.containers.get(docker_id)).show()
                except DockerError as exc:
                    if exc.status != NOT_FOUND:
                        raise
                    continue
                known |= _aliases_of(shown, endpoints)
        self._aliases = {one: names for one, names in known.items() if names is not None}

    def _is_own(self, network: Mapping[str, Any]) -> bool:
        return _plain(network["Driver"]) == self._driver

    @asynccontextmanager
    async def _open(self, limit: ClientTimeout | None = None) -> AsyncIterator[aiodocker.Docker]:
        """Open a connection; raise EngineFailed for everything that fails while it is open."""
        try:
            async with aiodocker.Docker(self._url, timeout=limit or self._timeout) as engine:
                yield engine
        except DockerError as exc:
            if exc.status == NO_CONNECTION:
                asked = f"Cannot connect to the Docker daemon at {self._url}: is it running?"
                raise EngineFailed(asked) from exc
            raise EngineFailed(f"Docker daemon: {exc.message}") from exc
        except TimeoutError as exc:
            raise EngineFailed(f"Docker daemon at {self._url} does not answer in time") from exc
        except (ClientError, OSError, ValueError, TypeError, KeyError) as exc:
            raise EngineFailed(f"Docker daemon at {self._url}: {exc!r}") from exc


def _plain(driver: str) -> str:
    """Return the name of a driver as users may write it: a managed plugin's has a version."""
    return driver.removesuffix(":latest")


async def _shown(engine: aiodocker.Docker, docker_id: str) -> dict[str, Any] | None:
    """Return a network with its endpoints, None if it has gone."""
    try:
        return dict(await (await engine.networks.get(docker_id)).show())
    except DockerError as exc:
        if exc.status == NOT_FOUND:
            return None
        raise


def _network(shown: Mapping[str, Any]) -> EngineNetwork:
    ipam = shown["IPAM"]
    return EngineNetwork(
        docker_id=shown["Id"],
        name=shown["Name"],
        scope=shown["Scope"],
        options=shown["Options"] or {},
        ipam_options=ipam["Options"] or {},
        subnets=tuple(ipam["Config"] or ()),
        ipv6=bool(shown["EnableIPv6"]),
        endpoints=frozenset(one["EndpointID"] for one in (shown["Containers"] or {}).values()),
    )


def _container(listed: Mapping[str, Any], aliases: Mapping[str, tuple[str, ...]]) -> Container:
    names = listed["Names"] or [""]
    endpoints = _endpoints(listed)
    return Container(
        docker_id=listed["Id"],
        name=names[0],
        labels=listed["Labels"] or {},
        endpoints=endpoints,
        aliases={one: aliases[one] for one in endpoints if aliases.get(one)},
    )


def _endpoints(shown: Mapping[str, Any], on: frozenset[str] | None = None) -> frozenset[str]:
    """Return the ids of a container's endpoints on certain networks, or on any."""
    networks = (shown["NetworkSettings"] or {}).get("Networks") or {}
    return frozenset(
        one["EndpointID"]
        for one in networks.values()
        if one["EndpointID"] and (on is None or one["NetworkID"] in on)
    )


def _aliases_of(shown: Mapping[str, Any], endpoints: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """Return the aliases that a container has by some of its endpoints."""
    networks = (shown["NetworkSettings"] or {}).get("Networks") or {}
    # Older engines count the beginning of a container's id as an alias of it.
    short = shown["Id"][:SHORT_ID]
    return {
        one["EndpointID"]: tuple(
            sorted({str(name) for name in one.get("Aliases") or ()} - {short})[:MAX_ALIASES]
        )
        for one in networks.values()
        if one["EndpointID"] in endpoints
    }
