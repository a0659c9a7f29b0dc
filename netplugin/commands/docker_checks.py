"""The check of `netplugin preflight` for an engine whose questions for names reach no agent.

In come docker's version, from its socket, its settings file and the host's name servers; out goes
the finding. An engine of Docker 28 asks the servers of the host's resolv.conf from the host's own
namespace, where no agent hears it (docs/docker.md), one of Docker 26 those at loopback addresses.
Servers that are named for docker itself it asks from the container.
"""

import asyncio
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from core.errors import HostError
from core.patience import patient
from netplugin.commands.findings import Note
from netplugin.dns.upstream import Address, servers_of_host
from netplugin.settings import AgentSettings

DAEMON_JSON: Final = Path("/etc/docker/daemon.json")
"""The engine's settings, where its package looks for them."""

FIRST: Final = 27
"""The first major version that may ask any server so: 26.1 does not, 28.5 does."""
FIRST_LOOPBACK: Final = 26
"""The first that may ask a server at a loopback address so; 20.10 asks others in its place."""

ENGINE_WAIT: Final = patient(5.0)
"""Seconds for the engine's answer."""

REMEDY: Final = (
    f'name the servers to docker: "dns": ["ADDRESS"] in {DAEMON_JSON}, or dockerd --dns ADDRESS'
)


async def engine(wanted: AgentSettings) -> str | Note:
    """Return how the engine of this host asks; one that is away is no fault: agents wait for it.

    Raises HostError for settings that cannot be read.
    """
    if wanted.docker is None:
        return f"not asked for in mode {wanted.mode}"
    # Imported here: hosts of other modes need no client of docker.
    from netplugin.libnetwork.engine import Engine, EngineFailed  # noqa: PLC0415 - see above

    docker = Engine(str(wanted.docker.engine), wanted.docker.driver, timeout=ENGINE_WAIT)
    try:
        version = await docker.version()
    except EngineFailed as exc:
        return f"not known yet: {exc}"
    return found(version, await asyncio.to_thread(_settings), servers_of_host())


def found(version: str, settings: str, of_host: Collection[Address] = ()) -> str | Note:
    """Return the finding for a version and the text of the settings, "" for none.

    Raises HostError for settings that cannot be read.
    """
    major = re.match(r"\d{1,4}", version)
    first = FIRST_LOOPBACK if any(one.is_loopback for one in of_host) else FIRST
    if major is None or int(major[0]) < first:
        return f"Docker {version} asks for names from the container"
    if servers := _servers(settings):
        return f"Docker {version} asks {', '.join(servers)} for names from the container"
    return Note(
        f"Docker {version} asks the host's name servers from the host: "
        "names of containers on other hosts do not resolve"
    )


def _settings() -> str:
    try:
        return DAEMON_JSON.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _servers(settings: str) -> list[str]:
    try:
        value = json.loads(settings or "{}")
    except (ValueError, RecursionError) as exc:
        raise HostError(f"{DAEMON_JSON} is not JSON: {exc}") from exc
    servers = value.get("dns") if isinstance(value, dict) else None
    return [str(one) for one in servers] if isinstance(servers, list) else []
