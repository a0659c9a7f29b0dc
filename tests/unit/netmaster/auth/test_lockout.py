"""Delays after failed attempts, on a clock of the test's own."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netmaster.auth.lockout import Lockout, LockoutLimits, network_of

LIMITS = LockoutLimits()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def fail(lockout: Lockout, times: int, user: str = "joe", address: str = "192.0.2.1") -> None:
    for _ in range(times):
        assert lockout.begin(user, address) == 0


def test_the_fifth_failure_is_followed_by_a_delay_that_doubles(clock: Clock) -> None:
    lockout = Lockout(clock)
    fail(lockout, 5)
    delays = []
    for _ in range(12):
        delays.append(lockout.begin("joe", "192.0.2.1"))
        clock.now += delays[-1]
        fail(lockout, 1)
    assert delays == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]


def test_a_users_delay_ends_sooner_than_an_addresss(clock: Clock) -> None:
    """Failures in the name of a user, from anywhere, do not keep the user out for long."""
    lockout = Lockout(clock, replace(LIMITS, passes=0))
    for number in range(40):
        clock.now += lockout.begin("joe", f"192.0.2.{number}")
        lockout.begin("joe", f"192.0.2.{number}")
    assert lockout.begin("joe", "198.51.100.1") == LIMITS.longest_of_user


def guess(lockout: Lockout, addresses: list[str], user: str = "joe") -> int:
    """Guess from each address for as often as it is not delayed; return how many guesses passed."""
    passed = 0
    for address in addresses:
        while lockout.begin(user, address) == 0:
            passed += 1
    return passed


def test_an_administrator_logs_in_while_four_addresses_guess_all_the_time(clock: Clock) -> None:
    lockout = Lockout(clock)
    guessers = [f"192.0.2.{number}" for number in range(4)]
    for _ in range(20):
        guess(lockout, guessers)
        assert lockout.begin("joe", "198.51.100.1") == 0
        guess(lockout, guessers)
        lockout.succeeded("joe", "198.51.100.1")
        clock.now += 2


def test_an_administrator_may_be_wrong_meanwhile(clock: Clock) -> None:
    lockout = Lockout(clock)
    guess(lockout, [f"192.0.2.{number}" for number in range(4)])
    fail(lockout, LIMITS.free, address="198.51.100.1")
    assert lockout.begin("joe", "198.51.100.1") > 0


def test_a_known_address_is_delayed_by_its_own_failures_alone(clock: Clock) -> None:
    lockout = Lockout(clock)
    fail(lockout, 1, address="198.51.100.1")
    lockout.succeeded("joe", "198.51.100.1")
    guess(lockout, [f"192.0.{number // 250}.{number % 250}" for number in range(2000)])
    guess(lockout, ["198.51.100.1"], user="ann")
    fail(lockout, LIMITS.free, address="198.51.100.1")
    assert lockout.begin("joe", "198.51.100.1") == LIMITS.first


@given(
    st.integers(1, 300),
    st.lists(st.floats(0, 600), min_size=1, max_size=8),
)
@settings(max_examples=50)
def test_guesses_are_bounded_whatever_addresses_guessers_have(
    addresses: int, pauses: list[float]
) -> None:
    clock = Clock()
    lockout, began, passed = Lockout(clock), clock.now, 0
    for pause in pauses:
        passed += guess(lockout, [f"10.0.{one // 250}.{one % 250}" for one in range(addresses)])
        clock.now += pause
    took = clock.now - began
    first = LIMITS.free + LIMITS.passes + 7  # free by user, passes, and a doubling delay
    assert passed <= first + took / LIMITS.pass_every + took / LIMITS.longest_of_user


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.floats(0, 30), st.sampled_from(["joe", "ann"])),
        max_size=80,
    )
)
def test_few_guessers_never_keep_a_user_out(guesses: list[tuple[int, float, str]]) -> None:
    """A user at an address of their own, new or known, logs in at any moment."""
    clock = Clock()
    lockout = Lockout(clock)
    for address, pause, user in guesses:
        lockout.begin(user, f"192.0.2.{address}")
        clock.now += pause
        assert lockout.begin("joe", "198.51.100.1") == 0
        lockout.succeeded("joe", "198.51.100.1")
    assert lockout.begin("joe", "203.0.113.7") == 0


def test_an_attempt_during_a_delay_does_not_prolong_it(clock: Clock) -> None:
    lockout = Lockout(clock)
    fail(lockout, 5)
    clock.now += 0.25
    for _ in range(100):
        assert lockout.begin("joe", "192.0.2.1") == 0.75
    clock.now += 0.75
    assert lockout.begin("joe", "192.0.2.1") == 0


def test_attempts_at_the_same_time_count_before_they_have_failed(clock: Clock) -> None:
    lockout = Lockout(clock)
    admitted = [lockout.begin("joe", "192.0.2.1") == 0 for _ in range(100)]
    assert admitted.count(True) == 5


def test_a_user_is_delayed_at_addresses_that_failed_and_an_address_for_every_user(
    clock: Clock,
) -> None:
    lockout = Lockout(clock)
    fail(lockout, 5)
    fail(lockout, 4, user="eve", address="203.0.113.1")
    fail(lockout, 1, address="203.0.113.1")
    assert lockout.begin("joe", "203.0.113.1") == 2
    assert lockout.begin("ann", "192.0.2.1") == 1
    assert lockout.begin("ann", "198.51.100.1") == 0


def test_a_login_frees_the_user_but_not_the_address(clock: Clock) -> None:
    """A login of one's own between two guesses must not make the next guess free."""
    lockout = Lockout(clock)
    fail(lockout, 3)
    fail(lockout, 1, user="mallory")
    lockout.succeeded("mallory", "192.0.2.1")
    fail(lockout, 2)
    assert lockout.begin("ann", "192.0.2.1") == 1
    clock.now += 1
    fail(lockout, 1, user="mallory")
    lockout.succeeded("mallory", "192.0.2.1")
    assert lockout.begin("mallory", "192.0.2.1") == 0
    assert lockout.begin("ann", "192.0.2.1") == 2


def test_logins_alone_are_never_delayed_and_leave_nothing(clock: Clock) -> None:
    lockout = Lockout(clock)
    for _ in range(50):
        fail(lockout, 1)
        lockout.succeeded("joe", "192.0.2.1")
    assert len(lockout) == 0
    lockout.succeeded("joe", "192.0.2.1")


def test_failures_expire(clock: Clock) -> None:
    lockout = Lockout(clock)
    fail(lockout, 4)
    clock.now += LIMITS.expiry + 1
    fail(lockout, 5)
    assert lockout.begin("joe", "192.0.2.1") == 1


def test_memory_is_bounded(clock: Clock) -> None:
    lockout = Lockout(clock, LockoutLimits(entries=10))
    for number in range(1000):
        lockout.begin(f"user{number}" * 1000, f"10.0.{number // 250}.{number % 250}")
    assert len(lockout) == 20
    fail(lockout, 5, user="joe", address="192.0.2.1")
    assert lockout.begin("joe", "192.0.2.1") == 1


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
        ("", ""),
    ],
)
def test_what_counts_as_one_address(address: str, network: str) -> None:
    assert network_of(address) == network
