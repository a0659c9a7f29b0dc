"""What Open vSwitch's database says, read once for all checks of `netplugin preflight`.

In come the agent's settings; out comes the state, or the one reason why there is none. The checks
are in `netplugin.commands.preflight` and `netplugin.commands.underlay_checks`.
"""

# Four checks ask for it, side by side. A connection of each, with a deadline of each, made a busy
# host lack a database in two findings beside a third that had read it.

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from core.errors import ContivError
from core.patience import patient
from netplugin.ovsdb import Ovsdb, PortRow
from netplugin.settings import AgentSettings

OVSDB_WAIT: Final = patient(10.0)
"""Seconds; on a host without a database all checks of it wait for them together."""


@dataclass(frozen=True, slots=True)
class SwitchState:
    """The ports of each bridge, by the bridge's name."""

    ports: Mapping[str, tuple[PortRow, ...]]


class _Reads:
    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._outcome: SwitchState | ContivError | OSError | None = None

    async def get(self, wanted: AgentSettings) -> SwitchState:
        async with self._turn:
            if self._outcome is None:
                try:
                    self._outcome = await _read(wanted)
                except (ContivError, OSError) as exc:
                    self._outcome = exc
        if isinstance(self._outcome, SwitchState):
            return self._outcome
        raise self._outcome


_shared: ContextVar[_Reads] = ContextVar("reads of the switch's database")


@contextmanager
def read_once() -> Iterator[None]:
    """Let all that is asked for in the body, and in tasks that it starts, be read once."""
    token = _shared.set(_Reads())
    try:
        yield
    finally:
        _shared.reset(token)


async def switch_state(wanted: AgentSettings) -> SwitchState:
    """Return the bridges and ports. Raises ContivError or OSError."""
    return await (_shared.get(None) or _Reads()).get(wanted)


async def _read(wanted: AgentSettings) -> SwitchState:
    async with await Ovsdb.connect(wanted.ovsdb, wait=OVSDB_WAIT) as ovsdb:
        ports = {bridge: tuple(ovsdb.ports(bridge).values()) for bridge in ovsdb.bridges()}
    return SwitchState(ports)
