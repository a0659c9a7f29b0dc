"""The slope `make long-run` judges by: of a leak, of what is level, of peaks and of a start."""

import random

import pytest

from tests.system.slopes import Sample, later, slope

PODS = range(0, 10_000, 100)
NOISE = 1.0
"""MiB, the standard deviation of what a process has more or less."""


def grown(leak: float) -> list[tuple[float, float]]:
    """Return a process' memory with a leak for each 1 000 pods, in MiB."""
    chance = random.Random(1)
    return [(pods, 100 + leak * pods / 1000 + chance.gauss(0, NOISE)) for pods in PODS]


@pytest.mark.parametrize("leak", [0.25, 0.5, 4.0])
def test_a_leak_is_in_the_bound(leak: float) -> None:
    found = slope(grown(leak))
    assert found.median == pytest.approx(leak, abs=0.1)
    assert found.at_most >= leak


def test_what_is_level_has_a_small_bound() -> None:
    assert slope(grown(0.0)).at_most < 0.1


def test_peaks_change_nothing() -> None:
    points = grown(0.0)
    peaks = [(pods, value + 50 * (at % 10 == 9)) for at, (pods, value) in enumerate(points)]
    assert slope(peaks).at_most == pytest.approx(slope(points).at_most, abs=0.1)


def test_exact_growth_is_its_own_bound() -> None:
    found = slope([(0, 1.0), (1000, 3.0), (2000, 5.0), (3000, 7.0)])
    assert (found.median, found.at_most) == (2.0, 2.0)


def test_the_first_third_does_not_count() -> None:
    samples = [Sample(pods=at, memory=1.0, files=1, threads=1) for at in range(9)]
    assert [one.pods for one in later(samples)] == [3, 4, 5, 6, 7, 8]
