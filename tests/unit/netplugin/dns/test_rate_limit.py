"""A pod may ask so much, and no pod pays for another."""

from core.ids import EndpointKey
from netplugin.dns.rate_limit import BURST_SECONDS, MAX_PODS, RateLimit
from tests.unit.netplugin.records import key

ONE, TWO = key("c1"), key("c2")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def allowed(limit: RateLimit, pod: EndpointKey, times: int) -> int:
    return sum(limit.allows(pod) for _ in range(times))


def test_a_burst_then_the_rate_then_a_burst_again() -> None:
    clock = Clock()
    limit = RateLimit(10, clock)
    assert allowed(limit, ONE, 100) == 10 * BURST_SECONDS
    clock.now += 0.5
    assert allowed(limit, ONE, 100) == 5
    clock.now += 3600
    assert allowed(limit, ONE, 100) == 10 * BURST_SECONDS


def test_no_pod_pays_for_another() -> None:
    limit = RateLimit(10, Clock())
    allowed(limit, ONE, 1000)
    assert allowed(limit, TWO, 5) == 5


def test_zero_is_no_limit() -> None:
    assert allowed(RateLimit(0, Clock()), ONE, 10_000) == 10_000


def test_memory_is_bounded() -> None:
    limit = RateLimit(1, Clock())
    for number in range(2 * MAX_PODS):
        limit.allows(key(f"c{number}"))
    assert len(limit._buckets) == MAX_PODS
