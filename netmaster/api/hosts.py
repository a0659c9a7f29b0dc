"""`/hosts` and what is under it: hosts are shown, get no endpoints, or go altogether.

`netmaster.host_inventory` knows which hosts there are, `netmaster.progress` what they have applied;
`netmaster.plan.endpoints.drain` and `netmaster.cleanup` do what is asked.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from core.errors import Conflict, Invalid, NotFound
from core.ids import HostLabel
from core.logs import fields
from netmaster import host_inventory
from netmaster.api.routes import RouteAction, Target
from netmaster.cleanup import Cleanups
from netmaster.commit import Committer
from netmaster.plan.endpoints import drain
from netmaster.plan.endpoints.cleanup import REMOVE_ANYHOW
from netmaster.progress import KnownHost, Upkeep, state_of
from netmaster.view import View
from objdb.api import Backend
from ofnet.rpc.control import Node, Report
from state.records import HostRecord

log = logging.getLogger(__name__)


class HostsApi:
    """The hosts during one term.

    `reports` is what agents say of themselves, kept by the control channel; `now` is the wall
    clock.
    """

    def __init__(
        self,
        backend: Backend,
        committer: Committer,
        cleanups: Cleanups,
        reports: Mapping[Node, Report],
        *,
        now: Callable[[], float],
    ) -> None:
        self._backend = backend
        self._committer = committer
        self._cleanups = cleanups
        self._reports = reports
        self._now = now

    def calls(self) -> Mapping[RouteAction, Callable[[Target], Awaitable[object]]]:
        """Return what answers to which action."""
        return {
            RouteAction.HOSTS: self._all,
            RouteAction.HOST: self._one,
            RouteAction.DRAIN: self._drain,
            RouteAction.DRAINED: self._drained,
            RouteAction.UNDRAIN: self._undrain,
            RouteAction.REMOVE_HOST: self._remove,
        }

    async def _all(self, _: Target) -> object:
        hosts = await host_inventory.look(self._backend)
        return await self._shown(hosts, hosts.stored)

    async def _one(self, target: Target) -> object:
        """Return a host that has a record."""
        label = HostLabel(target.key)
        hosts = await host_inventory.look(self._backend)
        if label not in hosts.stored:
            raise _not_found(label)
        (shown,) = await self._shown(hosts, [label])
        return shown

    async def _shown(
        self, hosts: host_inventory.HostInventory, labels: Iterable[HostLabel]
    ) -> list[dict[str, Any]]:
        """Return hosts that have a record as REST shows them."""
        known = [self._known_host(hosts, label) for label in labels]
        upkeep = await self._committer.read(
            lambda view: [_upkeep(view, host.record.label) for host in known]
        )
        marks = self._committer.marks
        return [state_of(host, marks, one) for host, one in zip(known, upkeep, strict=True)]

    def _known_host(self, hosts: host_inventory.HostInventory, label: HostLabel) -> KnownHost:
        record, fault = HostRecord(label=label, control_ip="", vtep_ip="", vxlan_port=0), ""
        try:
            record = hosts.record(label)
        except Invalid as exc:  # the others' are as good as before
            fault = str(exc)
        return KnownHost(
            record=record,
            fault=fault,
            registered=label in hosts.services,
            ends={node: self._reports.get(node) for node in hosts.ends(label)},
        )

    async def _drain(self, target: Target) -> object:
        label = await self._mentioned(target)
        await self._committer.submit(lambda view: drain.drain(view, label, self._now()))
        log.info("host drained", extra=fields(host=label))
        return await self._drained(target)

    async def _undrain(self, target: Target) -> object:
        label = await self._mentioned(target)
        await self._committer.submit(lambda view: drain.undo(view, label))
        log.info("host drained no more", extra=fields(host=label))
        return await self._drained(target)

    async def _drained(self, target: Target) -> object:
        """Say whether a host is drained, be it that nothing else of it is known any more."""
        label = await self._mentioned(target)
        found = await self._committer.read(lambda view: _upkeep(view, label))
        return {"label": label, "drained": found.drained, "endpoints": found.endpoints}

    async def _remove(self, target: Target) -> object:
        """Remove a host; Conflict while it has an agent or endpoints, unless that is forced."""
        label = await self._mentioned(target)
        hosts = await host_inventory.look(self._backend)
        if label in hosts.services and not target.force:
            raise Conflict(
                f"host {label} has a running agent; stop its netplugin, "
                f"{REMOVE_ANYHOW.format(label)}"
            )
        removed = await self._cleanups.give_up(
            label, hosts.revision(label), forget=True, unused=not target.force
        )
        log.warning("host removed", extra=fields(host=label, count=removed))
        return {"label": label, "endpoints": removed}

    async def _mentioned(self, target: Target) -> HostLabel:
        """Return the host that is named, NotFound if nothing is known of it."""
        label = HostLabel(target.key)

        def mentioned(view: View) -> bool:
            return label in view.drains or label in view.host_endpoints

        if not await self._committer.read(mentioned):
            hosts = await host_inventory.look(self._backend)
            if label not in hosts.known:
                raise _not_found(label)
        return label


def _not_found(label: HostLabel) -> NotFound:
    return NotFound(f"host {label} not found")


def _upkeep(view: View, label: HostLabel) -> Upkeep:
    absence = view.absences.get(label)
    return Upkeep(
        endpoints=len(view.host_endpoints.get(label, ())),
        drained=label in view.drains,
        missing_since=absence.since if absence else None,
    )
