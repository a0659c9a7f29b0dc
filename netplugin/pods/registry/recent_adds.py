"""Keeps the last ADDs of this agent: of what, when, what each stage took, and what came of it.

`netplugin.pods.handler` tells of each ADD, `netplugin.diagnostics.adds` shows them. They are lost
with the agent; the log has them too.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from core.tracing.trace_context import trace_id
from netplugin.cni.request import PodRequest
from netplugin.pods.registry.add_stages import AddTimes

MOST: Final = 200
UNDER_WAY: Final = "under way"
ADDED: Final = "added"
REPEATED: Final = "repeated"
"""The endpoint was there: the answer is that of the ADD which made it."""
FAILED: Final = "failed"


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class RecentAdd:
    """An ADD; `seconds` is the time of the whole. `error` is why it failed, `trace` its trace."""

    request: PodRequest
    at: datetime
    times: AddTimes
    outcome: str = UNDER_WAY
    error: str = ""
    seconds: float = 0.0
    trace: str = field(default_factory=lambda: trace_id() or "")


class RecentAdds:
    """The last `MOST` ADDs, those that are under way among them. One per agent."""

    def __init__(
        self,
        now: Callable[[], datetime] = _utc,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._clock = clock
        self._kept: deque[RecentAdd] = deque(maxlen=MOST)

    @contextmanager
    def keep(self, request: PodRequest, times: AddTimes) -> Iterator[RecentAdd]:
        """Keep an ADD that the body carries out, which may say more of it."""
        one = RecentAdd(request, self._now(), times)
        self._kept.append(one)
        began = self._clock()
        try:
            yield one
        except BaseException as exc:
            one.outcome, one.error = FAILED, str(exc) or type(exc).__name__
            raise
        finally:
            one.seconds = self._clock() - began
        if one.outcome == UNDER_WAY:
            one.outcome = ADDED

    def newest(self, container: str = "") -> Iterator[RecentAdd]:
        """Yield the ADDs, the last one first, of containers whose ids begin so."""
        found = reversed(self._kept)
        return (one for one in found if one.request.spec.container_id.startswith(container))
