"""The time after a store went back in which hosts claim the endpoints of their running pods.

A restored store does not know the pods that started after the backup was made, so their addresses
look free. Until their hosts have claimed them (`netplugin.pods.claims`), the leader grants no
others. `netmaster.leadership` tells of the store and of its terms; the API asks `is_open`.
"""

import time
from collections.abc import Callable
from typing import Final

from core.errors import StoreUnavailable

CLAIM_WINDOW: Final = 3.0
"""Seconds. Agents notice a restore about when masters do, and claim as soon as one leads; an ADD
waits longer than this for a leader."""


class ClaimWindow:
    """One per master, also while another leads: this one may lead next."""

    def __init__(
        self, seconds: float = CLAIM_WINDOW, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._until = 0.0
        self._expected = False

    def store_went_back(self) -> None:
        """Open the window now, and once more when the next term begins."""
        self._until = self._clock() + self._seconds
        self._expected = True

    def term_begins(self) -> None:
        """Open the window if the store went back before: hosts could claim nothing until now."""
        if self._expected:
            self._until = self._clock() + self._seconds
            self._expected = False

    def is_open(self) -> bool:
        """Return whether only claims are granted."""
        return self._clock() < self._until


def refusal() -> StoreUnavailable:
    """Return the refusal of an address during the window; nothing was done, and it passes."""
    return StoreUnavailable("the store was restored; hosts are claiming their endpoints, retry")
