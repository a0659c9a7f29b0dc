"""Answers which objects are realised: `netmaster.plan.show.conditions`, by what hosts report.

Each answer is of one object, and costs one read of hosts, as `/hosts` does. Lists of objects have
no conditions: they stay as quick as they are.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

from contivmodel.objects import Policy
from core.ids import HostLabel
from netmaster.commits.commit import Committer
from netmaster.host_progress import (
    NO_AGENT,
    OVERDUE,
    Applicable,
    reported_errors,
    unapplied_reason,
)
from netmaster.hosts import host_inventory
from netmaster.hosts.host_inventory import HostInventory
from netmaster.plan.show import conditions
from netmaster.plan.show.conditions import Conditions
from netmaster.view import View
from objdb.api import Backend
from ofnet.rpc.control import AgentReport, Node

MOST: Final = 10_000
"""Objects of which is known since when they are as they are."""


class ConditionsApi:
    """The conditions of objects during one term; `now` and `clock` as for `HostsApi`."""

    def __init__(
        self,
        backend: Backend,
        committer: Committer,
        reports: Mapping[Node, AgentReport],
        *,
        now: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        most: int = MOST,
    ) -> None:
        self._backend = backend
        self._committer = committer
        self._reports = reports
        self._now = now
        self._clock = clock
        self._most = most
        self._since: OrderedDict[tuple[str, str], tuple[bool, float]] = OrderedDict()

    async def of(self, kind: str, key: str, *, errors: bool) -> Conditions:
        """Return the conditions of an object.

        `errors`: the errors of the host that is behind are told, which may name other tenants'
        objects. Raises NotFound, StoreUnavailable.
        """

        def stored(view: View) -> tuple[list[str], HostLabel | None, str]:
            return *conditions.records_of(view, kind, key), view.lineage.current

        # Its revisions are known once the object is committed, which `read` waits for.
        records, home, history = await self._committer.read(stored)
        hosts = await host_inventory.read(self._backend)
        policy = key if kind == Policy.kind else ""
        wanted = Applicable(self._committer.revisions_of(records, policy), history)
        why = partial(self._reason, hosts, wanted, errors=errors)
        needed = {*hosts.services, *([home] if home else ())}
        behind = {label: why(label) for label in sorted(needed)}
        status = not any(behind.values())
        return {
            "key": key,
            "conditions": [conditions.realised(behind, self._seen(kind, key, status=status))],
            "absent": sorted(hosts.absent.keys() - needed),
        }

    def _reason(
        self, hosts: HostInventory, wanted: Applicable, label: HostLabel, *, errors: bool
    ) -> str:
        """Return why a host has not applied what is wanted; "" if it has."""
        if label not in hosts.services:
            return NO_AGENT
        reports = [self._reports.get(node) for node in hosts.agent_nodes(label)]
        reason = unapplied_reason(wanted, reports)
        if not reason:
            return ""
        told = reported_errors(reports, self._clock())
        # that reports are old is no error of anybody's objects
        seen = told if errors else (one for one in told if one == OVERDUE)
        return "; ".join(dict.fromkeys((reason, *seen)))

    def _seen(self, kind: str, key: str, *, status: bool) -> str:
        """Return since when an object is seen as it is now."""
        before = self._since.pop((kind, key), None)
        at = before[1] if before is not None and before[0] is status else self._now()
        self._since[kind, key] = status, at
        if len(self._since) > self._most:
            self._since.popitem(last=False)
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
