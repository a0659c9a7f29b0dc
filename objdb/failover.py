"""Calls to a store of several members: to the current one until it fails, then to the next.

A member that does not answer an attempt in time is left; what was not answered within the budget
is `StoreUnavailable`. How a member is spoken to, and which of its errors mean that another attempt
may succeed (`Missed`), is the backend's business.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar

from core.errors import StoreUnavailable
from core.logs import fields
from core.tasks import backoff

log = logging.getLogger(__name__)

ATTEMPT: Final = 1.0
"""Seconds a member has to answer; a frozen member costs a call this much once."""

BUDGET: Final = 10.0
"""Seconds after which a call gives up on all members."""


class Retry(Enum):
    """What may be done about a request whose answer is missing."""

    READ = "it changes nothing: send it again"
    REPEAT = "it is safe to apply twice: send it again; at last its outcome is unknown"
    ONCE = "it must not be applied twice: give up, its outcome is unknown"


class Missed(Exception):
    """A member did not answer; `sent` unless the request certainly did not reach it."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class Addressed(Protocol):
    """A member of a store."""

    address: str


M = TypeVar("M", bound=Addressed)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Effort:
    """How a call is tried: seconds for each attempt and for all of them."""

    retry: Retry = Retry.READ
    attempt: float = ATTEMPT
    budget: float = BUDGET


class Failover(Generic[M]):
    """The members of one store."""

    def __init__(self, members: Sequence[M], *, budget: float = BUDGET) -> None:
        self.members = members
        self.budget = budget
        self.closed = False
        self._index = 0

    @property
    def current(self) -> M:
        """The member calls go to now."""
        return self.members[self._index]

    def rotate(self, failed: M) -> None:
        """Go on to the next member, unless somebody has left the failed one already."""
        if self.current is failed:
            self._index = (self._index + 1) % len(self.members)

    def interrupted(self) -> bool:
        """Return whether a CancelledError comes from our closing, not from a cancelled task."""
        task = asyncio.current_task()
        return self.closed and not (task is not None and task.cancelling())

    async def retried(self, ask: Callable[[M], Awaitable[T]], effort: Effort) -> T:
        """Ask one member after the other until one answers or time is up."""
        stop = time.monotonic() + effort.budget
        retry = effort.retry
        unknown = False
        for delay in backoff(0.02, 0.25):
            if self.closed:
                raise StoreUnavailable("the store client is closed", outcome_unknown=unknown)
            member = self.current
            try:
                return await ask(member)
            except Missed as exc:
                self.rotate(member)
                unknown = unknown or (retry is not Retry.READ and exc.sent)
                if time.monotonic() > stop or (unknown and retry is Retry.ONCE):
                    raise StoreUnavailable(
                        f"store {member.address}: {exc}", outcome_unknown=unknown
                    ) from exc
                log.debug("store did not answer", extra=fields(peer=member.address, error=str(exc)))
            except asyncio.CancelledError:
                if self.interrupted():
                    raise StoreUnavailable(
                        "the store client is closed", outcome_unknown=retry is not Retry.READ
                    ) from None
                raise
            await asyncio.sleep(delay)
        raise AssertionError("backoff never ends")
