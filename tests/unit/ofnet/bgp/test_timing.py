"""The times of a session."""

from ofnet.bgp.timing import SessionTiming

BACK = 15.0
"""Seconds after which a session must be back once the peer accepts connections again."""


def test_an_attempt_that_fails_and_the_pause_after_it_are_shorter_than_the_limit() -> None:
    timing = SessionTiming()
    assert timing.dial + timing.handshake + timing.longest_pause < BACK
