"""Repeats what fails: the one loop of retries, its pauses, its log line, its counter and its fault.

In comes a `Loop`, which says what does not work while it fails, and what is to be attempted. Each
failure is logged, counted, and shown as a fault of the daemon until the first success. `Loops` has
those of one daemon: an agent hands the faults to `netplugin.masters.progress`, a master to
`/readyz` and `/info`; both count failures in a metric. Nothing here knows what is attempted
(ADR 40).
"""

# Loops are found by a context variable, as loggers are by a name: the state of a loop belongs to
# the daemon that runs it, and handing it through each constructor would tell the parts between
# nothing. Tasks inherit the context, so that two daemons of one process keep theirs apart.

import asyncio
import copy
import logging
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from core.errors import ContivError
from core.logs import fields
from core.patience import patient

T = TypeVar("T")

ShowFaults = Callable[[str, Iterable[str]], None]
"""Replaces the faults of a daemon about one subject."""


class FaultBoard(Protocol):
    """Shows the faults of a daemon (`netplugin.masters.progress` for an agent)."""

    def set_faults(self, subject: str, faults: Iterable[str]) -> None:
        """Replace the faults about one subject."""


Errors = type[Exception] | tuple[type[Exception], ...]

Wait = Callable[[float], Awaitable[object]]
"""Returns after some seconds, or when something makes another attempt worth while."""

REMOTE: Final = patient(3.0)
"""Seconds for which another machine may be away before that is a fault: leaders change."""
ELSEWHERE: Final = math.inf
"""In the place of seconds: faults are shown by who knows more of them."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait between attempts: seconds at first, which double up to the longest."""

    first: float = 0.05
    longest: float = 5.0

    def pauses(self, jitter: Callable[[], float] = random.random) -> Iterator[float]:
        """Yield the pauses, each up to a quarter shorter, for ever."""
        # The jitter spreads clients that failed together, so that they do not retry together.
        pause = self.first
        while True:
            yield pause * (1.0 - 0.25 * jitter())
            pause = min(pause * 2, self.longest)


PACE: Final = Pace()
STORE: Final = Pace(0.02, 1.0)
"""For reads and watches of the store, which requests and pods wait for."""


class Later(Protocol):
    """Calls a function after some seconds, as a timer of the event loop does."""

    def __call__(self, delay: float, call: Callable[[], None], /) -> object:
        """Begin to wait."""
        ...


def _later(delay: float, call: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(delay, call)


@dataclass(slots=True)
class _Failing:
    """What fails now, since when on the monotonic clock, and whether that is shown."""

    name: str
    text: str
    since: float
    patience: float
    vital: bool
    shown: bool = False


class Loops:
    """The loops of one daemon: which fail now, and how often each has failed.

    `clock` is monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, later: Later = _later) -> None:
        self.failures: Counter[str] = Counter()
        """By the name of the loop; 0 for one that has not failed."""
        self.now = clock
        self._later = later
        self._failing: dict[object, _Failing] = {}
        self._show: ShowFaults = _nowhere

    def report_to(self, show: ShowFaults) -> None:
        """Have present and later faults shown."""
        self._show = show
        for name in {one.name for one in self._failing.values()}:
            show(name, self._of(name))

    def faults(self, *, vital: bool = False) -> list[str]:
        """Return the faults of this moment: all, or those without which nothing new is done."""
        told = (one.text for one in self._failing.values() if one.shown and vital <= one.vital)
        return [*dict.fromkeys(told)]

    def names(self) -> list[str]:
        """Return what does not work now, without objects and reasons: anybody may know it."""
        return [*dict.fromkeys(one.name for one in self._failing.values() if one.shown)]

    def failing(self) -> dict[str, int]:
        """Return how many loops of each name have a fault of this moment, also where none has."""
        shown = Counter(one.name for one in self._failing.values() if one.shown)
        return {name: shown[name] for name in self.failures}

    def failed(self, loop: "Loop", text: str, *, patience: float, vital: bool) -> bool:
        """Note a failure of a loop; return whether that is a fault by now."""
        name = loop.name
        self.failures[name] += 1
        now = self.now()
        known = self._failing.get(loop)
        since = now if known is None else known.since
        shown = now - since >= patience
        self._failing[loop] = _Failing(name, text, since, patience, vital, shown)
        if shown:
            self._show(name, self._of(name))
        elif known is None and patience < ELSEWHERE:
            # an attempt may take as long as it likes, and says nothing meanwhile
            self._later(patience, self._look)
        return shown

    def ended(self, loop: "Loop") -> bool:
        """Note that a loop does not fail any more; return whether it did."""
        known = self._failing.pop(loop, None)
        if known is not None and known.shown:
            self._show(loop.name, self._of(loop.name))
        return known is not None

    def _look(self) -> None:
        now = self.now()
        for one in tuple(self._failing.values()):
            if not one.shown and now - one.since >= one.patience:
                one.shown = True
                self._show(one.name, self._of(one.name))

    def _of(self, name: str) -> list[str]:
        told = (one.text for one in self._failing.values() if one.name == name and one.shown)
        return [*dict.fromkeys(told)]  # two loops may fail for one reason


def _nowhere(_subject: str, _faults: Iterable[str]) -> None:
    """Show nothing: a program that is no daemon, or one that has just begun."""


_LOOPS: Final = ContextVar("loops", default=Loops())  # noqa: B039 - of programs that are no daemon


def present_loops() -> Loops:
    """Return the loops of the daemon that runs."""
    return _LOOPS.get()


def begin_loops() -> Loops:
    """Have what starts from here on belong to a daemon of its own; return its loops."""
    loops = Loops()
    _LOOPS.set(loops)
    return loops


class Loop:
    """Something that is attempted until it succeeds.

    `name` says what does not work while it fails, as in `routes not set`: log, metric and faults
    have it, so that it must be one of few. `about` is the object, where there are many. `errors`
    are failures but for `ends`; any other ends the loop. `remedy` is what an operator can do. The
    fault is shown once it has lasted `patience` seconds. A `vital` loop keeps the daemon from being
    ready.
    """

    def __init__(
        self,
        log: logging.Logger,
        name: str,
        *,
        about: str = "",
        pace: Pace = PACE,
        errors: Errors = ContivError,
        ends: Errors = (),
        remedy: str = "",
        patience: float = 0.0,
        vital: bool = False,
        loops: Loops | None = None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.errors = errors
        self.ends = ends
        self._log = log
        self._about = about
        self._pace = pace
        self._remedy = remedy
        self._patience = patience
        self._vital = vital
        self._jitter = jitter
        self._loops = loops or present_loops()
        self._loops.failures[name] += 0  # a counter is there from the start
        self._pauses = pace.pauses(jitter)
        self._failed_at = -math.inf

    def of(self, about: str) -> "Loop":
        """Return a loop of the same kind about one object."""
        one = copy.copy(self)
        one._about = about  # noqa: SLF001 - of the same class
        one.succeeded()
        return one

    def failed(self, exc: Exception) -> float:
        """Note a failure; return the seconds until the next attempt."""
        reason = str(exc) or type(exc).__name__
        parts = (self.name, self._about, reason, self._remedy)
        text = ": ".join(part for part in parts if part)
        shown = self._loops.failed(self, text, patience=self._patience, vital=self._vital)
        level = logging.WARNING if shown or self._patience == ELSEWHERE else logging.INFO
        about = fields(object=self._about or None, error=reason)
        self._log.log(level, "%s, retrying", self.name, extra=about)
        now = self._loops.now()
        if now - self._failed_at > self._pace.longest:
            self._pauses = self._pace.pauses(self._jitter)
        self._failed_at = now
        return next(self._pauses)

    def works(self) -> bool:
        """Note that an attempt which goes on has come so far that the fault is over.

        Returns whether there was one. Pauses begin anew once it has lasted: what begins well and
        fails at once is not hurried.
        """
        failed = self._loops.ended(self)
        if failed:
            about = fields(object=self._about or None)
            self._log.info("%s: resolved", self.name, extra=about)
        return failed

    def succeeded(self) -> None:
        """Note a success: the fault is over, and pauses begin anew."""
        self.works()
        self._failed_at = -math.inf

    def withdraw(self) -> None:
        """Note that nothing is attempted any more, without success."""
        self._loops.ended(self)


async def retry(loop: Loop, attempt: Callable[[], Awaitable[T]], wait: Wait = asyncio.sleep) -> T:
    """Return the result of the first attempt that succeeds; raise what is no failure of the loop.

    One that goes on for ever says by `Loop.works` that it has begun.
    """
    try:
        while True:
            try:
                result = await attempt()
            except loop.ends:
                raise
            except loop.errors as exc:
                pause = loop.failed(exc)
            else:
                loop.succeeded()
                return result
            await wait(pause)
    finally:
        loop.withdraw()
