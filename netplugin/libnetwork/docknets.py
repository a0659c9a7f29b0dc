"""Keeps the networks of this host's engine as the store says: one for each network and group.

For engines with networks of local scope. netmaster creates the networks of one engine, its own
host's; each agent does so for the engine of its host, adopts what is there, and creates again what
somebody removed. What users created themselves stays. In comes the engine's state; what cannot be
done is reported, and tried again by the next look.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Final

from core.errors import ContivError
from core.logs import fields
from core.retry import FaultBoard
from netplugin.libnetwork.engine import Engine, EngineNetwork, EngineState
from netplugin.world.builder import WorldBuilder
from state.docker_networks import MARK, DockerPlace, body_of
from state.records import NetworkType

log = logging.getLogger(__name__)

GRACE: Final = 2.0
"""Seconds for which a network must be absent, or be too many.

netmaster removes a network from docker before its record is gone, and creates it before the record
is there; an agent that interfered would undo both.
"""
UNKNOWN_GRACE: Final = 30.0
"""Seconds for which a network of ours must be in no record, if this agent never saw its record."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    """Something to be done to a network, by its name; `docker_id` is "" for one to be made."""

    name: str
    docker_id: str


class Docknets:
    """One per agent."""

    def __init__(
        self,
        engine: Engine,
        world: WorldBuilder,
        board: FaultBoard,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._world = world
        self._board = board
        self._clock = clock
        self._since: dict[_Suspect, float] = {}
        self._seen_there: set[str] = set()
        self._seen_wanted: set[str] = set()

    async def converge(self, state: EngineState) -> bool:
        """Create and remove what is due; return whether something is not as it should be."""
        if not self._world.complete:
            return True
        now, wanted = self._clock(), self.wanted()
        there = {network.name: network for network in state.networks}
        suspects = dict(self._suspects(wanted, there))
        self._since = {one: self._since.get(one, now) for one in suspects}
        faults = [
            f"docker network {name}: another driver has a network of that name, remove it"
            for name in sorted(wanted.keys() & state.other_names)
        ]
        for one, grace in suspects.items():
            if self._since[one] + grace > now or one.name in state.other_names:
                continue
            try:
                await self._act(one, wanted)
            except ContivError as exc:
                faults.append(f"docker network {one.name}: {exc}")
        self._seen_there |= there.keys() | wanted.keys()
        self._seen_wanted |= wanted.keys()
        self._board.set_faults("docker networks", faults)
        return bool(suspects)

    def wanted(self) -> dict[str, dict[str, Any]]:
        """Return the bodies of all networks that the engine is to have, by their names."""
        places = [
            *(
                DockerPlace(network.tenant, network.name)
                for network in self._world.networks.all()
                if network.type is NetworkType.DATA
            ),
            *(
                DockerPlace(group.tenant, group.network, group.name)
                for group in self._world.endpoints.groups()
            ),
        ]
        bodies = {}
        for place in places:
            network = self._world.networks.named(place.network, place.tenant)
            if network is not None:
                bodies[place.name] = body_of(place, network)
        return bodies

    def _suspects(
        self, wanted: Mapping[str, Mapping[str, Any]], there: Mapping[str, EngineNetwork]
    ) -> Iterator[tuple[_Suspect, float]]:
        """Yield what differs, and for how long it must differ before something is done."""
        for name in wanted.keys() - there.keys():
            yield _Suspect(name, ""), GRACE if name in self._seen_there else 0.0
        for name, network in there.items():
            if MARK not in network.options:
                continue  # a user's
            if name not in wanted:
                grace = GRACE if name in self._seen_wanted else UNKNOWN_GRACE
                yield _Suspect(name, network.docker_id), grace
            elif not _is_as(network, wanted[name]):
                yield _Suspect(name, network.docker_id), GRACE

    async def _act(self, one: _Suspect, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        if one.docker_id:
            await self._engine.delete(one.docker_id)
            log.info("docker network removed", extra=fields(network=one.name))
        elif one.name in wanted:
            await self._engine.create(one.name, wanted[one.name])
            log.info("docker network created", extra=fields(network=one.name))
        self._since.pop(one, None)


def _is_as(network: EngineNetwork, body: Mapping[str, Any]) -> bool:
    """Return whether a network is the one that a body would create."""
    have = sorted(map(_plain, network.subnets))
    return (
        network.options == body["Options"]
        and network.ipam_options == body["IPAM"]["Options"]
        and network.ipv6 == body["EnableIPv6"]
        and have == sorted(map(_plain, body["IPAM"]["Config"]))
    )


def _plain(subnet: Mapping[str, str]) -> tuple[str, str]:
    """Return subnet and gateway; "" for the subnet itself, which stands for no gateway."""
    whole = ip_network(subnet["Subnet"], strict=False)
    gateway = subnet.get("Gateway", "").partition("/")[0]
    return str(whole), "" if gateway == str(whole.network_address) else gateway
