"""The ports of the name service, one on each bridge: `contivdns0` and `contivdns1`.

In come the bridges; out come a network stack (`netplugin.kernel.links.name_space`), its port in
Open vSwitch, and the port in the World, from which `ofnet.pipelines.features.name_port` makes
flows. The pods' connections are served by `netplugin.dns.tcp_server`. Stack and port outlive the
agent, and the next one goes on with them; Open vSwitch takes the port for dead while no agent sends
heartbeats (`netplugin.kernel.packets.heartbeat`).
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.logs import fields
from netplugin.bridges.host.host_ports import InterfaceContext
from netplugin.bridges.reconcile_loop import ReconcileLoop
from netplugin.dns.tcp_server import TcpServer
from netplugin.kernel.links.name_space import NAME_MAC, NameSpace
from netplugin.kernel.packets import heartbeat
from netplugin.kernel.packets.heartbeat import Heartbeat
from netplugin.ovsdb import Continuity, PortRow, PortSpec
from netplugin.world.bridges import port_names
from ofnet.world import Bridge, NamePort

log = logging.getLogger(__name__)

TAG: Final = 4094
"""The port's tag: flooded frames of the bridge's VLANs do not reach it."""

_CONTINUITY: Final = Continuity(identifier=heartbeat.SWITCH, interval=heartbeat.INTERVAL)

_NUMBERS: Final[Mapping[Bridge, int]] = {bridge: number for number, bridge in enumerate(Bridge)}


@dataclass(frozen=True, slots=True)
class _Stack:
    """A stack in use: the name of its port, its sockets, and what works with them."""

    name: str
    space: NameSpace
    servers: tuple[asyncio.Server, ...]
    heartbeat: Heartbeat

    def close(self) -> None:
        self.heartbeat.stop()
        for server in self.servers:
            server.close()
        with suppress(OSError):  # the servers have closed the listening sockets
            self.space.close()


class NamePorts:
    """The ports of both bridges. One per agent; `tx_off` as in `netplugin.kernel.links.pod_links`.

    The namespaces have their files in `directory`.
    """

    def __init__(
        self,
        context: InterfaceContext,
        servers: Mapping[Bridge, TcpServer],
        *,
        directory: Path,
        tx_off: bool,
    ) -> None:
        self._context = context
        self._directory = directory
        self._ovsdb = context.ovsdb
        self._links = context.links
        self._servers = servers
        self._tx_off = tx_off
        self._stacks: dict[Bridge, _Stack] = {}

    def publish(self) -> None:
        """Put the ports that an agent before this one left into the World.

        The flows stay as they are then: requests go on to their servers until this agent is ready.
        """
        for bridge in Bridge:
            if self._rows(bridge):
                self._place(bridge, port_names.NAME_OFPORT)

    async def run(self) -> None:
        """Create the ports, and reconcile them, for ever; at the end nothing answers any more."""
        try:
            await ReconcileLoop(
                name="name service",
                converge=self.converge,
                observe=self._observe,
                triggers=(self._ovsdb.changed,),
                interval=self._context.interval,
            ).run()
        finally:
            await self.close()

    async def close(self) -> None:
        """Give the stacks up, after which requests go on to their servers."""
        for stack in self._stacks.values():
            stack.close()
        self._stacks.clear()
        for server in self._servers.values():
            await server.close()

    async def converge(self) -> object:
        """Create or correct the ports, once; return what `observe` then returns.

        Raises ContivError.
        """
        for bridge in Bridge:
            row = await self._ensure(bridge)
            self._place(bridge, row.ofport or 0)
        return self._observe()

    def _observe(self) -> object:
        return {bridge: self._rows(bridge) for bridge in Bridge}

    def _rows(self, bridge: Bridge) -> dict[str, PortRow]:
        owner = port_names.NAME_ENDPOINT_ID
        return {
            name: row
            for name, row in self._ovsdb.ports(bridge).items()
            if row.external_ids.get(port_names.ENDPOINT_ID) == owner
        }

    def _place(self, bridge: Bridge, ofport: int) -> None:
        state = self._context.world.vxlan if bridge is Bridge.VXLAN else self._context.world.vlan
        state.set_name_port(NamePort(ofport=ofport, mac=NAME_MAC))

    async def _ensure(self, bridge: Bridge) -> PortRow:
        stack = self._stacks.get(bridge)
        if stack is None or stack.name not in await self._links.links():
            stack = await self._open(bridge)
        if stack.name not in self._rows(bridge):
            spec = PortSpec(
                name=stack.name,
                ofport_request=port_names.NAME_OFPORT,
                tag=TAG,
                external_ids={port_names.ENDPOINT_ID: port_names.NAME_ENDPOINT_ID},
                continuity=_CONTINUITY,
            )
            await self._ovsdb.add_port(bridge, spec)
            log.info("port of the name service added", extra=fields(port=stack.name))
        row = self._ovsdb.ports().get(stack.name)
        if row is None or row.ofport is None or row.ofport <= 0:
            await self._ovsdb.wait_ofport(stack.name)
        return self._ovsdb.ports()[stack.name]

    async def _open(self, bridge: Bridge) -> _Stack:
        former = self._stacks.pop(bridge, None)
        if former is not None:
            former.close()
        name = port_names.name_port(_NUMBERS[bridge])
        path = port_names.name_spaces(self._directory)[name]
        space = await self._links.reopen_name_space(name, path)
        if space is None:
            # Not while the link exists: Open vSwitch would take the new one for the old one.
            for row in self._rows(bridge):
                await self._ovsdb.withdraw_port(bridge, row)
            space = await self._links.create_name_space(name, path, tx_off=self._tx_off)
            log.info("link of the name service created", extra=fields(port=name))
        servers = [await self._servers[bridge].start(one) for one in space.listeners]
        stack = _Stack(name, space, tuple(servers), Heartbeat(space.frames, NAME_MAC))
        self._stacks[bridge] = stack
        stack.heartbeat.start()
        return stack
