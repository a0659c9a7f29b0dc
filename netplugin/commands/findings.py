"""The findings of `netplugin preflight`, one for each check.

A check (`netplugin.commands.preflight`, `netplugin.commands.store_checks`,
`netplugin.commands.underlay_checks`) returns what it found, or a `Note` for something that an agent
can run without, or raises the error that the agent itself would end with or report.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.errors import ContivError
from netplugin.settings import AgentSettings


@dataclass(frozen=True, slots=True)
class Note:
    """A limitation: an agent starts, but some of its functions may not work."""

    found: str


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check; `remedy` is what to do about a fault or limitation."""

    subject: str
    found: str
    remedy: str = ""
    lacking: bool = False

    def __str__(self) -> str:
        verdict = "LACKS" if self.lacking else "NOTE" if self.remedy else "ok"
        line = f"{verdict:6} {self.subject}: {self.found}"
        return f"{line}\n       -> {self.remedy}" if self.remedy else line


Check = Callable[[AgentSettings], Awaitable[str | Note]]
"""Returns what it found; raises ContivError or OSError for a fault."""


async def finding(subject: str, check: Check, remedy: str, wanted: AgentSettings) -> Finding:
    """Run a check and return its finding."""
    try:
        found = await check(wanted)
    except (ContivError, OSError) as exc:
        return Finding(subject, str(exc), remedy, lacking=True)
    if isinstance(found, Note):
        return Finding(subject, found.found, remedy)
    return Finding(subject, found)
