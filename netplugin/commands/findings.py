"""What `netplugin preflight` says of a host: a finding for each subject it looks at.

A look (`netplugin.commands.preflight`, `netplugin.commands.store_checks`) returns what it found, or
a `Note` of what an agent can do without, or raises what the agent itself would end or complain
with.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from core.errors import ContivError
from netplugin.settings import Settings


@dataclass(frozen=True, slots=True)
class Note:
    """Something to know: an agent works, and some of what it is there for may not."""

    found: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one subject; `remedy` says what to do where something is amiss."""

    subject: str
    found: str
    remedy: str = ""
    lacking: bool = False

    def __str__(self) -> str:
        verdict = "LACKS" if self.lacking else "NOTE" if self.remedy else "ok"
        line = f"{verdict:6} {self.subject}: {self.found}"
        return f"{line}\n       -> {self.remedy}" if self.remedy else line


Look = Callable[[Settings], Awaitable[str | Note]]
"""Returns what was found; raises ContivError or OSError where it does not do."""


async def finding(subject: str, look: Look, remedy: str, wanted: Settings) -> Finding:
    """Return what a look at a subject finds."""
    try:
        found = await look(wanted)
    except (ContivError, OSError) as exc:
        return Finding(subject, str(exc), remedy, lacking=True)
    if isinstance(found, Note):
        return Finding(subject, found.found, remedy)
    return Finding(subject, found)
