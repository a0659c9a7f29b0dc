"""`/version`, `/info` and the master's part of `/debug/ofnet`.

Source: docs/original/netmaster-daemon.md §8.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from core import keys
from core.errors import Invalid
from core.version import BUILD_TIME, GIT_COMMIT
from netmaster.api.http.follower_info import FAULTS
from objdb.api import Backend, Lock
from ofnet.rpc.control import Node, OfnetMaster
from state import codec


class StatusApi:
    """What this master tells about itself and the nodes it knows; `own` is its ofnet address.

    `faults` returns what fails at this master now.
    """

    def __init__(
        self,
        version: str,
        backend: Backend,
        lock: Lock,
        *,
        ofnet: OfnetMaster,
        own: Node,
        faults: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._version = version
        self._backend = backend
        self._lock = lock
        self._ofnet = ofnet
        self._own = own
        self._faults = faults

    def version(self) -> dict[str, str]:
        """Return what `/version` says."""
        return {"GitCommit": GIT_COMMIT, "Version": self._version, "BuildTime": BUILD_TIME}

    async def info(self) -> dict[str, object]:
        """Return what the leader's `/info` says, with the nodes in the service registry."""
        faults = {FAULTS: [*told]} if (told := self._faults()) else {}
        return {
            "current-state": "leader",
            "leader-ip": await self._lock.holder() or "",
            "local-ip": self._own.host,
            "netmaster-nodes": await self._hosts(keys.SERVICE_NETMASTER),
            "netplugin-nodes": await self._hosts(keys.SERVICE_NETPLUGIN),
            **faults,
        }

    def ofnet(self) -> dict[str, object]:
        """Return the control channel's part of `/debug/ofnet`: the agents that are connected."""
        return self._ofnet.inspect(self._own)

    async def _hosts(self, service: str) -> list[str]:
        found = await self._backend.snapshot(keys.services(service))
        addresses = []
        for key, entry in found.entries.items():
            with suppress(Invalid):  # `/hosts` says which
                addresses.append(codec.decode_service(key, entry.value).address)
        return addresses
