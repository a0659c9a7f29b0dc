"""The ofnet control channel of this agent: registered with every master, answering inspection.

Masters are the instances of service `netmaster.rpc`; with each of them both bridges register
(design D5). Endpoints, peers and policies do not come this way but through the store. Next:
`ofnet.control` (what is said), `ofnet.rpc` (how).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from core import keys
from core.errors import Invalid
from core.logs import fields
from core.tasks import backoff
from objdb.api import Backend, Entry, Snapshot
from ofnet import control
from ofnet.control import Agent, Node
from ofnet.rpc import Client, RpcFailed, Server
from ofnet.world import Bridge
from state import codec

log = logging.getLogger(__name__)

CALL_TIMEOUT: Final = 3.0


class ControlChannel:
    """Both bridges' RPC ends, and the masters they are registered with."""

    def __init__(self, backend: Backend, own_address: str) -> None:
        self._backend = backend
        self._own = own_address
        self._servers: dict[Bridge, Server] = {}
        self._meetings: dict[str, asyncio.Task[None]] = {}
        self.masters: dict[str, Node] = {}
        """Masters by the key of their registration."""

    async def start(
        self, wanted: Mapping[Bridge, int], report: Callable[[], Any], stack: AsyncExitStack
    ) -> None:
        """Listen on this agent's own address, a port for each bridge; closed with the stack.

        `report` is what inspection is answered with. Raises RpcFailed.
        """
        methods = Agent(add_master=self._add_master, inspect=report).methods()
        for bridge, port in wanted.items():
            server = Server(methods, host=self._own, port=port)
            await server.start()
            stack.push_async_callback(server.close)
            self._servers[bridge] = server

    def port(self, bridge: Bridge) -> int:
        """Return the port a bridge's RPC end listens on."""
        return self._servers[bridge].port

    async def run(self) -> None:
        """Register with every master that comes, for ever; one that does not answer stops none."""
        prefix = keys.services(keys.SERVICE_NETMASTER_RPC)
        async with asyncio.TaskGroup() as meetings:
            async for item in self._backend.watch(prefix):
                puts = item.entries.values() if isinstance(item, Snapshot) else item.puts
                gone = (
                    self.masters.keys() - item.entries.keys()
                    if isinstance(item, Snapshot)
                    else set(item.deletes)
                )
                for key in gone:
                    self._forget(key)
                for entry in puts:
                    master = _node(entry)
                    if master is not None:
                        # each put counts: a master back at the same place knows nobody any more
                        self._forget(entry.key)
                        self.masters[entry.key] = master
                        self._meetings[entry.key] = meetings.create_task(self._meet(master))

    def _forget(self, key: str) -> None:
        self.masters.pop(key, None)
        meeting = self._meetings.pop(key, None)
        if meeting is not None:
            meeting.cancel()

    async def _meet(self, master: Node) -> None:
        """Register with a master, until it has worked."""
        for pause in backoff(first=0.5, limit=10.0):
            try:
                await self._add_master(master)
            except RpcFailed as exc:
                log.warning("not registered with a master", extra=fields(master=master, error=exc))
                await asyncio.sleep(pause)
            else:
                return

    async def _add_master(self, master: Node) -> None:
        client = Client(master.host, master.port, timeout=CALL_TIMEOUT)
        try:
            for bridge in self._servers:
                await control.register(client, Node(self._own, self.port(bridge)))
        finally:
            client.close()
        log.info("registered with a master", extra=fields(master=master))


def _node(entry: Entry) -> Node | None:
    """Return where a registration says that a master listens; None for an unreadable one."""
    try:
        instance = codec.decode_service(entry.key, entry.value)
        return Node.from_json({"HostAddr": instance.address, "HostPort": instance.port})
    except Invalid as exc:
        log.warning("registration not understood", extra=fields(key=entry.key, error=exc))
        return None
