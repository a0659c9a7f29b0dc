"""Calls to a store of several members: to the current one until it fails, then to the next.

A member that does not answer an attempt in time is left. A call without an answer within its budget
raises `StoreUnavailable`. The backend speaks to the member; it raises `NoAnswer` where another
attempt may succeed.
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
from core.patience import patient
from core.retry import STORE

log = logging.getLogger(__name__)

ATTEMPT: Final = patient(1.0)
"""Seconds a member has to answer; a frozen member costs a call this much once."""

BUDGET: Final = patient(10.0)
"""Seconds after which a call gives up on all members."""


class Retry(Enum):
    """Whether a request without an answer may be sent again."""

    # "No answer" never means "not applied": the request may have been applied and the answer
    # lost, or it may be applied later. So whether a retry is safe depends on the request alone,
    # and only its sender knows. The exception is a request that certainly was not sent
    # (`NoAnswer.sent`, connection refused): it may always be sent again.
    READ = "it changes nothing: send it again"
    REPEAT = "it is safe to apply twice: send it again; at last its outcome is unknown"
    ONCE = "it must not be applied twice: give up, its outcome is unknown"


class NoAnswer(Exception):
    """A member did not answer; `sent` unless the request certainly did not reach it."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class Member(Protocol):
    """A member of a store."""

    address: str


M = TypeVar("M", bound=Member)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a call is retried: seconds for an attempt at first, and for all attempts together."""

    retry: Retry = Retry.READ
    attempt: float = ATTEMPT
    budget: float = BUDGET


class Failover(Generic[M]):
    """The members of one store."""

    def __init__(self, members: Sequence[M], *, budget: float = BUDGET) -> None:
        self.members = members
        self.budget = budget
        self.closed = False
        self.trouble = ""
        """Why the last member that was asked gave no answer; "" if it gave one."""
        self._index = 0

    @property
    def current(self) -> M:
        """The member that calls go to now."""
        return self.members[self._index]

    def rotate(self, failed: M) -> None:
        """Switch to the next member, if the failed one is still the current one."""
        # Many calls fail at once when a member dies. Only the first may switch: the others would
        # skip members that nothing has tried yet.
        if self.current is failed:
            self._index = (self._index + 1) % len(self.members)

    def interrupted(self) -> bool:
        """Return whether a CancelledError comes from `close`, not from a cancelled task."""
        task = asyncio.current_task()
        return self.closed and not (task is not None and task.cancelling())

    async def call_members(self, ask: Callable[[M, float], Awaitable[T]], policy: RetryPolicy) -> T:
        """Call one member after the other until one answers or the budget is used up.

        `ask` has the seconds that it may take.
        """
        stop = time.monotonic() + policy.budget
        retry, attempt, failures = policy.retry, policy.attempt, 0
        unknown = False
        for delay in STORE.pauses():
            if self.closed:
                raise StoreUnavailable("the store client is closed", outcome_unknown=unknown)
            member = self.current
            try:
                answer = await ask(member, attempt)
            except NoAnswer as exc:
                self.trouble = f"store {member.address}: {exc}"
                self.rotate(member)
                failures += 1
                if failures % len(self.members) == 0:
                    # A store that is merely late would never answer in time, and for each attempt
                    # it works in vain: when all members were asked, they have twice as long.
                    attempt = max(policy.attempt, min(2 * attempt, stop - time.monotonic()))
                # Once one attempt may have reached a member, the outcome stays unknown, even if
                # all later attempts fail to connect.
                unknown = unknown or (retry is not Retry.READ and exc.sent)
                if time.monotonic() > stop or (unknown and retry is Retry.ONCE):
                    raise StoreUnavailable(self.trouble, outcome_unknown=unknown) from exc
                log.debug("store did not answer", extra=fields(peer=member.address, error=str(exc)))
            except asyncio.CancelledError:
                # gRPC cancels its pending calls when a channel is closed. That is an error of
                # the call, not a cancellation of the calling task, so it must not end that task.
                if self.interrupted():
                    raise StoreUnavailable(
                        "the store client is closed", outcome_unknown=retry is not Retry.READ
                    ) from None
                raise
            else:
                self.trouble = ""
                return answer
            await asyncio.sleep(delay)
        raise AssertionError("backoff never ends")
