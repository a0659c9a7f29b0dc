"""Docker's networks: the one place where netmaster speaks to docker.

What a network is to be like is `netmaster.plan.docker_network`'s, when it is to be there is
`netmaster.external_effects`'s. The engine is asked for the version it speaks; the connection is
opened for a request and closed behind it, for requests are rare.

Source: docs/original/netmaster-daemon.md §10.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import aiodocker
from aiodocker import DockerError
from aiohttp import ClientError, ClientTimeout

from core.errors import Conflict, ContivError

TIMEOUT: Final = 30.0
"""Seconds for one request: docker asks its drivers meanwhile."""

NO_CONNECTION: Final = 900
"""What the library calls the status of an answer that did not come."""


class DockerFailed(ContivError):
    """Docker cannot be reached, or did not do what it was asked."""


class DockerClient:
    """The engine at a socket, and the drivers its networks are to have.

    The driver of their addresses has the same name unless it is given another one.
    """

    def __init__(
        self, socket: str, driver: str, *, ipam_driver: str = "", timeout: float = TIMEOUT
    ) -> None:
        self._url = f"unix://{socket}"
        self._driver = driver
        self._ipam_driver = ipam_driver or driver
        self._timeout = ClientTimeout(total=timeout)

    async def create(self, name: str, wanted: Mapping[str, Any]) -> str:
        """Have docker hold a network; return its id. One of our driver is taken as it is.

        Raises Conflict where another driver has the name.
        """
        ipam = {**wanted["IPAM"], "Driver": self._ipam_driver}
        body = {**wanted, "Name": name, "Driver": self._driver, "IPAM": ipam}
        async with self._engine() as engine:
            found = await _find(engine, name)
            if found is None:
                return str((await engine.networks.create(body)).id)
        if found["Driver"] != self._driver:
            raise Conflict("network name used by another driver")
        return str(found["Id"])

    async def delete(self, name: str) -> None:
        """Have docker hold no network of our driver of that name."""
        async with self._engine() as engine:
            found = await _find(engine, name)
            if found is not None and found["Driver"] == self._driver:
                await (await engine.networks.get(found["Id"])).delete()

    @asynccontextmanager
    async def _engine(self) -> AsyncIterator[aiodocker.Docker]:
        """Open a connection; whatever fails while it is open is a DockerFailed."""
        try:
            async with aiodocker.Docker(self._url, timeout=self._timeout) as engine:
                yield engine
        except DockerError as exc:
            raise DockerFailed(self._words(exc)) from exc
        except TimeoutError as exc:
            raise DockerFailed(f"Docker daemon at {self._url} does not answer in time") from exc
        except (ClientError, OSError, ValueError, TypeError, KeyError) as exc:
            raise DockerFailed(f"error during connect: {self._url}: {exc}") from exc

    def _words(self, error: DockerError) -> str:
        if error.status == NO_CONNECTION:
            return (
                f"Cannot connect to the Docker daemon at {self._url}. Is the docker daemon running?"
            )
        return f"Error response from daemon: {error.message}"


async def _find(engine: aiodocker.Docker, name: str) -> dict[str, Any] | None:
    """Return the network of a name; docker lists all whose names hold it."""
    listed = await engine.networks.list(filters={"name": [name]})
    return next((network for network in listed if network["Name"] == name), None)
