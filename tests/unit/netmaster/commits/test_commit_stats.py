"""What a committer counts, and how the lag of the watch is sampled."""

from netmaster.commits.commit_stats import CommitStats


def lags(stats: CommitStats) -> int:
    return sum(stats.watch_lag.counts)


def test_one_commit_at_a_time_is_followed_until_the_watch_reports_it() -> None:
    stats = CommitStats()
    stats.committed(7, 1.0)
    stats.committed(8, 1.1)  # not followed: 7 is
    stats.reported(6, 1.2)
    assert lags(stats) == 0
    stats.reported(8, 1.5)
    assert lags(stats) == 1
    assert stats.watch_lag.sum == 0.5
    stats.reported(9, 9.0)
    assert lags(stats) == 1
    stats.committed(10, 10.0)
    stats.reported(10, 10.0)
    assert lags(stats) == 2
