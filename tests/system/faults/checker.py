"""Whether a history can be true: what was told at the time, and what is there at the end.

In come a `History` and an `Evidence`; out come sentences, none if all is well. It says only what is
certain: of a request whose outcome nobody knows it supposes that it may have been done at any time
after it was sent, but once. An address is certainly held from the moment its owner was told so
until the owner first asked to be rid of it; two such times of one address must not meet.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from tests.property.holdings import violations as contradictions
from tests.system.faults.evidence import GATEWAY, RESERVATION, Evidence, client_of
from tests.system.faults.history import (
    NEVER,
    Done,
    History,
    NotDone,
    Operation,
    Refused,
    Unknown,
    Verb,
)

GIVING = (Verb.CREATE, Verb.ALLOCATE)
TAKING = (Verb.DELETE, Verb.RELEASE)


@dataclass(slots=True)
class Life:
    """All that was asked about one endpoint, or one reservation, in order."""

    network: str
    name: str
    is_endpoint: bool
    operations: list[Operation] = field(default_factory=list)

    @property
    def addresses(self) -> list[str]:
        """Every address its owner was told it has."""
        return [
            operation.outcome.address
            for operation in self.operations
            if isinstance(operation.outcome, Done) and operation.verb in GIVING
        ]

    @property
    def address(self) -> str:
        """The address it has; "" if nobody was told."""
        return next(iter(self.addresses), "")

    @property
    def since(self) -> int:
        """From when on it certainly holds its address."""
        ends = (o.ended for o in self.operations if o.verb in GIVING and _is_done(o))
        return min(ends, default=NEVER)

    @property
    def until(self) -> int:
        """Until when it certainly does, if it ever did."""
        return min((o.invoked for o in self.operations if o.verb in TAKING), default=NEVER)

    @property
    def kept(self) -> bool:
        """Whether it must be there at the end."""
        return self.since < self.until == NEVER

    @property
    def gone(self) -> bool:
        """Whether its end was acknowledged."""
        return any(o.verb in TAKING and not _is_unknown(o) for o in self.operations)

    @property
    def doubtful(self) -> bool:
        """Whether it may have been, or be, given once more than its owner knows."""
        giving = (*GIVING, Verb.REPORT)
        return any(o.verb in giving and _is_unknown(o) for o in self.operations)

    @property
    def unreported(self) -> bool:
        """Whether no master was certainly told of what a host gave."""
        reported = any(o.verb is Verb.REPORT and _is_done(o) for o in self.operations)
        return any(o.ahead for o in self.operations) and not reported

    def __str__(self) -> str:
        return f"{self.name} on {self.network}"


def violations(history: History, evidence: Evidence) -> list[str]:
    """Return all that cannot be, of a history and what it left."""
    lives = lives_of(history)
    return [
        *_lies(lives),
        *_held_twice(lives),
        *contradictions(evidence.store),
        *_lost(lives, evidence),
        *_left(lives, evidence),
        *_unasked(lives, evidence),
        *_told_otherwise(evidence),
    ]


def lives_of(history: History) -> list[Life]:
    """Return what was asked, by whom it was about.

    What was certainly not done is left out: had it been done, what it left would be nobody's.
    """
    lives: dict[tuple[str, str], Life] = {}
    for operation in history.operations:
        if isinstance(operation.outcome, NotDone):
            continue
        is_endpoint = operation.verb not in {Verb.ALLOCATE, Verb.RELEASE}
        key = operation.network, operation.name
        life = lives.setdefault(key, Life(*key, is_endpoint))
        life.operations.append(operation)
    return list(lives.values())


def _lies(lives: Iterable[Life]) -> Iterator[str]:
    """Find answers that contradict one given before."""
    for life in lives:
        addresses = life.addresses
        if len(set(addresses)) > 1:
            yield f"{life} was told different addresses: {', '.join(addresses)}"
        # Read once: each of them looks at the whole life, and a life may be long.
        has, since, until = life.address, life.since, life.until
        for operation in life.operations:
            if operation.verb in GIVING or not since < operation.invoked:
                continue
            if operation.ended > until and operation.invoked != until:
                continue  # somebody had asked to be rid of it by then
            match operation.outcome:
                case Refused(absent=True) if not life.unreported:
                    yield f"{life} was not there to {operation.verb}, though acknowledged"
                case Done(address) if address != has:
                    yield f"{life} has {has}, but {operation.verb} was told {address}"
                case _:
                    pass


def _held_twice(lives: Iterable[Life]) -> Iterator[str]:
    def place(life: Life) -> tuple[str, str]:
        return life.network, life.address

    holding = sorted((life for life in lives if life.since < life.until), key=place)
    for (network, address), same in groupby(holding, place):
        for first, second in pairwise(sorted(same, key=lambda life: life.since)):
            if second.since < first.until:
                names = f"{first.name} and {second.name}"
                yield f"{address} on {network} was held by {names} at once"


def _lost(lives: Iterable[Life], evidence: Evidence) -> Iterator[str]:
    """Find what was acknowledged and is not there."""
    for network, kept in _by_network(life for life in lives if life.kept):
        endpoints, grants = evidence.endpoints(network), evidence.grants(network)
        for life in kept:
            if life.is_endpoint:
                found = endpoints.get(life.name)
            else:
                grant = grants.get(life.address)
                found = life.address if grant and grant.kind == RESERVATION else None
            if found != life.address:
                yield f"{life} was acknowledged {life.address}, the store has {found}"


def _left(lives: Iterable[Life], evidence: Evidence) -> Iterator[str]:
    """Find endpoints whose end was acknowledged, and those nobody asked for."""
    for network, endpoints in _by_network(life for life in lives if life.is_endpoint):
        possible = {
            life.name for life in endpoints if life.doubtful or (life.address and not life.gone)
        }
        for name, address in evidence.endpoints(network).items():
            if name not in possible:
                yield f"{name} on {network} holds {address}, but was deleted or never asked for"


def _unasked(lives: Iterable[Life], evidence: Evidence) -> Iterator[str]:
    """Find reservations that are more than can have been made.

    One says only which client's group it was made for. So it must be one that was acknowledged and
    not certainly released, or else one of that client's whose outcome is unknown.
    """
    for network, asked in _by_network(life for life in lives if not life.is_endpoint):
        known = {life.address for life in asked if life.address and not life.gone}
        doubts = Counter(life.operations[0].client for life in asked if life.doubtful)
        for address, grant in evidence.grants(network).items():
            if grant.kind != RESERVATION or address in known:
                continue
            client = client_of(grant.owner)
            doubts[client] -= 1
            if doubts[client] < 0:
                yield (
                    f"{address} on {network} is reserved for {client}, "
                    "but was released or never asked for"
                )


def _told_otherwise(evidence: Evidence) -> Iterator[str]:
    """Find where netmaster's inspection is not what the store holds."""
    for network, told in evidence.told.items():
        grants, endpoints = evidence.grants(network), evidence.endpoints(network)
        if told.endpoints != endpoints:
            odd = sorted(dict(told.endpoints.items() ^ endpoints.items()))
            yield f"netmaster tells other endpoints of {network} than the store: {odd}"
        if told.allocated != grants.keys():
            odd = sorted(told.allocated ^ grants.keys())
            yield f"netmaster tells other addresses of {network} than the store: {odd}"
        count = sum(grant.kind != GATEWAY for grant in grants.values())
        if told.count != count:
            yield f"netmaster counts {told.count} addresses of {network}, the store has {count}"


def _by_network(lives: Iterable[Life]) -> Iterator[tuple[str, Sequence[Life]]]:
    ordered = sorted(lives, key=lambda life: life.network)
    for network, same in groupby(ordered, lambda life: life.network):
        yield network, list(same)


def _is_done(operation: Operation) -> bool:
    return isinstance(operation.outcome, Done)


def _is_unknown(operation: Operation) -> bool:
    return isinstance(operation.outcome, Unknown)
