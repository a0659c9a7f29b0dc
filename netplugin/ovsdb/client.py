"""The asyncio client of Open vSwitch's database, on top of the replica's thread.

Every call is one transaction with a time limit. It raises SwitchRefused when the server refuses,
and SwitchUnavailable when there is no answer in time; the change may still be applied then. An
outage shorter than the limit only delays it. When a call returns, `ports` shows what it wrote.
"""

import asyncio
import concurrent.futures
import dataclasses
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Self

from core.change_notifier import ChangeNotifier
from core.errors import ContivError, SwitchUnavailable
from core.patience import patient
from core.retry import Loop, retry
from netplugin.ovsdb import row_changes
from netplugin.ovsdb.replica import Job, Replica, fetch_schema, ping
from netplugin.ovsdb.rows import NOTHING, BridgeRow, BridgeSpec, OvsdbView, PortRow, PortSpec

log = logging.getLogger(__name__)

WAIT: Final = patient(10.0)
LIMIT: Final = patient(5.0)
"""Seconds for a connection, and for each call."""


class Ovsdb:
    """A connection to one database server, which reconnects by itself.

    In seconds: `limit` for each transaction, `port_ready` for a new port's OpenFlow number.
    """

    def __init__(self, *, limit: float, port_ready: float = patient(10.0)) -> None:
        self._limit = limit
        self.port_ready = port_ready
        self._remote = ""
        self._loop = asyncio.get_running_loop()
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="ovsdb")
        self._view = OvsdbView()
        self._by_bridge: dict[str, Mapping[str, PortRow]] = {}
        """The ports of the view by bridge, filled on demand: each change wakes several loops."""
        self._changed = ChangeNotifier()
        self._replica: Replica | None = None
        self._run: asyncio.Future[None] | None = None

    @classmethod
    async def connect(
        cls, remote: str, *, wait: float = WAIT, limit: float = LIMIT, lock: str | None = None
    ) -> Self:
        """Return once the whole database is here; `limit` is the time each later call may take.

        With a `lock`, requested from the server, changes are made only while this client holds it.
        `remote` is OVS's own notation (`unix:/run/openvswitch/db.sock`, `tcp:127.0.0.1:6640`).
        Raises SwitchUnavailable when the server has not answered after `wait` seconds.
        """
        self = cls(limit=limit)
        try:
            async with asyncio.timeout(wait):
                await self._start(remote, lock)
        except TimeoutError as exc:
            await self.close()
            raise SwitchUnavailable(f"no Open vSwitch database at {remote}") from exc
        except BaseException:
            await self.close()
            raise
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; outstanding calls fail."""
        if self._replica is not None and self._run is not None and not self._run.done():
            self._replica.stop()
            await asyncio.wait([self._run])
        self._thread.shutdown(wait=False)

    async def follow(self) -> None:
        """Return when the replica has ended, or raise the reason: a task for a supervisor."""
        if self._run is not None:
            await asyncio.shield(self._run)

    @property
    def connected(self) -> bool:
        """True while the replica is in sync with the server."""
        return self._view.connected

    @property
    def contended(self) -> bool:
        """True while another client holds the lock that this one asked for."""
        return self._view.contended

    async def hold_lock(self, within: float) -> bool:
        """Return whether the lock was obtained within the time given, in seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not self._view.locked:
                    await self.changed().wait()
        return self._view.locked

    def changed(self) -> asyncio.Event:
        """Return the event of the next change or reconnection: take it, read, then wait for it."""
        return self._changed.next

    async def ping(self) -> None:
        """Return if the server answers now. Raises SwitchUnavailable.

        A server that hangs keeps its connections, and its clients take minutes to see it.
        """
        try:
            await asyncio.to_thread(ping, self._remote)
        except OSError as exc:
            raise SwitchUnavailable(
                f"ovsdb-server at {self._remote} does not answer: {exc.strerror}: restart "
                f"openvswitch-switch; pods keep their connections"
            ) from exc

    def ports(self, bridge: str | None = None) -> Mapping[str, PortRow]:
        """Return the ports of a bridge, or of all, by name."""
        ports = self._view.ports
        if bridge is None:
            return ports
        if bridge not in self._by_bridge:
            self._by_bridge[bridge] = {n: row for n, row in ports.items() if row.bridge == bridge}
        return self._by_bridge[bridge]

    def numbers(self, bridge: str | None = None) -> frozenset[int]:
        """Return the OpenFlow numbers in use on a bridge, or on all."""
        rows = self.ports(bridge).values()
        numbers = {row.ofport for row in rows if row.ofport is not None and not row.members}
        return frozenset(numbers.union(*(row.numbers for row in rows if row.members)))

    def bridges(self) -> frozenset[str]:
        """Return the names of all bridges."""
        return frozenset(self._view.bridges)

    def bridge_external_ids(self, bridge: str) -> Mapping[str, str]:
        """Return the external ids of a bridge; none for one that does not exist."""
        row = self.bridge(bridge)
        return NOTHING if row is None else row.external_ids

    def bridge(self, name: str) -> BridgeRow | None:
        """Return a bridge; None for one that does not exist."""
        return self._view.bridges.get(name)

    async def set_bridge_external_ids(self, bridge: str, ids: Mapping[str, str | None]) -> None:
        """Write the keys given, remove those that are None, leave the others."""
        await self._commit(row_changes.set_external_ids(bridge, ids))

    async def remember_ended(self, bridge: str, zones: Collection[int]) -> None:
        """Have the bridge's datapath remember ended TCP connections of these zones for 75 s."""
        await self._commit(row_changes.remember_ended(bridge, zones))

    async def ensure_bridge(self, spec: BridgeSpec) -> None:
        """Create the bridge, or correct its settings; its ports are not touched."""
        await self._commit(row_changes.ensure_bridge(spec))

    async def hang_up(self, *bridges: str, within: float = patient(1.0)) -> None:
        """Replace the bridges' controller by a placeholder; return when ovs-vswitchd applied it.

        Flows stay. The controller that `ensure_bridge` sets next is connected to at once. Returns
        after `within` seconds in any case: a switch that is not running has no connection to drop.
        """
        # ovs-vswitchd retries a controller that refused it after a pause of a second at least. A
        # restarted agent, whose target is the same as before, would wait for that pause.
        await self._commit(row_changes.hang_up(bridges))
        await self.applied(within)

    async def delete_bridge(self, name: str, within: float = patient(5.0)) -> None:
        """Remove a bridge with its ports; return when ovs-vswitchd has removed their links.

        One that does not exist is a success. Returns after `within` seconds in any case: a switch
        that is not running removes nothing.
        """
        await self._commit(row_changes.delete_bridge(name))
        await self.applied(within)

    async def applied(self, within: float = patient(5.0)) -> None:
        """Return when ovs-vswitchd has done what was to be confirmed.

        Returns after `within` seconds in any case: a switch that is not running does nothing.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while not self._view.applied:
                    await self.changed().wait()

    async def add_port(self, bridge: str, spec: PortSpec, replaces: Iterable[str] = ()) -> None:
        """Add a port; first delete the ports it replaces and any port of its names.

        `wait_ofport` returns when the switch has created it.
        """
        await self._commit(row_changes.add_port(bridge, spec, tuple(replaces)))

    async def set_policing(self, name: str, *, rate: int, burst: int) -> None:
        """Set the ingress rate limit of a port, in kbit/s and kbit; traffic is not interrupted."""
        await self._commit(row_changes.set_policing(name, rate, burst))

    async def set_mtu(self, name: str, mtu: int) -> None:
        """Request the MTU of an internal port."""
        await self._commit(row_changes.set_mtu(name, mtu))

    async def delete_port(self, bridge: str, name: str) -> None:
        """Remove a port; one that does not exist is a success.

        It blocks ovs-vswitchd's main thread for some 13 ms.
        """
        await self._commit(row_changes.delete_port(bridge, name))

    async def delete_ports(self, ports: Mapping[str, str]) -> None:
        """Remove ports, by name, each from its bridge; those that do not exist are a success.

        `applied` returns when ovs-vswitchd has removed them, of which its main thread is blocked
        for some 13 ms for each.
        """
        await self._commit(row_changes.delete_ports(ports))

    async def withdraw_port(self, bridge: str, name: str, within: float = patient(5.0)) -> None:
        """Remove a port; return when ovs-vswitchd has given up its device.

        Otherwise it would take a new device of that name for the old one. Returns after `within`
        seconds in any case: a switch that is not running has no device.
        """
        await self.delete_ports({name: bridge})
        await self.applied(within)

    async def wait_ofport(self, name: str, within: float | None = None) -> int:
        """Return the OpenFlow number the switch gave the port, maybe not the one asked for.

        Raises SwitchUnavailable with the switch's reason when there is none after `within` seconds;
        by default the connection's `port_ready`.
        """
        limit = self.port_ready if within is None else within
        try:
            async with asyncio.timeout(limit):
                while True:
                    changed = self.changed()
                    row = self._view.ports.get(name)
                    if row is not None and row.ofport is not None and row.ofport > 0:
                        return row.ofport
                    await changed.wait()
        except TimeoutError as exc:
            row = self._view.ports.get(name)
            reason = "no such port" if row is None else row.error or "no OpenFlow number yet"
            raise SwitchUnavailable(f"port {name} not ready after {limit} s: {reason}") from exc

    async def _start(self, remote: str, lock: str | None) -> None:
        schema = await self._schema(remote)
        self._remote = remote
        self._replica = Replica(remote, schema, self._on_view, lock=lock)
        self._run = self._loop.run_in_executor(self._thread, self._replica.run)
        self._run.add_done_callback(self._on_end)
        while not self.connected:
            await self._changed.next.wait()

    async def _schema(self, remote: str) -> Any:
        loop = Loop(log, "Open vSwitch database not reached", about=remote, errors=OSError)

        async def attempt() -> Any:
            return await self._loop.run_in_executor(self._thread, fetch_schema, remote)

        return await retry(loop, attempt)

    async def _commit(self, change: row_changes.OvsdbChange) -> None:
        if self._replica is None or self._run is None or self._run.done():
            raise SwitchUnavailable("the connection to the Open vSwitch database has ended")
        outcome: asyncio.Future[None] = self._loop.create_future()
        deadline = time.monotonic() + self._limit
        self._replica.submit(
            Job(change=change, deadline=deadline, done=lambda exc: self._resolve(outcome, exc))
        )
        await outcome

    # Both callbacks run in the replica's thread and only post to the loop, in order. The replica
    # publishes a view before it reports the transactions that the view contains, so a caller that
    # resumes finds its own change in `ports`.

    def _resolve(self, outcome: "asyncio.Future[None]", exc: ContivError | None) -> None:
        self._loop.call_soon_threadsafe(_set_outcome, outcome, exc)

    def _on_view(self, view: OvsdbView) -> None:
        self._loop.call_soon_threadsafe(self._take, view)

    def _take(self, view: OvsdbView) -> None:
        self._view = view
        self._by_bridge = {}
        self._changed.notify()

    def _on_end(self, run: "asyncio.Future[None]") -> None:
        if not run.cancelled() and (failure := run.exception()) is not None:
            log.critical("the replica of the Open vSwitch database ended", exc_info=failure)
        if self._replica is not None:
            self._replica.close()
        self._view = dataclasses.replace(self._view, connected=False)
        self._changed.notify()


def _set_outcome(outcome: "asyncio.Future[None]", exc: ContivError | None) -> None:
    if outcome.done():
        return
    if exc is None:
        outcome.set_result(None)
    else:
        outcome.set_exception(exc)
