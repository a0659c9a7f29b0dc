"""How long a switch may take for what it was given."""

import pytest

from ofnet.channel.workload import PER_FLOW, Workload


def test_without_work_it_is_the_usual_time() -> None:
    work = Workload()
    with work.of(1000):
        pass
    assert work.deadline(work.moment(7.0), 15.0) == 22.0


def test_work_of_before_and_of_since_counts_until_it_is_known_to_be_done() -> None:
    work = Workload()
    with work.of(1000):
        during = work.moment(7.0)
        with work.of(500):
            assert work.deadline(during, 15.0) == pytest.approx(22.0 + 1500 * PER_FLOW)
    assert work.deadline(during, 15.0) == pytest.approx(22.0 + 1500 * PER_FLOW)
    assert work.deadline(work.moment(7.0), 15.0) == 22.0


def test_work_that_fails_is_done() -> None:
    work = Workload()
    with pytest.raises(OSError, match="lost"), work.of(10):
        raise OSError("lost")
    assert work.deadline(work.moment(0.0), 1.0) == 1.0
