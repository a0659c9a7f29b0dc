"""The address reservations of one term, and which of them no endpoint took over in time.

A reservation's age is counted by this leader's monotonic clock, from the moment at which this
leader saw the reservation first. The wall-clock time in its grant may be another machine's: a new
leader whose clock is ahead would release addresses that are about to be used. So a change of leader
gives every reservation its whole time again, and nothing has to be stored.

In swarm mode no reservation is overdue, however old: the address of a service is one for as long as
docker has the service, and never becomes an endpoint. It ends by its release, or with its network.

`netmaster.plan.endpoints.address` decides what follows.
"""

import time
from collections.abc import Callable

from core.grace_period import GracePeriod
from netmaster.plan.endpoints.address import GRACE
from netmaster.view import View


class Reservations:
    """The reservations that this leader has seen, and since when."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, endless: bool = False
    ) -> None:
        self._clock = clock
        self._endless = endless
        self._ages: GracePeriod[tuple[str, int]] = GracePeriod(GRACE)

    def overdue(self, view: View) -> frozenset[str]:
        """Return the keys of the reservations that are overdue; each call is an observation."""
        if self._endless:
            return frozenset()
        # The sequence number: an address that was released and reserved again has its time anew.
        seen = ((key, grant.seq) for key, grant in view.reservations.items())
        return frozenset(key for key, _ in self._ages.observe(seen, self._clock()))
