"""Client of this host's docker engine; no other module of the agent calls docker.

Out come the networks of our driver, the running containers and their endpoints, and a wake-up for
each event that concerns them. The API version is negotiated with the engine. What an answer lacks
makes it unreadable: an endpoint that is missing by mistake would be released
(`netplugin.libnetwork.census`).
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import aiodocker
from aiodocker import DockerError
from aiohttp import ClientError, ClientTimeout

from core.errors import ContivError
from core.tasks import background

log = logging.getLogger(__name__)

TIMEOUT: Final = 30.0
"""Seconds for one request; a created network calls this agent back meanwhile."""
OVERLAP: Final = 2
"""Seconds before it is followed of which an engine tells the events once more; clocks are set back
a little now and then. What is missed nevertheless is seen by the next look without events."""
NO_CONNECTION: Final = 900
"""The status in the library's errors when the engine cannot be reached."""
NOT_FOUND: Final = 404
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
    """A running container; `endpoints` are the ids of those that it has on any network."""

    docker_id: str
    name: str
    labels: Mapping[str, str]
    endpoints: frozenset[str]


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

    async def state(self) -> EngineState:
        """Return what the engine has now. Raises EngineFailed."""
        async with self._open() as engine:
            listed = await engine.networks.list()
            own = [one["Id"] for one in listed if self._is_own(one)]
            networks = [await _shown(engine, docker_id) for docker_id in own]
            containers = await engine.containers.list()
            return EngineState(
                networks=tuple(map(_network, filter(None, networks))),
                containers=tuple(_container(one._container) for one in containers),  # noqa: SLF001 - the library has no other way to what was listed
                other_names=frozenset(one["Name"] for one in listed if not self._is_own(one)),
            )

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


def _container(listed: Mapping[str, Any]) -> Container:
    networks = (listed["NetworkSettings"] or {}).get("Networks") or {}
    names = listed["Names"] or [""]
    return Container(
        docker_id=listed["Id"],
        name=names[0],
        labels=listed["Labels"] or {},
        endpoints=frozenset(one["EndpointID"] for one in networks.values() if one["EndpointID"]),
    )
