"""Hosts that get no endpoints, or go altogether: `/hosts/{label}/drain` and `/hosts/{label}`.

`netmaster.plan.drain` and `netmaster.cleanup` do it; `netmaster.registry` knows which hosts there
are.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping

from core.errors import Conflict, NotFound
from core.ids import HostLabel
from core.logs import fields
from netmaster import registry
from netmaster.api.routes import Action, Target
from netmaster.cleanup import Cleanups
from netmaster.commit import Committer
from netmaster.plan import drain
from netmaster.view import View
from objdb.api import Backend

log = logging.getLogger(__name__)


class Hosts:
    """What can be done to hosts during one term; `now` is the wall clock."""

    def __init__(
        self,
        backend: Backend,
        committer: Committer,
        cleanups: Cleanups,
        *,
        now: Callable[[], float],
    ) -> None:
        self._backend = backend
        self._committer = committer
        self._cleanups = cleanups
        self._now = now

    def calls(self) -> Mapping[Action, Callable[[Target], Awaitable[object]]]:
        """Return what answers to which action."""
        return {
            Action.DRAIN: self._drain,
            Action.DRAINED: self._drained,
            Action.UNDRAIN: self._undrain,
            Action.REMOVE_HOST: self._remove,
        }

    async def _drain(self, target: Target) -> object:
        label = await self._known(target)
        await self._committer.submit(lambda view: drain.drain(view, label, self._now()))
        log.info("host drained", extra=fields(host=label))
        return await self._drained(target)

    async def _undrain(self, target: Target) -> object:
        label = await self._known(target)
        await self._committer.submit(lambda view: drain.undo(view, label))
        log.info("host drained no more", extra=fields(host=label))
        return await self._drained(target)

    async def _drained(self, target: Target) -> object:
        label = await self._known(target)
        drained, count = await self._committer.read(
            lambda view: (label in view.drains, _endpoints(view, label))
        )
        return {"label": label, "drained": drained, "endpoints": count}

    async def _remove(self, target: Target) -> object:
        """Remove a host; Conflict while it has an agent or endpoints, unless that is forced."""
        label = await self._known(target)
        hosts = await registry.look(self._backend)
        if not target.force:
            count = await self._committer.read(lambda view: _endpoints(view, label))
            _check_unused(label, registered=label in hosts.registered, endpoints=count)
        removed = await self._cleanups.give_up(label, hosts.records.get(label), forget=True)
        log.warning("host removed", extra=fields(host=label, count=removed))
        return {"label": label, "endpoints": removed}

    async def _known(self, target: Target) -> HostLabel:
        """Return the host that is named, NotFound if nothing is known of it."""
        label = HostLabel(target.key)

        def mentioned(view: View) -> bool:
            return label in view.drains or label in view.host_endpoints

        if not await self._committer.read(mentioned):
            hosts = await registry.look(self._backend)
            if label not in hosts.known:
                raise NotFound(f"host {label} not found")
        return label


def _endpoints(view: View, label: HostLabel) -> int:
    return len(view.host_endpoints.get(label, ()))


def _check_unused(label: HostLabel, *, registered: bool, endpoints: int) -> None:
    remedy = f"or remove it all the same: netctl host rm {label} --force"
    if registered:
        raise Conflict(f"host {label} has a running agent; stop its netplugin, {remedy}")
    if endpoints:
        raise Conflict(f"host {label} has {endpoints} endpoints; delete them, {remedy}")
