"""The ofnet control channel of this agent: registered with every master, telling how far it is.

Masters are the instances of service `netmaster.rpc`; with each of them both bridges register and
report (ADR 12), and an agent that ends takes them off the masters' lists. Endpoints, peers and
policies do not come this way but through the store. Next: `netplugin.masters.progress` (what is
reported), `ofnet.rpc.control` (how it is said), `ofnet.rpc.jsonrpc` (how it is sent).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, closing
from typing import Any, Final

from core import keys
from core.errors import Invalid
from core.ids import HostLabel
from core.logs import fields
from core.tasks import backoff
from netplugin.masters.progress import Progress
from objdb.api import Backend, Entry, Snapshot
from ofnet.rpc import control
from ofnet.rpc.control import Node, OfnetAgent, Report
from ofnet.rpc.jsonrpc import RpcClient, RpcFailed, RpcServer
from ofnet.world import Bridge
from state import codec

log = logging.getLogger(__name__)

CALL_TIMEOUT: Final = 3.0
LEAVE_WITHIN: Final = 3.0
"""Seconds an agent that ends waits for a master."""
REPORT_EVERY: Final = 0.1
"""Seconds between two reports to a master; what happens meanwhile is told in one."""
REPEAT_AFTER: Final = 10.0
"""Seconds after which a master is told again what has not changed: it may hold a late report."""


class ControlChannel:
    """Both bridges' RPC ends, and the masters they are registered with."""

    def __init__(
        self, backend: Backend, host: HostLabel, own_address: str, progress: Progress
    ) -> None:
        self._backend = backend
        self._host = host
        self._own = own_address
        self._progress = progress
        self._servers: dict[Bridge, RpcServer] = {}
        self._meetings: dict[str, asyncio.Task[None]] = {}
        self.masters: dict[str, Node] = {}
        """Masters by the key of their registration."""

    async def start(
        self, wanted: Mapping[Bridge, int], report: Callable[[], Any], stack: AsyncExitStack
    ) -> None:
        """Listen on this agent's own address, a port for each bridge; ended with the stack.

        `report` is what inspection is answered with. Raises RpcFailed.
        """
        methods = OfnetAgent(add_master=self._add_master, inspect=report).methods()
        for bridge, port in wanted.items():
            server = RpcServer(methods, host=self._own, port=port)
            await server.start()
            stack.push_async_callback(server.close)
            self._servers[bridge] = server
        stack.push_async_callback(self._leave)

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
        """Register with a master and keep it informed, for ever."""
        pauses = _pauses()
        with closing(RpcClient(master.host, master.port, timeout=CALL_TIMEOUT)) as client:
            while True:
                try:
                    await self._register(client)
                    log.info("registered with a master", extra=fields(master=master))
                    pauses = _pauses()
                    await self._inform(client)
                except RpcFailed as exc:
                    log.warning("a master does not answer", extra=fields(master=master, error=exc))
                    await asyncio.sleep(next(pauses))

    async def _inform(self, client: RpcClient) -> None:
        """Report now, whenever something changes and now and then; ends with RpcFailed only."""
        told = None
        while True:
            changed, now = self._progress.changed(), self._progress.standing
            if now != told:
                for node in self._nodes():
                    report = Report(
                        node=node, host=self._host, revisions=now.revisions, errors=now.errors
                    )
                    await control.report(client, report)
                told = now
            await asyncio.sleep(REPORT_EVERY)
            try:
                async with asyncio.timeout(REPEAT_AFTER):
                    await changed.wait()
            except TimeoutError:
                told = None

    async def _add_master(self, master: Node) -> None:
        with closing(RpcClient(master.host, master.port, timeout=CALL_TIMEOUT)) as client:
            await self._register(client)

    async def _register(self, client: RpcClient) -> None:
        for node in self._nodes():
            await control.register(client, node)

    async def _leave(self) -> None:
        """Take this agent off every master's list; one that does not answer is not waited for."""
        async with asyncio.TaskGroup() as partings:
            for master in self.masters.values():
                partings.create_task(self._part(master))

    async def _part(self, master: Node) -> None:
        with closing(RpcClient(master.host, master.port, timeout=LEAVE_WITHIN)) as client:
            try:
                for node in self._nodes():
                    await control.unregister(client, node)
            except RpcFailed as exc:
                log.info("a master was not told", extra=fields(master=master, error=exc))

    def _nodes(self) -> list[Node]:
        return [Node(self._own, server.port) for server in self._servers.values()]


def _pauses() -> Iterator[float]:
    return backoff(first=0.5, limit=10.0)


def _node(entry: Entry) -> Node | None:
    """Return where a registration says that a master listens; None for an unreadable one."""
    try:
        instance = codec.decode_service(entry.key, entry.value)
        return Node.from_json({"HostAddr": instance.address, "HostPort": instance.port})
    except Invalid as exc:
        log.warning("registration not understood", extra=fields(key=entry.key, error=exc))
        return None
