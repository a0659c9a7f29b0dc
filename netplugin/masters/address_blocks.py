"""The addresses that this host holds ahead of its pods, and until when it may use them (pure).

In come netmaster's answers, a clock and the networks of pods; out come addresses for ADDs and the
next request to netmaster (`netplugin.pods.registry.block_renewal`). The rules that keep an address
from two pods are ADR 29's; netmaster's half is `netmaster.plan.endpoints.address_blocks`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from core.ids import NetworkId

USED_OF_LEASE: Final = 0.9
"""The part of a lease in which addresses are used: the clocks of two machines differ in speed."""
RENEWALS_OF_LEASE: Final = 8
"""How often a lease is renewed while it lasts."""
LONGEST_PAUSE: Final = 600.0
"""Seconds between renewals at most: a drained host learns of it then."""
KEPT: Final = 600.0
"""Seconds for which addresses are held of a network that has no pods here any more."""


class HeldAddress(NamedTuple):
    """Addresses for one pod, "" for no IPv6, and the token by which netmaster knows the grant."""

    ipv4: str
    ipv6: str
    token: str


InUse = tuple[NetworkId, str, str]
"""A pod's network, IPv4 and IPv6 address."""


class BlocksAsked(NamedTuple):
    """A request for blocks: the last answer that is known, all that this host counts on."""

    lease: str
    number: int
    held: Mapping[NetworkId, list[str]]
    wanted: Mapping[NetworkId, int]


class BlocksAnswer(NamedTuple):
    """What netmaster answered; `renewed` says whether it did as asked."""

    lease: str
    number: int
    renewed: bool
    seconds: float
    granted: tuple[tuple[NetworkId, HeldAddress], ...]
    drained: bool


class AddressBlocks:
    """About `size` free addresses of each network; `clock` also runs while the machine sleeps."""

    # Invariant: an address is given to a pod only if it is in `_free` and the lease lasts. It comes
    # there by an answer alone, and leaves it by being given. What was given never comes back: its
    # endpoint is released by netmaster, or no request names it any more, and netmaster frees it.
    #
    # So every request must name all that is free and all that pods of this host have (`in_use`),
    # and no two requests may be under way at once.

    def __init__(self, size: int, clock: Callable[[], float]) -> None:
        self._size = size
        self._clock = clock
        self._free: dict[NetworkId, list[HeldAddress]] = {}
        self._wanted_at: dict[NetworkId, float] = {}
        self._lease = ""
        self._number = 0
        self._until = float("-inf")
        self._renew_at = float("-inf")

    @property
    def usable(self) -> bool:
        """Tell whether addresses may be used now."""
        return self._clock() < self._until

    @property
    def low(self) -> bool:
        """Tell whether addresses of some network are to be had."""
        return any(self._missing(nid) for nid in self._wanted_at)

    @property
    def pause(self) -> float:
        """Return in how many seconds the lease is to be renewed."""
        return max(0.0, self._renew_at - self._clock())

    def free(self, network: NetworkId) -> int:
        """Return how many addresses of a network are free."""
        return len(self._free.get(network, ()))

    def want(self, networks: Iterable[NetworkId]) -> None:
        """Take note that pods of this host are on these networks now."""
        self._wanted_at.update(dict.fromkeys(networks, self._clock()))

    def give(self, network: NetworkId) -> HeldAddress | None:
        """Return addresses for a new pod; None if netmaster has to be asked."""
        self.want([network])
        free = self._free.get(network)
        return free.pop(0) if free and self.usable else None

    def request(self, in_use: Iterable[InUse]) -> BlocksAsked:
        """Return the request that renews the lease; `in_use` are the addresses of all pods here."""
        self._end_unwanted()
        held: dict[NetworkId, list[str]] = {}
        for nid, pairs in self._free.items():
            held.setdefault(nid, []).extend(a for one in pairs for a in one[:2] if a)
        for nid, *addresses in in_use:
            held.setdefault(nid, []).extend(filter(None, addresses))
        wanted = {nid: missing for nid in self._wanted_at if (missing := self._missing(nid))}
        return BlocksAsked(self._lease, self._number, held, wanted)

    def answered(self, asked_at: float, answer: BlocksAnswer, in_use: Iterable[InUse] = ()) -> None:
        """Take an answer over; `asked_at` is when its request began, by the clock.

        `in_use` are the addresses of all pods here now. One that is granted ahead as well was
        reclaimed while its pod ran on, and is given to no other pod of this host.
        """
        taken = {(nid, address) for nid, *addresses in in_use for address in addresses}
        if answer.lease != self._lease or answer.number < self._number:
            # Another lease than this host knew, or one that the store has forgotten a part of: what
            # was granted under it may be another's.
            self._free.clear()
            self._until = float("-inf")
        self._lease, self._number = answer.lease, answer.number
        if not answer.renewed:
            self._renew_at = float("-inf")
            return
        if answer.drained:
            self._free.clear()
        for nid, one in answer.granted:
            if taken.isdisjoint((nid, address) for address in (one.ipv4, one.ipv6) if address):
                self._free.setdefault(nid, []).append(one)
        self._until = asked_at + USED_OF_LEASE * answer.seconds
        self._renew_at = asked_at + min(answer.seconds / RENEWALS_OF_LEASE, LONGEST_PAUSE)

    def store_went_back(self) -> None:
        """Give nothing any more that was granted before: the store may not know of it."""
        self._free.clear()
        self._until = self._renew_at = float("-inf")

    def _missing(self, network: NetworkId) -> int:
        free = self.free(network)
        return self._size - free if free <= self._size // 2 else 0

    def _end_unwanted(self) -> None:
        now = self._clock()
        for nid, at in list(self._wanted_at.items()):
            if now - at >= KEPT:
                del self._wanted_at[nid]
                self._free.pop(nid, None)
