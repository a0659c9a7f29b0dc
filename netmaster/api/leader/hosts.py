"""Answers about hosts (`/hosts` and below): list, drain, undrain and remove them.

`netmaster.hosts.host_inventory` reads which hosts there are, `netmaster.host_progress` computes
what they have applied; `netmaster.plan.endpoints.drain` and `netmaster.hosts.cleanups` make the
changes.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from typing_extensions import TypedDict

from contivmodel.answers import Count
from core.errors import Conflict, Invalid, NotFound
from core.ids import HostLabel
from core.logs import fields
from netmaster.commits.commit import Committer
from netmaster.host_progress import Applicable, HostState, ObservedHost, ShownHost, shown_host
from netmaster.hosts import host_inventory
from netmaster.hosts.cleanups import Cleanups
from netmaster.hosts.host_inventory import HostInventory
from netmaster.plan import address_space
from netmaster.plan.change_log import ChangeOrigin, recorded
from netmaster.plan.endpoints import drain
from netmaster.plan.endpoints.cleanup import FORCE_HINT
from netmaster.view import View
from objdb.api import Backend
from ofnet.rpc.control import AgentReport, Node
from state.records import HostRecord

log = logging.getLogger(__name__)


class DrainedHost(TypedDict):
    """Whether a host is drained, and how many endpoints are left on it."""

    label: str
    drained: bool
    endpoints: Count


class RemovedHost(TypedDict):
    """A host that was removed, and how many endpoints with it."""

    label: str
    endpoints: Count


class HostsApi:
    """The hosts during one term.

    `reports` is what agents report over the control channel; `now` is the wall clock, `clock` that
    of the reports.
    """

    def __init__(
        self,
        backend: Backend,
        committer: Committer,
        cleanups: Cleanups,
        reports: Mapping[Node, AgentReport],
        *,
        now: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._committer = committer
        self._cleanups = cleanups
        self._reports = reports
        self._now = now
        self._clock = clock

    async def all(self) -> list[ShownHost]:
        """Return the hosts that have a record, by label."""
        hosts = await host_inventory.read(self._backend)
        return await self._shown(hosts, hosts.records)

    async def one(self, label: HostLabel) -> ShownHost:
        """Return a host; NotFound for one without a record."""
        hosts = await host_inventory.read(self._backend)
        if label not in hosts.records:
            raise _not_found(label)
        (shown,) = await self._shown(hosts, [label])
        return shown

    async def drain(self, label: HostLabel, origin: ChangeOrigin) -> DrainedHost:
        """Give a host no new endpoints; return what `drained` does."""
        await self._check_known(label)
        now = self._now()
        decide = partial(drain.drain, label=label, now=now)
        await self._committer.submit(recorded(decide, origin, now))
        log.info("host drained", extra=fields(host=label))
        return await self.drained(label)

    async def undrain(self, label: HostLabel, origin: ChangeOrigin) -> DrainedHost:
        """Give a host new endpoints again; return what `drained` does."""
        await self._check_known(label)
        decide = partial(drain.undo, label=label)
        await self._committer.submit(recorded(decide, origin, self._now()))
        log.info("host undrained", extra=fields(host=label))
        return await self.drained(label)

    async def drained(self, label: HostLabel) -> DrainedHost:
        """Return whether a host is drained; also for one of which only the drain is left."""
        await self._check_known(label)
        found = await self._committer.read(lambda view: _host_state(view, label))
        return {"label": label, "drained": found.drained, "endpoints": found.endpoints}

    async def remove(self, label: HostLabel, *, force: bool, origin: ChangeOrigin) -> RemovedHost:
        """Remove a host; Conflict while it has an agent or endpoints, unless that is forced."""
        await self._check_known(label)
        hosts = await host_inventory.read(self._backend)
        if label in hosts.services and not force:
            raise Conflict(
                f"host {label} has a running agent; stop its netplugin, {FORCE_HINT.format(label)}"
            )
        found = await self._committer.read(lambda view: _host_state(view, label))
        name = hosts.new_name(label)
        if name is not None and found.endpoints and not force:
            raise Conflict(
                f"host {label} goes on as host {name}, with {found.endpoints} endpoints that began "
                f"under the old name; delete these pods there first, {FORCE_HINT.format(label)}, "
                "which ends their network"
            )
        removed = await self._cleanups.remove_host(
            label,
            hosts.revision(label),
            undrain=True,
            unused=not force,
            origin=origin,
            now=self._now(),
        )
        log.info("host removed", extra=fields(host=label, count=removed))
        return {"label": label, "endpoints": removed}

    async def _shown(self, hosts: HostInventory, labels: Iterable[HostLabel]) -> list[ShownHost]:
        """Return hosts that have a record as REST shows them."""
        observed = [self._observed(hosts, label) for label in labels]

        def stored(view: View) -> tuple[list[HostState], str]:
            faults = address_space.faults(view)
            states = [_host_state(view, host.record.label, faults) for host in observed]
            return states, view.lineage.current

        states, history = await self._committer.read(stored)
        wanted, clock = Applicable(self._committer.revisions, history), self._clock()
        return [
            shown_host(host, wanted, state, clock)
            for host, state in zip(observed, states, strict=True)
        ]

    def _observed(self, hosts: HostInventory, label: HostLabel) -> ObservedHost:
        record = HostRecord(label=label, control_ip="", vtep_ip="", vxlan_port=0)
        faults = list(hosts.faults.get(label, ()))
        try:
            record = hosts.record(label)
        except Invalid as exc:  # the other hosts are shown all the same
            faults.insert(0, str(exc))
        return ObservedHost(
            record=record,
            faults=faults,
            registered=label in hosts.services,
            reports={node: self._reports.get(node) for node in hosts.agent_nodes(label)},
        )

    async def _check_known(self, label: HostLabel) -> None:
        """Raise NotFound for a host without record, agent, endpoints and drain."""

        def is_stored(view: View) -> bool:
            return label in view.drains or label in view.host_endpoints

        if not await self._committer.read(is_stored):
            hosts = await host_inventory.read(self._backend)
            if label not in hosts.known:
                raise _not_found(label)


def _not_found(label: HostLabel) -> NotFound:
    return NotFound(f"host {label} not found")


def _host_state(
    view: View, label: HostLabel, faults: Mapping[HostLabel | None, Sequence[str]] | None = None
) -> HostState:
    absence = view.absences.get(label)
    return HostState(
        endpoints=len(view.host_endpoints.get(label, ())),
        drained=label in view.drains,
        missing_since=absence.since if absence else None,
        faults=(faults or {}).get(label, ()),
    )
