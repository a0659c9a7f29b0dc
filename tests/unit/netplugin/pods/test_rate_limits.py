"""Bandwidths as users write them, in Open vSwitch's kbit/s."""

import pytest

from netplugin.pods.rate_limits import MAX_RATE, rate_of, stricter


@pytest.mark.parametrize(
    ("bandwidth", "rate"),
    [
        ("10 mbps", 10485),
        ("20 mbps", 20971),
        ("10M", 10485),
        ("900Mb", 943718),
        ("1gbps", 1073741),
        ("1g", 1073741),
        ("1000 kbps", 1024),
        ("5K", 5),
        ("", 0),
        ("10", 0),
        ("9" * 30 + "g", MAX_RATE),
    ],
)
def test_a_bandwidth_is_a_rate(bandwidth: str, rate: int) -> None:
    assert rate_of(bandwidth) == rate


@pytest.mark.parametrize(
    ("one", "other", "counts"),
    [
        ((0, 0), (0, 7), (0, 7)),
        ((100, 5), (0, 7), (100, 5)),
        ((0, 0), (100, 7), (100, 7)),
        ((100, 5), (200, 1), (100, 5)),
        ((200, 1), (100, 5), (100, 5)),
    ],
)
def test_the_stricter_limit_counts(
    one: tuple[int, int], other: tuple[int, int], counts: tuple[int, int]
) -> None:
    assert stricter(one, other) == counts
