"""The ofnet control channel of this agent: registers with every master and reports progress.

Masters are the instances of service `netmaster.rpc`. Both bridges register with each of them and
report to it (ADR 12); an agent that ends unregisters. Endpoints, peers and policies do not use this
channel, they come by the store. Agents spread registrations with a master that restarted, and
reports (`netplugin.masters.spread`). Next: `netplugin.masters.progress` (what is reported),
`ofnet.rpc.control` (the messages), `ofnet.rpc.jsonrpc` (the transport).
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from typing import Any

from core import keys
from core.errors import Invalid
from core.ids import HostLabel
from core.logs import fields
from core.patience import patient
from core.retry import Loop, Pace, retry
from daemons.certificates.tls import TlsContexts, call_refused
from daemons.certificates.tls_faults import cause
from netplugin.masters.progress import Progress
from netplugin.masters.spread import Spread
from objdb.api import Backend, Entry, Snapshot
from objdb.registration import TTL
from ofnet.rpc import control
from ofnet.rpc.control import AgentReport, Node, OfnetAgent
from ofnet.rpc.jsonrpc import RpcClient, RpcFailed, RpcServer
from ofnet.world import Bridge
from state import codec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlTiming:
    """Time limits and pauses, in seconds."""

    call: float = patient(3.0)
    """A master must answer a call within this time."""
    leave: float = patient(3.0)
    """An agent that ends waits so long for each master."""
    report_every: float = 0.1
    """Pause between two reports to a master; changes in between share one report."""
    repeat_after: float = patient(3.0)
    """An unchanged report is repeated after this time: the master may hold an older one, and takes
    a host that is silent for some of these periods for cut off."""
    pace: Pace = Pace(0.5, 10.0)  # noqa: RUF009 - it cannot be changed
    """Of attempts to reach a master."""


class ControlChannel:
    """The RPC servers of both bridges, and the masters they are registered with."""

    def __init__(
        self,
        backend: Backend,
        host: HostLabel,
        own_address: str,
        progress: Progress,
        timing: ControlTiming | None = None,
        *,
        spread: Spread | None = None,
        tls: TlsContexts | None = None,
    ) -> None:
        self._spread = spread or Spread(lambda: 0)
        self._timing = timing or ControlTiming()
        self._tls = tls
        self._backend = backend
        self._host = host
        self._own = own_address
        self._progress = progress
        self._servers: dict[Bridge, RpcServer] = {}
        self._contacts: dict[str, asyncio.Task[None]] = {}
        self.masters: dict[str, Node] = {}
        """Masters by the key of their registration."""
        # The registration of a master that is gone ends meanwhile, and with it the contact.
        self._loop = Loop(
            log,
            "master does not answer",
            pace=self._timing.pace,
            errors=RpcFailed,
            remedy="is it up, and does a firewall let this host reach its port?",
            patience=TTL,
        )

    async def start(
        self, wanted: Mapping[Bridge, int], report: Callable[[], Any], stack: AsyncExitStack
    ) -> None:
        """Listen on this agent's own address, one port for each bridge, until the stack is closed.

        `report` returns the answer to an inspection. Raises RpcFailed.
        """
        methods = OfnetAgent(add_master=self._add_master, inspect=report).methods()
        for bridge, port in wanted.items():
            server = RpcServer(
                methods,
                host=self._own,
                port=port,
                ssl=self._tls.server() if self._tls else None,
                refuses=call_refused if self._tls else None,
            )
            await server.start()
            stack.push_async_callback(server.close)
            self._servers[bridge] = server
        stack.push_async_callback(self._leave)

    def port(self, bridge: Bridge) -> int:
        """Return the port that a bridge's RPC server listens on."""
        return self._servers[bridge].port

    async def run(self) -> None:
        """Register with every master that appears, for ever; a silent one delays no other."""
        prefix = keys.services(keys.SERVICE_NETMASTER_RPC)
        started = True
        async with asyncio.TaskGroup() as contacts:
            async for item in self._backend.watch(prefix):
                puts = item.entries.values() if isinstance(item, Snapshot) else item.puts
                gone = (
                    self.masters.keys() - item.entries.keys()
                    if isinstance(item, Snapshot)
                    else set(item.deletes)
                )
                for key in gone:
                    self._drop(key)
                for entry in puts:
                    master = _node(entry)
                    if master is not None:
                        # Each put counts, also an identical one: a master that restarted at the
                        # same address has lost its list of agents.
                        self._drop(entry.key)
                        self.masters[entry.key] = master
                        # An agent that starts does so alone. What it hears later, all hear.
                        pause = 0.0 if started else self._spread.before_registration()
                        self._contacts[entry.key] = contacts.create_task(
                            self._stay_in_contact(master, pause)
                        )
                started = False

    def _drop(self, key: str) -> None:
        self.masters.pop(key, None)
        contact = self._contacts.pop(key, None)
        if contact is not None:
            contact.cancel()

    async def _stay_in_contact(self, master: Node, pause: float) -> None:
        """After a pause, register with a master and send reports for ever."""
        await asyncio.sleep(pause)
        with closing(self._client(master, self._timing.call)) as client:
            loop = self._loop.of(str(master))

            async def contact() -> None:
                try:
                    await self._register(client)
                    log.info("registered with master", extra=fields(master=master))
                    loop.works()
                    await self._report(client)
                except RpcFailed as exc:
                    raise RpcFailed(cause(exc)) from exc

            await retry(loop, contact)

    async def _report(self, client: RpcClient) -> None:
        """Report now, soon after each change, and in intervals; ends only by RpcFailed."""
        reported = None
        while True:
            # The event is taken before the state is read: a change in between is not lost.
            changed, now = self._progress.changed(), self._progress.standing
            repeat = self._spread.repeat_after(self._timing.repeat_after)
            if now != reported:
                for node in self._nodes():
                    report = AgentReport(
                        node=node,
                        host=self._host,
                        revisions=now.revisions,
                        errors=now.errors,
                        history=now.history,
                        repeat=repeat,
                    )
                    await control.report(client, report)
                reported = now
            await asyncio.sleep(self._timing.report_every)
            try:
                async with asyncio.timeout(repeat):
                    await changed.wait()
            except TimeoutError:
                reported = None
            await asyncio.sleep(self._spread.before_report())  # changes meanwhile share the report

    async def _add_master(self, master: Node) -> None:
        """Register with a master that asks for it. Raises Invalid unless the store knows it."""
        # Whoever reaches this port could have the agent connect to any address otherwise.
        if master not in self.masters.values():
            raise Invalid(f"{master} is not registered as a master in the store")
        with closing(self._client(master, self._timing.call)) as client:
            await self._register(client)

    async def _register(self, client: RpcClient) -> None:
        for node in self._nodes():
            await control.register(client, node)

    async def _leave(self) -> None:
        """Unregister from every master, within the time limit for each."""
        async with asyncio.TaskGroup() as tasks:
            for master in self.masters.values():
                tasks.create_task(self._unregister(master))

    async def _unregister(self, master: Node) -> None:
        with closing(self._client(master, self._timing.leave)) as client:
            try:
                for node in self._nodes():
                    await control.unregister(client, node)
            except RpcFailed as exc:
                log.info("not unregistered from master", extra=fields(master=master, error=exc))

    def _client(self, master: Node, timeout: float) -> RpcClient:
        context = self._tls.to_masters if self._tls else None
        return RpcClient(master.host, master.port, timeout=timeout, ssl=context)

    def _nodes(self) -> list[Node]:
        return [Node(self._own, server.port) for server in self._servers.values()]


def _node(entry: Entry) -> Node | None:
    """Return the address of a master from its registration; None for an unreadable one."""
    try:
        instance = codec.decode_service(entry.key, entry.value)
        return Node.from_json({"HostAddr": instance.address, "HostPort": instance.port})
    except Invalid as exc:
        log.warning("registration not understood", extra=fields(key=entry.key, error=exc))
        return None
