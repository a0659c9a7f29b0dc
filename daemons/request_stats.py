"""Counts the requests that a server answered, and how long that took.

`netmaster.api.http.server`, `netplugin.startup.inspect` and `netplugin.cni.server` count into it;
the daemons' metrics show it. Labels are a method and the pattern of a path, or the name of a call,
never what a client may make up: `UNKNOWN` stands for that.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from core.metrics import HistogramMap

UNKNOWN: Final = "unknown"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})


class RequestStats:
    """The requests of one server."""

    def __init__(self) -> None:
        self.answered: Counter[tuple[str, ...]] = Counter()
        """By the labels of the request, and the status of its answer."""
        self.seconds = HistogramMap()
        """By the labels of the request."""

    def expect(self, statuses: Iterable[int], *labels: str) -> None:
        """Show answers of these statuses as 0 before there is one.

        Prometheus sees no increase in a counter that begins with what it counts.
        """
        for status in statuses:
            self.answered[*labels, str(status)] += 0

    def count(self, status: int, seconds: float, *labels: str) -> None:
        """Count a request that was answered."""
        self.answered[*labels, str(status)] += 1
        self.seconds.observe(seconds, *labels)


def method_label(method: str) -> str:
    """Return the method of a request as a label."""
    return method if method in _METHODS else UNKNOWN
