"""How agents spread what they tell masters, so that a large cluster tells it at an even rate. Pure.

A change in the store, or a master that starts, is news to all hosts at the same moment. Each agent
waits a random part of a window that grows with the number of hosts, so that a master hears as many
agents in each second, however many there are. Used by `netplugin.masters.control`.
"""

from collections.abc import Callable
from random import random
from typing import Final

NEWS_PER_HOST: Final = 0.002
"""Seconds of the window of reports for each host: a master hears 500 hosts a second."""

RESTART_PER_HOST: Final = 0.01
"""The same of registrations after a master's restart, which nobody waits for."""

LONGEST: Final = 20.0
"""Seconds of the longest window."""

REPEATS: Final = 10
"""Windows between two repetitions of a report without news: they are few beside the news."""


class Spread:
    """The pauses of one agent; `hosts` returns how many the cluster has, `chance` is in [0, 1)."""

    def __init__(self, hosts: Callable[[], int], chance: Callable[[], float] = random) -> None:
        self._hosts = hosts
        self._chance = chance

    def before_report(self) -> float:
        """Return the seconds until this agent tells its news."""
        return self._window(NEWS_PER_HOST) * self._chance()

    def before_registration(self) -> float:
        """Return the seconds until this agent registers with a master that restarted."""
        return self._window(RESTART_PER_HOST) * self._chance()

    def repeat_after(self, shortest: float) -> float:
        """Return the seconds after which an unchanged report is repeated."""
        return max(shortest, REPEATS * self._window(NEWS_PER_HOST))

    def _window(self, per_host: float) -> float:
        return min(self._hosts() * per_host, LONGEST)
