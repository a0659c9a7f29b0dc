"""How fast a series grows: the slope of Theil and Sen, with the upper bound of its confidence.

In come samples of one process, each with how many pods had been added by then; out come values. The
slope is the median of the slopes between all pairs of samples, which single peaks do not move; the
bound is the rank that Kendall's statistic gives (Sen 1968), one-sided at 97.5 %.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

QUANTILE: Final = 1.96
"""Of the normal distribution at 97.5 %."""
JUDGED: Final = 2 / 3
"""Of a process' life: before, caches and pools fill."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process had when so many pods had been added: memory in MiB, open files, threads."""

    pods: int
    memory: float
    files: int
    threads: int


@dataclass(frozen=True, slots=True)
class Slope:
    """Growth for 1 000 pods, and what it is below of with a confidence of 97.5 %."""

    median: float
    at_most: float


def later(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples of the last two thirds of a process' life."""
    return samples[len(samples) - math.floor(len(samples) * JUDGED) :]


def slope(points: Sequence[tuple[float, float]]) -> Slope:
    """Return the slope of points (pods, value); at least two with different numbers of pods."""
    pairs = itertools.combinations(points, 2)
    slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) * 1000 for a, b in pairs if a[0] != b[0])
    count, total = len(points), len(slopes)
    spread = QUANTILE * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    upper = min(total - 1, math.ceil((total + spread) / 2))
    return Slope((slopes[(total - 1) // 2] + slopes[total // 2]) / 2, slopes[upper])
