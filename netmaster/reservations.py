"""The address reservations of one term, and which of them have lasted too long.

A reservation's age is counted by this leader's monotonic clock, from the moment at which this
leader saw the reservation first. The wall-clock time in its grant may be another machine's: a new
leader whose clock is ahead would release addresses that are about to be used. So a change of leader
gives every reservation its whole time again, and nothing has to be stored.

What is kept for a pod or machine that is away (ADR 46) lasts longer than many a leader. So its
absence is stored in parts, as that of a host is (`netmaster.plan.endpoints.dead_hosts`): a change
of leader loses one part at most.

In swarm mode no other reservation is overdue, however old: the address of a service is one for as
long as docker has the service, and never becomes an endpoint. It ends by its release, or with its
network.

`netmaster.plan.endpoints.address` and `kept` decide what follows.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from core.collections.grace_period import GracePeriod
from netmaster.plan.endpoints.address import GRACE
from netmaster.view import View

STICKY_FOR: Final = 86_400.0
"""Seconds that an address is kept for a pod or machine that is away, unless a flag says otherwise.
"""
STORED_PARTS: Final = 20
"""An absence is stored in so many parts."""

_Held = tuple[str, int]
"""The key of a grant and its sequence number: one that was given again has another."""


class Reservations:
    """The reservations that this leader has seen, and since when."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        endless: bool = False,
        sticky_for: float = STICKY_FOR,
    ) -> None:
        self._clock = clock
        self._endless = endless
        self._sticky_for = sticky_for
        self._ages: GracePeriod[_Held] = GracePeriod(GRACE)
        self._away: dict[_Held, tuple[float, float]] = {}
        """When this leader saw an absence first, and how long it had lasted by then."""

    def overdue(self, view: View) -> frozenset[str]:
        """Return the keys of the reservations that are overdue; each call is an observation."""
        kept = {key for key, seconds in self._absent(view).items() if seconds >= self._sticky_for}
        if self._endless:
            return frozenset(kept)
        # The sequence number: an address that was released and reserved again has its time anew.
        seen = ((key, one.seq) for key, one in view.reservations.items() if not one.kept_for)
        return frozenset(kept | {key for key, _ in self._ages.observe(seen, self._clock())})

    def absences(self, view: View) -> Mapping[str, float]:
        """Return how long kept addresses have been away, of those of which a part is to be stored.

        Each call is an observation.
        """
        part = self._sticky_for / STORED_PARTS
        return {
            key: seconds
            for key, seconds in self._absent(view).items()
            if seconds - view.reservations[key].away >= part
        }

    def _absent(self, view: View) -> dict[str, float]:
        now, known = self._clock(), self._away
        self._away = {
            held: known.get(held, (now, one.away))
            for key, one in view.reservations.items()
            if one.kept_for and (held := (key, one.seq))
        }
        return {key: past + now - since for (key, _), (since, past) in self._away.items()}
