"""How many requests of a kind are answered at once: in all, of one client, and beside a reserve.

In comes who asks; out comes a place for the length of a request, or TooManyAtOnce. Clients that are
known by certificate or token are counted by their name, whatever addresses they come from, and
administrators have places that nobody else takes. Without TLS nobody is known: addresses are
counted, and there is no reserve. Used for event streams, and for what costs a master and all hosts
much (`netmaster.api.costly`).
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from daemons.certificates.peers import Role
from netmaster.api.http.problems import TooManyAtOnce
from netmaster.auth.roles import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceLimits:
    """Limits of requests of a kind: in all, of one client, and of these in all for administrators.

    `per_address` is for clients that are not known.
    """

    total: int
    per_client: int
    reserve: int
    per_address: int


class LimitedPlaces:
    """The places of one kind; `what` names it in refusals."""

    def __init__(
        self, what: str, limits: PlaceLimits, error: type[TooManyAtOnce] = TooManyAtOnce
    ) -> None:
        self._what = what
        self._limits = limits
        self._error = error
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, who: Identity | None, address: str) -> Iterator[None]:
        """Have a place for the length of the body. Raises TooManyAtOnce."""
        client, most, of_one = self._share(who, address)
        if self._taken.total() >= most or self._taken[client] >= of_one:
            raise self._error(
                f"{self._taken.total()} {self._what} are open, {self._taken[client]} of them of "
                f"{client}"
            )
        self._taken[client] += 1
        try:
            yield
        finally:
            self._taken[client] -= 1
            if not self._taken[client]:
                del self._taken[client]

    def _share(self, who: Identity | None, address: str) -> tuple[str, int, int]:
        """Return who is counted, how many places there are for it, and how many of these alone."""
        limits = self._limits
        if who is None:
            return address, limits.total, limits.per_address
        reserve = 0 if who.role is Role.ADMIN else limits.reserve
        return str(who), limits.total - reserve, limits.per_client
