"""`netplugin.masters.spread`: an even rate of news at a master, however many agents there are."""

from itertools import count

import pytest

from netplugin.masters.spread import LONGEST, NEWS_PER_HOST, RESTART_PER_HOST, Spread
from ofnet.rpc.control import SILENCE


@pytest.mark.parametrize("hosts", [10, 1_000, 10_000])
def test_a_master_hears_as_many_agents_in_each_second(hosts: int) -> None:
    numbers = count()
    spread = Spread(lambda: hosts, lambda: next(numbers) / hosts)
    for each, pause in (
        (NEWS_PER_HOST, spread.before_report),
        (RESTART_PER_HOST, spread.before_registration),
    ):
        numbers = count()
        pauses = [pause() for _ in range(hosts)]
        window = min(hosts * each, LONGEST)
        assert max(pauses) < window
        assert sum(one < window / 4 for one in pauses) <= hosts / 4 + 1


def test_one_host_waits_for_nobody() -> None:
    assert Spread(lambda: 1, lambda: 0.99).before_registration() < 0.01


def test_reports_are_repeated_before_a_master_forgets_the_agent() -> None:
    many = Spread(lambda: 1_000_000)
    assert many.repeat_after(10.0) < SILENCE
    assert Spread(lambda: 3).repeat_after(10.0) == 10.0
