"""The lineage of a store: the terms of its leaders, by which a store that went back is recognised.

Revisions alone do not tell: a store that was restored from a backup passes each of them again. So
every leader adds its term, under a random id, to the stored lineage, and notes the revision of the
last commit before it. A position (a term, and a revision seen in it) is in the lineage if its term
is there and no later term began before the position's revision (ADR 20).

Netmaster writes it (`netmaster.plan.lineage`), `netmaster load` begins a new one, and agents
compare their positions with it (`state.watch`, `netplugin.pods.claims`).
"""

import json
from dataclasses import dataclass
from typing import Final

from pydantic_core import from_json

from core import keys
from core.errors import Invalid

KEPT: Final = 256
"""Terms kept. A position in an older one counts as one of another history."""


@dataclass(frozen=True, slots=True)
class Term:
    """One leader's term, or the loading of a backup.

    `after` is the revision of the last commit of a leader before it, 0 for none.
    """

    id: str
    after: int
    loaded: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """A revision that was seen in a term; the term is "" where none was known."""

    term: str = ""
    rev: int = 0


@dataclass(frozen=True, slots=True)
class Lineage:
    """The terms of a store, oldest first."""

    terms: tuple[Term, ...] = ()

    @property
    def current(self) -> str:
        """The id of the last term, which names the history; "" before the first one."""
        return self.terms[-1].id if self.terms else ""

    @property
    def was_loaded(self) -> bool:
        """Whether no leader has had a term since a backup was loaded."""
        return bool(self.terms) and self.terms[-1].loaded

    def begin(self, term: Term) -> "Lineage":
        """Return the lineage with a further term."""
        return Lineage((*self.terms, term)[-KEPT:])

    def shared_until(self, term: str) -> int | None:
        """Return up to which revision what was seen in a term is shared; None for no limit."""
        # `after` is the revision of a commit that the next leader found. So it is of both
        # histories, if there are two, and all before it is as well.
        known = [one.id for one in self.terms]
        if term not in known:
            return 0
        following = known.index(term) + 1
        return self.terms[following].after if following < len(known) else None

    def has(self, position: Position) -> bool:
        """Return whether a position is of this history."""
        until = self.shared_until(position.term)
        return until is None or 0 < position.rev <= until


def encode(lineage: Lineage) -> bytes:
    """Return the bytes to store."""
    terms = [
        {"id": term.id, "after": term.after} | ({"loaded": True} if term.loaded else {})
        for term in lineage.terms
    ]
    return json.dumps({"terms": terms}).encode()


def decode(value: bytes) -> Lineage:
    """Decode what is stored. Raises Invalid."""
    try:
        return Lineage(tuple(map(_term, from_json(value, allow_inf_nan=False)["terms"])))
    except (ValueError, TypeError, KeyError) as exc:
        raise Invalid(f"key {keys.LINEAGE}: not a lineage: {value[:80]!r}") from exc


def _term(value: object) -> Term:
    match value:
        case {"id": str(name), "after": int(after), **rest} if name and after >= 0:
            return Term(name, after, loaded=rest.get("loaded") is True)
        case _:
            raise ValueError(value)
