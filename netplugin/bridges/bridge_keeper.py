"""Keeps the settings of this host's bridges as specified, whoever changes them.

In come the `BridgeSpec`s of the bridges, what OVSDB reports of them (`netplugin.ovsdb`) and whether
each has an OpenFlow session. A bridge that is missing or differs is corrected at once, at most once
per `KeeperTiming.pause` after that: another program that sets it back each time must not keep the
switch busy. What is wrong is an error of the host, as is what was until a moment ago.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from core.logs import fields
from core.patience import patient
from core.retry import FaultBoard, Loop, retry
from netplugin.bridges.reconciler import Reconciler
from netplugin.ovsdb import BridgeRow, BridgeSpec, Ovsdb
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperTiming:
    """In seconds."""

    pause: float = 1.0
    """Between two corrections of a bridge, and between looks at what raises no event."""
    remembered: float = 10.0
    """A corrected bridge is reported for so long, so that operators see a change that recurs."""
    silence: float = patient(5.0)
    """A switch may be without a session for so long before it is reported."""


TIMING: Final = KeeperTiming()


def differences(spec: BridgeSpec, row: BridgeRow) -> list[str]:
    """Return what of a bridge is not as specified, as it is and as it must be."""
    config = row.other_config
    compared = {
        "controllers": (_listed(row.controllers), spec.controller),
        "fail_mode": (row.fail_mode or "none", spec.fail_mode),
        "datapath_type": (row.datapath_type, spec.datapath_type),
        "protocols": (_listed(row.protocols), _listed(spec.protocols)),
        "in-band control": (config.get("disable-in-band", "false") != "true", False),
    }
    if spec.own_port is not None:
        compared["own port"] = (_listed(row.own_devices), spec.own_port.name)
    if spec.datapath_id is not None:
        compared["datapath-id"] = (config.get("datapath-id", "none"), spec.datapath_id)
    return [
        f"{name} was {found}, must be {wanted}"
        for name, (found, wanted) in compared.items()
        if found != wanted
    ]


class BridgeKeeper:
    """The settings of the bridges. One per agent."""

    def __init__(
        self,
        *,
        ovsdb: Ovsdb,
        specs: Sequence[BridgeSpec],
        agents: Mapping[Bridge, BridgeAgent],
        board: FaultBoard,
        reconciler: Reconciler,
        timing: KeeperTiming = TIMING,
    ) -> None:
        self._ovsdb = ovsdb
        self._specs = {spec.name: spec for spec in specs}
        self._agents = agents
        self._board = board
        self._reconciler = reconciler
        self._timing = timing
        self._loop = Loop(log, "bridges not in sync")
        self._lock = asyncio.Lock()
        self._corrected: dict[str, tuple[float, str]] = {}
        self._silent_since: dict[str, float] = {}

    async def run(self) -> None:
        """Correct and report, for ever."""
        while True:
            changed = self._ovsdb.changed()
            await retry(self._loop, self.converge)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.pause):
                    await changed.wait()

    async def converge(self) -> None:
        """Correct the bridges once. Raises SwitchUnavailable or SwitchRefused."""
        async with self._lock:
            try:
                # Without a connection the replica is old: it proves nothing.
                if self._ovsdb.connected:
                    for spec in self._specs.values():
                        await self._correct(spec)
            finally:
                self._board.set_faults("bridges", list(self._faults(_now())))

    async def _correct(self, spec: BridgeSpec) -> None:
        row = self._ovsdb.bridge(spec.name)
        wrong = ["it was missing"] if row is None else differences(spec, row)
        if not wrong:
            return
        last, _ = self._corrected.get(spec.name, (-self._timing.pause, ""))
        # A missing bridge is created at once: ports cannot be added without it.
        if row is not None and _now() < last + self._timing.pause:
            return
        text = "; ".join(wrong)
        self._corrected[spec.name] = (_now(), text)
        log.warning(
            "bridge changed in OVSDB, corrected", extra=fields(bridge=spec.name, error=text)
        )
        await self._ovsdb.ensure_bridge(spec)
        if row is None:
            self._reconciler.on_bridges_recreated()

    def _faults(self, now: float) -> Iterator[str]:
        if self._ovsdb.contended:
            yield "another agent controls this host's Open vSwitch: end one of the two"
        for name, (when, text) in self._corrected.items():
            if now < when + self._timing.remembered:
                yield f"bridge {name}: changed by another program, corrected: {text}"
        for name, spec in self._specs.items():
            if self._agents[Bridge(name)].connected:
                self._silent_since.pop(name, None)
            elif now >= self._silent_since.setdefault(name, now) + self._timing.silence:
                yield (
                    f"bridge {name}: no OpenFlow session: is ovs-vswitchd running, and can it "
                    f"connect to {spec.controller}?"
                )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _now() -> float:
    return asyncio.get_running_loop().time()
