"""Client of Docker's networks; no other module of netmaster calls Docker.

`netmaster.plan.docker_network` decides what a network looks like,
`netmaster.external.external_effects` when it is created. The API version is negotiated with the
engine. Requests are rare, so each has a connection of its own.

Source: docs/original/netmaster-daemon.md §10.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aiohttp import ClientError, ClientTimeout

from core.errors import Conflict, ContivError
from core.late_imports import importing
from core.patience import patient

if TYPE_CHECKING:
    from aiodocker import Docker, DockerError

TIMEOUT: Final = patient(30.0)
"""Seconds for one request, in which Docker calls its drivers."""

NO_CONNECTION: Final = 900
"""The status in the library's errors when the engine cannot be reached."""


class DockerFailed(ContivError):
    """Docker cannot be reached, or refused a request."""


class DockerClient:
    """The engine at a socket, and the drivers of the networks that are created.

    The IPAM driver is `ipam_driver` if it is given, else it has the network driver's name.
    """

    def __init__(
        self, socket: str, driver: str, *, ipam_driver: str = "", timeout: float = TIMEOUT
    ) -> None:
        self._url = f"unix://{socket}"
        self._driver = driver
        self._ipam_driver = ipam_driver or driver
        self._timeout = ClientTimeout(total=timeout)

    async def create(self, name: str, wanted: Mapping[str, Any]) -> str:
        """Create a network; return its id. An existing one of this driver is used as it is.

        Raises Conflict if a network of another driver has the name.
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
        """Delete the network of that name if it exists and has this driver."""
        async with self._engine() as engine:
            found = await _find(engine, name)
            if found is not None and found["Driver"] == self._driver:
                await (await engine.networks.get(found["Id"])).delete()

    @asynccontextmanager
    async def _engine(self) -> AsyncIterator["Docker"]:
        """Open a connection; raise DockerFailed for everything that fails while it is open."""
        # Imported here: masters without docker need no client of it, nor the home that it reads.
        with importing("the docker client"):
            from aiodocker import Docker, DockerError  # noqa: PLC0415 - see above

        try:
            async with Docker(self._url, timeout=self._timeout) as engine:
                yield engine
        except DockerError as exc:
            raise DockerFailed(self._words(exc)) from exc
        except TimeoutError as exc:
            raise DockerFailed(f"Docker daemon at {self._url} does not answer in time") from exc
        except (ClientError, OSError, ValueError, TypeError, KeyError) as exc:
            raise DockerFailed(f"error during connect: {self._url}: {exc}") from exc

    def _words(self, error: "DockerError") -> str:
        if error.status == NO_CONNECTION:
            return (
                f"Cannot connect to the Docker daemon at {self._url}. Is the docker daemon running?"
            )
        return f"Error response from daemon: {error.message}"


async def _find(engine: "Docker", name: str) -> dict[str, Any] | None:
    """Return the network of a name; Docker's filter also lists names that contain it."""
    listed = await engine.networks.list(filters={"name": [name]})
    return next((network for network in listed if network["Name"] == name), None)
