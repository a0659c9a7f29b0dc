"""Which tests `make test` leaves to `make test-thorough`. Pure.

Two kinds are left: tests that are marked `thorough`, since what they meet needs minutes or comes in
many forms (faults, restarts, outages, firewalls, an underlay of IPv6, bonds); and of a system test
with three parameters or more the combinations beyond those that have every pair of values. A fault
that needs three values to show is rare, and the others are tried there.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

Combination = Mapping[str, str]
"""The values of a test's parameters, by their names."""


def beyond_pairs(tried: Sequence[Combination]) -> set[int]:
    """Return which combinations of a test need not be tried to try every pair of values of all.

    All combinations have the same parameters. The choice is the same each time.
    """
    names = [name for name in sorted(tried[0]) if len({one[name] for one in tried}) > 1]
    if len(names) < 3:  # each combination is a pair
        return set()
    pairs = [set(combinations([(name, one[name]) for name in names], 2)) for one in tried]
    left, rest = set[object]().union(*pairs), set(range(len(tried)))
    while left:
        best = max(sorted(rest), key=lambda number: len(pairs[number] & left))
        rest.remove(best)
        left -= pairs[best]
    return rest
