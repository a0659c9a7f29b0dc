"""`/version` and `/info`: what this master is and whom it knows.

Source: docs/original/netmaster-daemon.md §8.
"""

from core import keys
from objdb.api import Backend, Lock
from state import codec


async def version_page(version: str) -> dict[str, str]:
    """Return what `/version` says; builds carry neither commit nor time."""
    return {"GitCommit": "", "Version": version, "BuildTime": ""}


async def info(backend: Backend, lock: Lock, own_host: str) -> dict[str, object]:
    """Return what the leader's `/info` says; the registry names the nodes."""
    return {
        "current-state": "leader",
        "leader-ip": await lock.holder() or "",
        "local-ip": own_host,
        "netmaster-nodes": await _hosts(backend, keys.SERVICE_NETMASTER),
        "netplugin-nodes": await _hosts(backend, keys.SERVICE_NETPLUGIN),
    }


async def _hosts(backend: Backend, service: str) -> list[str]:
    found = await backend.snapshot(keys.services(service))
    return [codec.decode_service(key, entry.value).address for key, entry in found.entries.items()]
