"""The official IDL in a thread: it keeps a replica of the database and commits transactions.

In come changes (`netplugin.ovsdb.row_changes`), each with a deadline; out go `OvsdbView`s of the
database and the outcome of each change, by the callbacks given. The IDL reconnects by itself; a
change that met an outage is repeated when the replica is complete again, until its deadline. This
module knows threads and the IDL, and nothing of asyncio (`netplugin.ovsdb.client`).
"""

import collections
import errno
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from core.errors import ContivError, SwitchRefused, SwitchUnavailable
from core.patience import patient
from netplugin.ovsdb.row_changes import OvsdbChange
from netplugin.ovsdb.rows import BridgeRow, OvsdbView
from netplugin.ovsdb.table import InterfaceFacts, PortFacts, PortTable


@contextmanager
def _absent(module: str) -> Iterator[None]:
    """Make imports of a module fail as if it were not installed."""
    before = {module: sys.modules[module]} if module in sys.modules else {}
    sys.modules[module] = None  # type: ignore[assignment]  # how the import system says so
    try:
        yield
    finally:
        del sys.modules[module]
        sys.modules.update(before)


# ovs imports eventlet to find out whether it is in use. That costs 0.2 s, installs a hook for every
# fork and prints advice to stderr, for nothing: the agent does not use eventlet.
with _absent("eventlet"):
    import ovs.jsonrpc
    import ovs.poller
    import ovs.stream
    from ovs.db import idl

DATABASE: Final = "Open_vSwitch"
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "Open_vSwitch": ("bridges", "datapaths", "next_cfg", "cur_cfg"),
    "Bridge": (
        "name",
        "ports",
        "controller",
        "datapath_type",
        "protocols",
        "fail_mode",
        "other_config",
        "external_ids",
    ),
    "Controller": (
        "target",
        "connection_mode",
        "max_backoff",
        "inactivity_probe",
        "controller_rate_limit",
        "controller_burst_limit",
    ),
    "Port": (
        "name",
        "interfaces",
        "tag",
        "vlan_mode",
        "external_ids",
        "bond_mode",
        "bond_active_slave",
        "lacp",
        "other_config",
        "qos",
    ),
    "QoS": ("type", "external_ids"),
    "Datapath": ("datapath_version", "ct_zones", "external_ids"),
    "CT_Zone": ("timeout_policy", "external_ids"),
    "CT_Timeout_Policy": ("timeouts", "external_ids"),
    "Interface": (
        "name",
        "type",
        "ofport",
        "ofport_request",
        "mac_in_use",
        "external_ids",
        "options",
        "error",
        "link_state",
        "lacp_current",
        "ingress_policing_rate",
        "ingress_policing_burst",
        "mtu_request",
        "cfm_mpid",
        "other_config",
    ),
}
_PROBE_MS: Final = round(patient(5000))
_SCHEMA_MS: Final = round(patient(1000))
_RECONNECT_MS: Final = (50, 1000)


@dataclass(slots=True, kw_only=True)
class Job:
    """A submitted change; `done` is called once, with None or the reason of its failure."""

    change: OvsdbChange
    deadline: float
    done: Callable[[ContivError | None], None]
    alone: bool = False
    """Whether it is to share no transaction, since the server refused one that it was in."""


class Replica:
    """The replica of one database server. `run` is the thread's function.

    `submit`, `stop` and `wake` may be called from any thread.
    """

    # Why a thread: the IDL has its own poll loop, and one call of it may parse the whole database,
    # which would block the event loop. All state of the IDL and of this class belongs to the
    # thread. Only the queue (a deque, whose append and popleft are atomic), the eventfd and the
    # published views, which are never changed, cross the boundary.

    def __init__(
        self,
        remote: str,
        schema: Any,
        publish: Callable[[OvsdbView], None],
        *,
        lock: str | None = None,
    ) -> None:
        self._publish = publish
        self._idl = _open(remote, schema)
        # Requested again by the IDL after each reconnection; the server releases the lock of a
        # client that is gone. Each transaction asserts it.
        self._idl.set_lock(lock)
        self._idl.notify = self._note
        self._remote = remote
        self._view = OvsdbView()
        self._seqno = -1
        self._table: PortTable[Any] = PortTable()
        self._noted: list[tuple[str, Any]] = []
        self._queue: collections.deque[Job] = collections.deque()
        self._jobs: list[Job] = []
        self._in_flight: list[Job] = []
        self._transaction: Any = None
        self._written_at = self._conflict_at = -1
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopping = False

    def submit(self, job: Job) -> None:
        """Queue a change."""
        self._queue.append(job)
        self.wake()

    def stop(self) -> None:
        """Ask `run` to end; outstanding changes fail."""
        self._stopping = True
        self.wake()

    def wake(self) -> None:
        """Wake `run` up to read its queue."""
        os.eventfd_write(self._wake, 1)

    def run(self) -> None:
        """Keep the replica in sync until `stop`."""
        try:
            while not self._stopping:
                # This order is the guarantee of `client`: updates are read, then published, then
                # the transactions are reported whose results came with them.
                self._idl.run()
                self._refresh()
                self._advance()
                self._wait()
        finally:
            self._idl.close()

    def close(self) -> None:
        """Fail the outstanding changes once `run` has ended."""
        os.close(self._wake)
        for job in [*self._in_flight, *self._jobs, *self._queue]:
            job.done(SwitchUnavailable(f"connection to {self._remote} closed"))

    @property
    def tables(self) -> Any:
        """The IDL's tables, for a change."""
        return self._idl.tables

    def port(self, name: str) -> tuple[Any, str] | None:
        """Return the row in table Port of that name and its bridge, for a change."""
        bridge = self._table.bridge_of(name)
        row = self.tables["Port"].rows.get(self._table.id_of(name))
        return None if bridge is None or row is None else (row, bridge)

    def _wait(self) -> None:
        poller = ovs.poller.Poller()
        poller.fd_wait(self._wake, ovs.poller.POLLIN)
        self._idl.wait(poller)
        if self._transaction is not None:
            self._transaction.wait(poller)
        for job in [*self._in_flight, *self._jobs]:
            poller.timer_wait(max(0, int((job.deadline - time.monotonic()) * 1000) + 1))
        poller.block()
        for _ in _readable(self._wake):
            pass

    @property
    def _contended(self) -> bool:
        return bool(self._idl.is_lock_contended) and not self._idl.has_lock

    def _ready(self) -> bool:
        connected: bool = self._idl._session.is_connected()  # noqa: SLF001 - the IDL keeps it there
        return connected and self._idl.state == idl.Idl.IDL_S_MONITORING

    # One transaction is in flight at a time, and what comes meanwhile is the next one: ovs-vswitchd
    # goes through all of its ports after each. Changes do not see what others write into the same
    # transaction, as they would not see it in another one that is in flight.

    def _advance(self) -> None:
        while self._queue:
            self._jobs.append(self._queue.popleft())
        while self._transaction is not None or self._write():
            if not self._settle(self._transaction.commit()):
                break
        self._give_up(time.monotonic())

    def _write(self) -> bool:
        """Write the jobs that wait into a transaction; return whether there is one."""
        ready = self._ready() and self._idl.change_seqno != self._conflict_at
        while ready and self._jobs:
            self._written_at = self._idl.change_seqno
            self._transaction = idl.Transaction(self._idl)
            count = next((n for n, job in enumerate(self._jobs) if job.alone), len(self._jobs))
            self._in_flight, self._jobs = self._jobs[: count or 1], self._jobs[count or 1 :]
            for job in self._in_flight:
                try:
                    job.change(self, self._transaction)
                except ContivError as exc:
                    # it may have written a part: the others are written anew
                    self._transaction.abort()
                    self._in_flight.remove(job)
                    self._put_back()
                    job.done(exc)
                    break
            else:
                return True
        return False

    def _settle(self, status: str) -> bool:
        """Report the jobs in flight, or put them back; return whether the transaction has ended."""
        # A transaction is believed only after the server's reply: `commit` sends it and returns
        # INCOMPLETE until then. TRY_AGAIN means that the database changed under the transaction or
        # the connection was lost, so it is not known whether it was applied. The changes are then
        # written anew against the new content, which is safe because they are idempotent, but only
        # once the replica has moved on (`_conflict_at`): the old content would conflict again.
        if status == idl.Transaction.INCOMPLETE:
            return False
        failed = None
        if status in {idl.Transaction.TRY_AGAIN, idl.Transaction.NOT_LOCKED}:
            self._conflict_at = self._written_at
            self._put_back()
        elif status not in {idl.Transaction.SUCCESS, idl.Transaction.UNCHANGED}:
            failed = SwitchRefused(f"Open vSwitch: {self._transaction.get_error()}")
            if len(self._in_flight) > 1:
                for job in self._in_flight:
                    job.alone = True  # to tell which one was refused
                self._put_back()
        for job in self._in_flight:
            job.done(failed)
        self._in_flight, self._transaction = [], None
        return True

    def _put_back(self) -> None:
        self._jobs = [*self._in_flight, *self._jobs]
        self._in_flight, self._transaction = [], None

    def _give_up(self, now: float) -> None:
        """Report the jobs that are late; what is in flight may still be applied."""
        for jobs in (self._in_flight, self._jobs):
            for job in [job for job in jobs if now >= job.deadline]:
                jobs.remove(job)
                why = "is controlled by another agent" if self._contended else "does not answer"
                job.done(SwitchUnavailable(f"Open vSwitch {why} at {self._remote}"))

    def _note(self, _event: str, row: Any, _updates: Any = None) -> None:
        self._noted.append((row._table.name, row))  # noqa: SLF001 - there is no public name

    def _refresh(self) -> None:
        """Publish a new view if the database or the connection changed."""
        ready, contended = self._ready(), self._contended
        state = (self._seqno, self._view.connected, self._view.contended)
        if state == (self._idl.change_seqno, ready, contended):
            return
        if ready and not self._view.connected:
            # After a reconnection the IDL clears its tables without notifying `_note`: start over.
            self._table = PortTable()
            self._noted = [(name, row) for name in _COLUMNS for row in self._rows(name)]
        noted, self._noted = self._noted, []
        for name, row in noted:
            self._take(name, row)
        self._seqno = self._idl.change_seqno
        self._view = OvsdbView(
            revision=self._view.revision + 1,
            connected=ready,
            applied=all(row.cur_cfg >= row.next_cfg for row in self._rows("Open_vSwitch")),
            ports=self._table.rows(),
            bridges={row.name: self._bridge_row(row) for row in self._rows("Bridge")},
            locked=bool(self._idl.has_lock),
            contended=contended,
        )
        self._publish(self._view)

    def _bridge_row(self, row: Any) -> BridgeRow:
        return BridgeRow(
            external_ids=dict(row.external_ids),
            controllers=tuple(controller.target for controller in row.controller),
            fail_mode=_first(row.fail_mode),
            datapath_type=row.datapath_type,
            protocols=frozenset(row.protocols),
            other_config=dict(row.other_config),
            own_devices=self._table.devices(row.name, row.name),
        )

    def _rows(self, table: str) -> list[Any]:
        return list(self.tables[table].rows.values())

    def _take(self, table: str, row: Any) -> None:
        alive = row.uuid in self.tables[table].rows if table in _COLUMNS else False
        if table == "Port":
            self._table.set_port(row.uuid, _port_facts(row) if alive else None)
        elif table == "Interface":
            self._table.set_interface(row.uuid, _interface_facts(row) if alive else None)
        elif table == "Bridge":
            self._table.set_members(row.name, _uuids(row, "ports") if alive else frozenset())


def fetch_schema(remote: str) -> Any:
    """Return the server's schema, limited to the tables in use. Blocks; raises OSError."""
    error, stream = ovs.stream.Stream.open_block(ovs.stream.Stream.open(remote), timeout=_SCHEMA_MS)
    if error:
        raise OSError(error, os.strerror(error))
    connection = ovs.jsonrpc.Connection(stream)
    try:
        reply = _ask(connection, ovs.jsonrpc.Message.create_request("get_schema", [DATABASE]))
    finally:
        connection.close()
    if reply.error:
        raise SwitchRefused(f"{remote} has no database {DATABASE}: {reply.error}")
    helper = idl.SchemaHelper(None, reply.result)
    for table, columns in _COLUMNS.items():
        helper.register_columns(table, list(columns))
    return helper


def ping(remote: str) -> None:
    """Return if the server answers on a new connection. Blocks; raises OSError."""
    error, stream = ovs.stream.Stream.open_block(ovs.stream.Stream.open(remote), timeout=_SCHEMA_MS)
    if error:
        raise OSError(error, os.strerror(error))
    connection = ovs.jsonrpc.Connection(stream)
    try:
        _ask(connection, ovs.jsonrpc.Message.create_request("list_dbs", []))
    finally:
        connection.close()


def _ask(connection: Any, request: Any) -> Any:
    """Return the reply to a request, within a time limit that the library's call lacks."""
    deadline = time.monotonic() + _SCHEMA_MS / 1000
    error = connection.send(request)
    while not error:
        error, reply = connection.recv()
        if not error:
            return reply
        if error != errno.EAGAIN or time.monotonic() > deadline:
            break
        error = 0
        poller = ovs.poller.Poller()
        connection.run()
        connection.wait(poller)
        connection.recv_wait(poller)
        poller.timer_wait(_SCHEMA_MS)
        poller.block()
    raise OSError(error, os.strerror(error))


def _open(remote: str, schema: Any) -> Any:
    replica = idl.Idl(remote, schema, probe_interval=_PROBE_MS, leader_only=False)
    replica._session.reconnect.set_backoff(*_RECONNECT_MS)  # noqa: SLF001 - there is no public setting
    return replica


def _readable(descriptor: int) -> Iterator[int]:
    try:
        yield os.eventfd_read(descriptor)
    except BlockingIOError:
        return


def _port_facts(row: Any) -> PortFacts[Any]:
    return PortFacts(
        name=row.name,
        tag=_first(row.tag) or 0,
        external_ids=dict(row.external_ids),
        interfaces=tuple(_uuids(row, "interfaces")),
        active_mac=_first(row.bond_active_slave),
    )


def _interface_facts(row: Any) -> InterfaceFacts:
    return InterfaceFacts(
        name=row.name,
        type=row.type,
        ofport=_first(row.ofport),
        mac_in_use=_first(row.mac_in_use),
        options=dict(row.options),
        error=_first(row.error),
        link_state=_first(row.link_state),
        lacp_current=_first(row.lacp_current),
        policing_rate=row.ingress_policing_rate,
        policing_burst=row.ingress_policing_burst,
        mtu_request=_first(row.mtu_request),
    )


def _first(values: list[Any]) -> Any:
    return values[0] if values else None


def _uuids(row: Any, column: str) -> frozenset[Any]:
    # `_data` is read because the public attribute copies and converts every element, which costs
    # 5 µs for each port of a bridge at each change.
    return frozenset(atom.value for atom in row._data[column].values)  # noqa: SLF001
