"""Checks the ports, links, tunnels and sessions on a packet's path.

In come an endpoint, a tunnel or a bridge; out come faults in words. They are read from Open
vSwitch's database, the kernel and the agent's own reports; nothing is changed.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Final

from core.errors import ContivError
from core.ids import EndpointKey, HostLabel
from netplugin.kernel.netns import KernelLinks
from netplugin.masters.progress import Progress
from netplugin.ovsdb import Ovsdb
from netplugin.pods.check import PodCheck
from netplugin.world.bridges import port_names
from ofnet.agent import BridgeAgent
from ofnet.changes import ObjectId, ObjectKind
from ofnet.trace.journey import Place
from ofnet.world import Bridge, Uplink, World

_SHARED: Final = ("bridges", "megaflows")
_OF_PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "tunnel": ("tunnels", "MTU"),
    "host": ("host routes",),
    "router": ("BGP",),
}
"""Kinds of places, with the subjects of the agent's own faults that matter there."""


class DataplaneChecks:
    """Looks at this host. One per agent."""

    def __init__(
        self,
        *,
        agents: Mapping[Bridge, BridgeAgent],
        ovsdb: Ovsdb,
        links: KernelLinks,
        check: PodCheck,
        progress: Progress,
    ) -> None:
        self._agents = agents
        self._ovsdb = ovsdb
        self._links = links
        self._check = check
        self._progress = progress

    def of_bridge(self, bridge: Bridge) -> Iterator[str]:
        """Yield what keeps a bridge from being as wanted."""
        agent = self._agents[bridge]
        if not agent.connected:
            yield f"bridge {bridge} has no OpenFlow session with the agent"
        yield from self._progress.faults(*_SHARED)

    async def of_endpoint(self, key: EndpointKey) -> list[str]:
        """Return the faults of an endpoint of this host."""
        oid = ObjectId(ObjectKind.LOCAL, key)
        invalid = [
            one.desired.faults[oid] for one in self._agents.values() if oid in one.desired.faults
        ]
        found = [f"no flows can be made for it: {why}" for why in invalid]
        try:
            found += await self._check.faults_of(key)
        except ContivError as exc:
            found.append(str(exc))
        return [f"endpoint {key}: {fault}" for fault in found]

    async def of_place(self, place: Place, world: World, port: int) -> list[str]:
        """Return the faults of the place where a packet leaves."""
        found = self._progress.faults(*_OF_PLACES.get(place.kind, ()))
        match place.kind:
            case "endpoint":
                return await self.of_endpoint(EndpointKey(place.name))
            case "tunnel":
                return await self.of_tunnel(place.name, world)
            case "host":
                return found + [fault async for fault in self._of_host_port(port)]
            case "uplink":
                return list(_of_uplinks(world.uplinks))
            case _:
                return found

    async def of_tunnel(self, host: str, world: World) -> list[str]:
        """Return the faults of the tunnel to another host."""
        vtep = world.vteps.get(HostLabel(host))
        if vtep is None:
            known = [one for one in self._progress.faults("tunnels") if host in one]
            return known[:1] or [f"no tunnel port to host {host} on {Bridge.VXLAN}"]
        rows = self._ovsdb.ports(Bridge.VXLAN).values()
        row = next((one for one in rows if one.options.get("remote_ip") == str(vtep.ip)), None)
        if row is None or row.ofport != vtep.ofport:
            return [f"the tunnel port to host {host} is missing on {Bridge.VXLAN}"]
        if row.error:
            return [f"tunnel port {row.name} to host {host}: {row.error}"]
        try:
            link = await self._links.link_towards(vtep.ip)
        except ContivError as exc:
            return [str(exc)]
        return [] if link else [f"no route to {vtep.ip}, the tunnel address of host {host}"]

    async def _of_host_port(self, port: int) -> AsyncIterator[str]:
        rows = {row.ofport: row for bridge in Bridge for row in self._ovsdb.ports(bridge).values()}
        row = rows.get(port)
        name = row.name if row is not None else port_names.HOST_PORT
        if row is None or row.error:
            yield f"the host's port {name} is missing in Open vSwitch"
        elif name not in await self._links.links():
            yield f"link {name} of the host is missing"


def _of_uplinks(uplinks: tuple[Uplink, ...]) -> Iterator[str]:
    if not uplinks:
        yield f"{Bridge.VLAN} has no uplink"
    elif not any(uplink.up for uplink in uplinks):
        yield f"every uplink of {Bridge.VLAN} is down"
