"""Free numbers outside of ranges, and pools with exclusions, against plain sets."""

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from core.addresses import Subnet, ipv4
from core.ids import GroupKey
from netmaster.ipam.pool import Pool
from netmaster.ipam.pool6 import Pool6
from netmaster.ipam.ranges import NumbersOutside, Ranges
from netmaster.ipam.spans import FreeSpans

LOW, HIGH = 3, 60
BASE: Final = ipv4("10.1.1.0")
WEB: Final = GroupKey("web:default")

number = st.integers(0, 63)
numbers = st.sets(number)
interval = st.tuples(number, number).map(lambda ends: (min(ends), max(ends)))
intervals = st.lists(interval, max_size=6)


def _members(ranges: list[tuple[int, int]]) -> set[int]:
    return {one for first, last in ranges for one in range(first, last + 1)}


@given(intervals, interval, number)
def test_ranges_are_the_set_of_their_numbers(
    given_: list[tuple[int, int]], among: tuple[int, int], at: int
) -> None:
    ranges, members = Ranges(given_), _members(given_)
    assert _members(list(ranges)) == members
    assert all(one[1] + 1 < other[0] for one, other in zip(ranges, list(ranges)[1:], strict=False))
    assert {one for one in range(64) if one in ranges} == members
    assert ranges.within(*among) == len(members & set(range(among[0], among[1] + 1)))
    following = ranges.following(at)
    behind = [one for one in ranges if one[1] >= at]
    assert following == (behind[0] if behind else None)


@given(numbers, intervals, intervals, number)
def test_outside_is_the_difference(
    held: set[int], one: list[tuple[int, int]], other: list[tuple[int, int]], at: int
) -> None:
    spans = FreeSpans(LOW, HIGH)
    outside = NumbersOutside(spans, Ranges(one) | Ranges(other))
    for each in held:  # afterwards: what is outside follows the set
        spans.take(each)
    expected = set(range(LOW, HIGH + 1)) - held - _members(one) - _members(other)
    assert _members(list(outside)) == expected
    assert outside.free == len(expected)
    assert outside.lowest() == min(expected, default=None)
    assert outside.lowest_from(at) == min((n for n in expected if n >= at), default=None)
    assert {n for n in range(64) if n in outside} == expected


@given(numbers, intervals, intervals, interval, st.booleans())
def test_a_pool_gives_all_but_what_is_excluded(
    held: set[int],
    excluded: list[tuple[int, int]],
    of_group: list[tuple[int, int]],
    pool_of: tuple[int, int],
    carved_first: bool,
) -> None:
    low, high = max(pool_of[0], 1), min(pool_of[1], 62)
    pool = Pool(Subnet(BASE, 26), BASE, BASE + 63)
    shifted = [(BASE + first, BASE + last) for first, last in of_group]
    if carved_first:
        pool.carve(WEB, BASE + low, BASE + high, Ranges(shifted))
    for each in held:
        pool.take(BASE + each)
    pool.excluded = Ranges((BASE + first, BASE + last) for first, last in excluded)
    if not carved_first:
        pool.carve(WEB, BASE + low, BASE + high, Ranges(shifted))
    own = set(range(low, high + 1))
    for_group = own - _members(of_group) - _members(excluded)
    for_others = set(range(1, 63)) - own - _members(excluded)
    assert pool.size == len(for_group | for_others)
    assert (pool.free_of(WEB), pool.free_of(None)) == (
        len(for_group - held),
        len(for_others - held),
    )
    assert pool.free == len((for_group | for_others) - held)
    for group, expected in ((WEB, for_group - held), (None, for_others - held)):
        given_ = []
        while (address := pool.lowest(group)) is not None:
            pool.take(address)
            given_.append(address - BASE)
        assert given_ == sorted(expected)
    pool.restore(WEB)
    pool.excluded = Ranges()
    for each in range(64):
        pool.release(BASE + each)
    assert pool.free == pool.size == 62


@given(numbers, intervals)
def test_a_pool_of_ipv6_gives_all_but_what_is_excluded(
    held: set[int], excluded: list[tuple[int, int]]
) -> None:
    pool = Pool6(Subnet(64, 122, 128))
    for each in held:
        pool.take(64 + each)
    pool.excluded = Ranges((64 + first, 64 + last) for first, last in excluded)
    expected = set(range(1, 64)) - _members(excluded)
    assert (pool.hosts, pool.free) == (len(expected), len(expected - held))
    ahead = pool.ahead(100)
    assert len(ahead) == len(set(ahead)) == len(expected - held) // 2
    given_ = set()
    while (address := pool.following()) is not None:
        pool.take(address)
        given_.add(address - 64)
    assert given_ == expected - held
