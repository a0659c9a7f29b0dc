"""What this host has learned of docker's networks: one small file for each, by docker's id.

A container that the engine starts with itself (`--restart=always`) wants its endpoint while the
engine's own API does not answer yet; so what was learned once is kept. A file that cannot be read
is passed over, since it can be learned again (`netplugin.libnetwork.networks`).
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from core.errors import HostError
from core.ids import GroupName, NetworkName, TenantName
from core.logs import fields
from core.outside_json import read_json
from state.docker_networks import DockerPlace

log = logging.getLogger(__name__)

T = TypeVar("T")

_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNetwork:
    """A docker network: what it stands for, and the addresses that others than containers have."""

    docker_id: str
    place: DockerPlace
    auxiliary: tuple[str, ...] = ()


class NetworkFiles:
    """The files of one directory, and what is in them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, KnownNetwork] = {}
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read all files. Raises HostError."""
        self._known = await self._call(self._load)

    def get(self, docker_id: str) -> KnownNetwork | None:
        """Return what is known of a network, None for nothing."""
        return self._known.get(docker_id)

    def all(self) -> list[KnownNetwork]:
        """Return all that is known."""
        return list(self._known.values())

    async def put(self, network: KnownNetwork) -> None:
        """Keep what is known of a network. Raises HostError."""
        if self._known.get(network.docker_id) == network:
            return
        async with self._writing:
            await self._call(lambda: self._write(network))
            self._known[network.docker_id] = network

    async def remove(self, docker_id: str) -> None:
        """Forget a network. Raises HostError."""
        async with self._writing:
            if self._known.pop(docker_id, None) is not None:
                path = self._path(docker_id)
                await self._call(lambda: path.unlink(missing_ok=True))

    async def _call(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except OSError as exc:
            raise HostError(f"docker networks {self._directory}: {exc.strerror or exc}") from exc

    def _load(self) -> dict[str, KnownNetwork]:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = (_read(path) for path in sorted(self._directory.glob(f"*{_SUFFIX}")))
        return {network.docker_id: network for network in found if network is not None}

    def _write(self, network: KnownNetwork) -> None:
        path = self._path(network.docker_id)
        half = path.with_suffix(".tmp")
        content = {
            "id": network.docker_id,
            "tenant": network.place.tenant,
            "network": network.place.network,
            "group": network.place.group or "",
            "auxiliary": list(network.auxiliary),
        }
        with half.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)

    def _path(self, docker_id: str) -> Path:
        # The id has been validated as one (`netplugin.libnetwork.calls`): it has no slash.
        return self._directory / f"{docker_id}{_SUFFIX}"


def _read(path: Path) -> KnownNetwork | None:
    try:
        value = read_json(path.read_text(encoding="utf-8"))
        group = str(value["group"])
        return KnownNetwork(
            docker_id=str(value["id"]),
            place=DockerPlace(
                TenantName(str(value["tenant"])),
                NetworkName(str(value["network"])),
                GroupName(group) if group else None,
            ),
            auxiliary=tuple(map(str, value["auxiliary"])),
        )
    except (ValueError, TypeError, KeyError) as exc:
        log.warning("docker network unreadable, passed over", extra=fields(path=path, error=exc))
        return None
