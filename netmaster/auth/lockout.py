"""Delays login attempts after failures: by user, address, and both. Pure: the clock is injected.

Five failures are free; each further one doubles the delay until the next attempt. Guessers must not
lock a user out, so what others fail at delays neither

* an address from which the user has logged in before: it is delayed by its own failures in that
  user's name alone, and
* an address with fewer than five failures: it is not delayed by failures in the user's name. Since
  guessers may have many addresses, 100 such attempts are granted for each user, and one more
  every 6 seconds.

So guesses in the name of one user are at most 100 + 600 an hour from new addresses, 60 an hour from
those that failed before, and one every 15 minutes from one address alone. A user is kept out by
whoever guesses at the same address, or at hundreds of new ones an hour while the user comes from
a new one as well. Memory is bounded: of users, of addresses and of pairs the latest `entries` are
kept.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_LONGEST_NAME: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LockoutLimits:
    """When attempts are delayed; times are in seconds.

    The delay of a user ends sooner than that of an address: anyone can fail in the name of a user,
    and must not lock the user out.
    """

    free: int = 5
    first: float = 1.0
    longest_of_user: float = 60.0
    longest_of_address: float = 900.0
    expiry: float = 3600.0
    """Time since the last failure after which failures no longer count."""
    passes: int = 100
    """Attempts that a user's delay does not hold up, from addresses with few failures."""
    pass_every: float = 6.0
    """Time after which there is one more of these."""
    entries: int = 10_000


class Lockout:
    """Counts failed attempts; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float], limits: LockoutLimits | None = None) -> None:
        self._clock = clock
        self._limits = limits or LockoutLimits()
        self._users = _Counters(self._limits, self._limits.longest_of_user)
        self._addresses = _Counters(self._limits, self._limits.longest_of_address)
        self._pairs = _Counters(self._limits, self._limits.longest_of_user)
        self._passes = _Passes(self._limits)
        self._known: OrderedDict[str, None] = OrderedDict()
        """Users with the addresses that they logged in from, the latest last."""

    def begin(self, user: str, address: str) -> float:
        """Return the seconds until an attempt may be made; 0 if now, and then it counts.

        An attempt counts as failed until `succeeded`. Otherwise many at the same time would all
        be free, since none of them has failed when the others begin.
        """
        now = self._clock()
        name, network = user[:_LONGEST_NAME], network_of(address)
        pair = _pair(name, network)
        if pair in self._known:
            delay = self._pairs.delay(pair, now)
        else:
            delay = max(
                self._addresses.delay(network, now), self._delay_of_user(name, network, now)
            )
        if delay > 0:
            return delay
        self._users.add(name, now)
        self._addresses.add(network, now)
        if pair in self._known:
            self._pairs.add(pair, now)
        return 0.0

    def succeeded(self, user: str, address: str) -> None:
        """Note that the attempt was right: the user has no failures, the address one fewer.

        The address keeps the others. Otherwise a user could guess the passwords of others without
        any delay, with a login of their own in between.
        """
        name, network = user[:_LONGEST_NAME], network_of(address)
        pair = _pair(name, network)
        self._users.remove(name)
        self._addresses.take_back(network)
        self._pairs.remove(pair)
        self._known.pop(pair, None)
        self._known[pair] = None
        while len(self._known) > self._limits.entries:
            self._known.popitem(last=False)

    def _delay_of_user(self, name: str, network: str, now: float) -> float:
        """Return how long failures in a user's name hold up an address."""
        delay = self._users.delay(name, now)
        if delay > 0 and self._addresses.count(network, now) < self._limits.free:
            # Taken though the address may be delayed itself: only after `free` failures it is.
            return 0.0 if self._passes.take(name, now) else delay
        return delay

    def __len__(self) -> int:
        return len(self._users) + len(self._addresses) + len(self._pairs) + len(self._passes)


def _pair(name: str, network: str) -> str:
    return f"{network} {name}"


class _Passes:
    """How many attempts a user's delay did not hold up, by user; each is forgotten in time."""

    def __init__(self, limits: LockoutLimits) -> None:
        self._limits = limits
        self._taken: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """How many are taken, and when that was so; the latest last."""

    def __len__(self) -> int:
        return len(self._taken)

    def take(self, name: str, now: float) -> bool:
        """Take one, if there is one."""
        taken, since = self._taken.pop(name, (0.0, now))
        taken = max(0.0, taken - (now - since) / self._limits.pass_every)
        granted = taken + 1 <= self._limits.passes
        self._taken[name] = (taken + granted, now)
        while len(self._taken) > self._limits.entries:
            self._taken.popitem(last=False)
        return granted


def network_of(address: str) -> str:
    """Return what counts as one address: IPv4 itself, of IPv6 the /64, which is one host's."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:_LONGEST_NAME]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


@dataclass(slots=True)
class _Failures:
    count: int
    last: float
    until: float


class _Counters:
    """Failures by name, the latest last."""

    def __init__(self, limits: LockoutLimits, longest: float) -> None:
        self._limits = limits
        self._longest = longest
        self._failures: OrderedDict[str, _Failures] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures)

    def delay(self, name: str, now: float) -> float:
        """Return the seconds until the next attempt, 0 or less if there is no delay."""
        found = self._failures.get(name)
        return 0.0 if found is None else found.until - now

    def count(self, name: str, now: float) -> int:
        """Return how many failures count."""
        found = self._failures.get(name)
        return 0 if found is None or now - found.last > self._limits.expiry else found.count

    def add(self, name: str, now: float) -> None:
        """Count a failure, and set the delay."""
        found = self._failures.pop(name, None)
        fresh = found is None or now - found.last > self._limits.expiry
        count = 1 if found is None or fresh else found.count + 1
        beyond = count - self._limits.free
        # The exponent is bounded: a float overflows at 2**1024.
        wait = min(self._limits.first * 2 ** min(beyond, 32), self._longest) if beyond >= 0 else 0
        self._failures[name] = _Failures(count, now, now + wait)
        # The oldest goes first, locked or not. To push a locked user out takes failures in
        # `entries` other names, from thousands of addresses, since each address is delayed too.
        while len(self._failures) > self._limits.entries:
            self._failures.popitem(last=False)

    def take_back(self, name: str) -> None:
        """Uncount the latest failure, and end its delay."""
        found = self._failures.get(name)
        if found is not None:
            found.count -= 1
            found.until = 0.0
            if found.count == 0:
                del self._failures[name]

    def remove(self, name: str) -> None:
        """Uncount all failures."""
        self._failures.pop(name, None)
