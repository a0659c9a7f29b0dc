"""IPv6 addresses of a network, in the original's order."""

import pytest

from core.addresses import mac6_text, parse_subnet6, with_mac6_of
from netmaster.ipam.pool6 import Pool6


def _pool(text: str) -> Pool6:
    return Pool6(parse_subnet6(text)[0])


def _take(pool: Pool6) -> str | None:
    address = pool.following()
    if address is None:
        return None
    pool.take(address)
    return pool.subnet.text(address)


def test_addresses_follow_one_another() -> None:
    pool = _pool("2001:db8::/120")
    assert [_take(pool) for _ in range(3)] == ["2001:db8::1", "2001:db8::2", "2001:db8::3"]


def test_an_address_with_the_mac_of_one_that_was_asked_for_is_passed_over() -> None:
    """Whoever asks can choose it: frames of whoever is given the other would be for both."""
    pool = Pool6(parse_subnet6("2001:db8::/64")[0], alone=True)
    base, free = pool.subnet.base, pool.free
    asked = with_mac6_of(base + 2, base + (1 << 32))
    assert mac6_text(asked) == mac6_text(base + 2)
    assert asked != base + 2
    pool.take(asked)
    assert pool.free == free - 2
    assert pool.ahead(2) == [base + 1, base + 3]
    assert [_take(pool) for _ in range(2)] == ["2001:db8::1", "2001:db8::3"]
    assert pool.lowest_within(base, base + 5) == base + 4
    pool.release(asked)
    assert pool.lowest_within(base, base + 5) == base + 2


def test_a_network_with_ipv4_has_its_macs_by_that() -> None:
    pool = Pool6(parse_subnet6("2001:db8::/64")[0])
    pool.take(with_mac6_of(pool.subnet.base + 1, pool.subnet.base + (1 << 32)))
    assert _take(pool) == "2001:db8::1"


def test_a_released_address_rests_until_the_round_is_over() -> None:
    pool = _pool("2001:db8::/125")
    for _ in range(3):
        _take(pool)
    pool.release(pool.subnet.base + 2)
    assert [_take(pool) for _ in range(6)] == [
        "2001:db8::4",
        "2001:db8::5",
        "2001:db8::6",
        "2001:db8::7",
        "2001:db8::2",
        None,
    ]


def test_the_last_free_address_is_usable() -> None:
    pool = _pool("2001:db8::/127")
    assert pool.hosts == 1
    assert _take(pool) == "2001:db8::1"
    assert pool.following() is None


def test_an_address_taken_out_of_turn_is_skipped_when_its_turn_comes() -> None:
    pool = _pool("2001:db8::/64")
    pool.take(pool.subnet.base + 3)
    assert [_take(pool) for _ in range(3)] == ["2001:db8::1", "2001:db8::2", "2001:db8::4"]


def test_resuming_goes_on_behind_the_last_one_given() -> None:
    pool = _pool("2001:db8::/64")
    pool.resume(pool.subnet.base + 0x4FFFF)
    assert _take(pool) == "2001:db8::5:0"


@pytest.mark.parametrize(
    ("last", "following"),
    [
        ("::", "::1"),
        ("::4:ffff:ffff", "::5:0:0"),
        ("::fffe", "::ffff"),
        ("::f:ffff:ffff", "::1"),
    ],
)
def test_following_host_number(last: str, following: str) -> None:
    pool = _pool("::/92")
    pool.resume(parse_subnet6(f"{last}/128")[0].base)
    address = pool.following()
    assert address is not None
    assert pool.subnet.text(address) == following


def test_the_first_address_of_the_subnet_is_not_assignable() -> None:
    pool = _pool("2001:db8::/120")
    assert not pool.assignable(pool.subnet.base)
    assert pool.assignable(pool.subnet.last)
    assert not pool.assignable(pool.subnet.last + 1)
