"""Counts the commits of a master, over all of its terms; `netmaster.commits.commit` counts into it.

`netmaster.master_metrics` shows it.
"""

from collections import Counter
from typing import Final

from core.metrics import SECONDS, Histogram

_SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200)


class CommitStats:
    """The commits of one master."""

    def __init__(self) -> None:
        self.outcomes = Counter(dict.fromkeys(("committed", "refused", "failed", "fenced"), 0))
        """Commits by outcome; `refused` is a part of it."""
        self.group_sizes = Histogram(_SIZES)
        self.seconds = Histogram(SECONDS)
        self.watch_lag = Histogram(SECONDS)
        """From a commit's answer to its report by the watch, 0 where the report comes first."""
        self.rebuilds = 0
        self._sample: tuple[int, float] | None = None

    def attempted(self, outcome: str, size: int, seconds: float) -> None:
        """Count a commit of a group of changes."""
        self.outcomes[outcome] += 1
        self.group_sizes.observe(size)
        self.seconds.observe(seconds)

    # The lag of one commit at a time is measured. More would need a queue, and tell no more.

    def committed(self, rev: int, now: float) -> None:
        """Note that the commit of a revision was answered."""
        if self._sample is None:
            self._sample = rev, now

    def reported(self, rev: int, now: float) -> None:
        """Note that the watch reported a revision."""
        if self._sample is not None and rev >= self._sample[0]:
            self.watch_lag.observe(now - self._sample[1])
            self._sample = None
