"""Delays after wrong passwords, by user and by address. Pure: the clock is injected.

Five failures are free; each further one doubles the delay until the next attempt. Memory is
bounded: of users and of addresses the latest `entries` are kept.
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
    entries: int = 10_000


class Lockout:
    """Counts failed attempts; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float], limits: LockoutLimits | None = None) -> None:
        self._clock = clock
        limits = limits or LockoutLimits()
        self._users = _Counters(limits, limits.longest_of_user)
        self._addresses = _Counters(limits, limits.longest_of_address)

    def begin(self, user: str, address: str) -> float:
        """Return the seconds until an attempt may be made; 0 if now, and then it counts.

        An attempt counts as failed until `succeeded`. Otherwise many at the same time would all
        be free, since none of them has failed when the others begin.
        """
        now = self._clock()
        name, network = user[:_LONGEST_NAME], network_of(address)
        delay = max(self._users.delay(name, now), self._addresses.delay(network, now))
        if delay <= 0:
            self._users.add(name, now)
            self._addresses.add(network, now)
            return 0.0
        return delay

    def succeeded(self, user: str, address: str) -> None:
        """Note that the attempt was right: the user has no failures, the address one fewer.

        The address keeps the others. Otherwise a user could guess the passwords of others without
        any delay, with a login of their own in between.
        """
        self._users.remove(user[:_LONGEST_NAME])
        self._addresses.take_back(network_of(address))

    def __len__(self) -> int:
        return len(self._users) + len(self._addresses)


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
