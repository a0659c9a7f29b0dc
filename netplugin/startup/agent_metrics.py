"""Reads the metrics of an agent on each scrape: the `Source` of its page `/metrics`.

In come the subsystems; out go their readings and those of the process itself, of
`netplugin.startup.metric_names`. Nearly all are in this process already. The number of installed
flows is asked of the switches: what an agent believes about them is no proof. What the host itself
knows is read by `netplugin.startup.host_numbers`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from core.metrics import Reading, labelled, single
from daemons.request_stats import RequestStats
from netplugin.startup import metric_names as names
from netplugin.startup.context import Context, Subsystem


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMetrics:
    """A `core.metrics.Source` of one agent."""

    context: Context
    subsystems: Iterable[Subsystem]
    requests: RequestStats = field(default_factory=RequestStats)
    """Of the agent's REST."""
    calls: RequestStats = field(default_factory=RequestStats)
    """Of runtimes."""

    async def read(self) -> Iterable[Reading]:
        """Return the metrics of this moment."""
        found = [*self._process(), *self._calls()]
        for one in self.subsystems:
            found += await one.readings()
        return found

    def _process(self) -> Iterator[Reading]:
        context = self.context
        yield labelled(names.BUILD, {context.version: 1})
        yield single(names.TASKS, context.supervisor.spawn_failures)
        yield labelled(names.LOOP_FAILURES, context.loops.failures)
        yield labelled(names.LOOPS_FAILING, context.loops.failing())
        if context.tls is not None:
            yield labelled(names.EXPIRY, context.tls.expiry())

    def _calls(self) -> Iterator[Reading]:
        yield Reading(names.REQUESTS, dict(self.requests.answered))
        yield Reading(names.REQUEST_SECONDS, self.requests.seconds.copy())
        yield Reading(names.CALLS, dict(self.calls.answered))
        yield Reading(names.CALL_SECONDS, self.calls.seconds.copy())
