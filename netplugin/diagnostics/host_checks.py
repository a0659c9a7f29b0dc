"""Checks of the host, every few seconds: what keeps pods from being added, or cuts them off.

In come named probes, each of which returns or raises its fault with the remedy; out go faults of
the host (`netplugin.masters.progress`), which clear by themselves, and the answer whether a check
holds, for `/readyz` and the CNI verb STATUS (`netplugin.pods.readiness`). Nothing here knows what
the probes ask; `netplugin.startup.host_checks` has them.

What must work for each packet, such as flows, ports and rules, is kept and reported by the loops
that own it (`netplugin.bridges.reconcile_loop`). Here is what nobody owns.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from core.errors import ContivError
from core.logs import fields
from core.patience import patient
from core.retry import FaultBoard
from core.step_timer import time_limit
from daemons.health import Check
from netplugin.cni.errors import NotReady
from netplugin.world.peers import Peers

log = logging.getLogger(__name__)

LIMIT: Final = patient(2.0)
"""Seconds for one probe."""
AGAIN: Final = 1.0
"""Seconds between the beginnings of two probes, if the first failed: one that was silent for longer
is repeated at once."""
HOSTS: Final = 100.0
"""Hosts that may ask a shared program at the interval of the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCheck:
    """A check: `probe` raises ContivError while something is wrong, whose text names the remedy.

    `silence` is the fault of a probe that does not end in time, `reason` returns what was heard
    meanwhile, "" for nothing. A fault is told once it has lasted
    `patience` seconds: what another program answers may be late on a busy host. While a check with
    a `code` has a fault no pod can be added, and the code is the answer to STATUS. `shared` says
    that all hosts ask the same program: those of a large cluster do so less often.
    """

    name: str
    probe: Callable[[], Awaitable[object]]
    silence: str
    reason: Callable[[], str] = str
    interval: float = 2.0
    patience: float = 0.0
    code: int | None = None
    shared: bool = False


class HostChecks:
    """The checks of one host. `peers` are the hosts of the cluster, `clock` is monotonic.

    A probe may take `limit` seconds, and follows a failed one after `again`.
    """

    def __init__(
        self,
        checks: Sequence[HostCheck],
        board: FaultBoard,
        *,
        peers: Peers | None = None,
        clock: Callable[[], float] = time.monotonic,
        limit: float = LIMIT,
        again: float = AGAIN,
    ) -> None:
        self._limit = limit
        self._again = again
        self._checks = tuple(checks)
        self._board = board
        self._peers = peers
        self._clock = clock
        self._told: dict[str, str] = {}

    def ready(self) -> dict[str, Check]:
        """Return the checks without which no ADD works: each raises NotReady with its fault."""
        return dict(self._ready())

    def _ready(self) -> Iterator[tuple[str, Check]]:
        for one in self._checks:
            if one.code is not None:
                yield one.name, partial(self._holds, one.name, one.code)

    async def _holds(self, name: str, code: int) -> None:
        if fault := self._told.get(name):
            raise NotReady(fault, code=code)

    async def run(self) -> None:
        """Repeat all checks, for ever."""
        async with asyncio.TaskGroup() as tasks:
            for check in self._checks:
                tasks.create_task(self._repeat(check))

    async def _repeat(self, check: HostCheck) -> None:
        since: float | None = None
        while True:
            began = self._clock()
            fault = await self._fault(check)
            if not fault:
                since = None
                self._tell(check, "")
            else:
                since = began if since is None else since
                if self._clock() - since >= check.patience:
                    self._tell(check, fault)
            again = max(0.0, self._again - (self._clock() - began))
            await asyncio.sleep(again if fault else self._pause(check))

    async def _fault(self, check: HostCheck) -> str:
        try:
            async with time_limit(self._limit):
                await check.probe()
        except TimeoutError:
            reason = check.reason()
            return f"{check.silence} Last heard: {reason}" if reason else check.silence
        except (
            ContivError,
            OSError,
        ) as exc:  # what cannot look, as without a free file, ends no agent
            return str(exc) or type(exc).__name__
        return ""

    def _pause(self, check: HostCheck) -> float:
        shared = self._peers.count() if check.shared and self._peers is not None else 0
        return check.interval * max(1.0, shared / HOSTS)

    def _tell(self, check: HostCheck, fault: str) -> None:
        before = self._told.get(check.name, "")
        self._told[check.name] = fault
        if fault and fault != before:
            log.warning("check of this host failed", extra=fields(check=check.name, error=fault))
        elif before and not fault:
            log.info("check of this host passes again", extra=fields(check=check.name))
        self._board.set_faults(check.name, [fault] if fault else [])
