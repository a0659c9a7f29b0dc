"""Idempotency keys: the answer to a change is stored with the change, and given again. Pure.

A client that does not know what became of a change sends it again with the same `Idempotency-Key`.
In comes the decision of a change; out comes one that makes the change once, whichever master leads.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from core import keys
from core.errors import Malformed, TooLarge
from netmaster.api.http.problems import KeyReused
from netmaster.api.v2.changes import Answer, Decide
from netmaster.plan.model import Plan
from netmaster.stored import KeptAnswer, Write
from netmaster.view import View

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotency-Replayed"
"""Header of an answer that was given before."""
LONGEST: Final = 128
"""Characters of a key."""
MOST: Final = 1024
"""Answers that are kept; of who has most, the oldest go first."""
MOST_OF_CLIENT: Final = 256
"""Answers of one client that are kept, where clients are known."""
KEPT: Final = 86_400.0
"""Seconds that an answer is kept at least, unless there are too many."""
LARGEST: Final = 65_536
"""Bytes of an answer that is kept."""
ROOM: Final = 16
"""Writes of a change up to which it removes an old answer as well: stores limit transactions."""

_KEY: Final = re.compile(rf"[\x21-\x7e]{{1,{LONGEST}}}")


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A client's key, and what it asked with it, as digests."""

    digest: str
    request: str
    client: str = ""
    """A digest of the client, "" where clients are not known."""

    @classmethod
    def of(cls, key: str, who: str, asked: str, body: bytes) -> "KeyedRequest":
        """Return the digests of a key and a request. Raises Malformed for what is no key.

        `who` is the client, "" where clients are not known; `asked` is all but the body.
        """
        if not _KEY.fullmatch(key):
            raise Malformed(f"header {HEADER}: want 1 to {LONGEST} visible ASCII characters")
        return cls(
            _digest(f"{who}\n{key}".encode()),
            _digest(asked.encode() + b"\n" + body),
            _digest(who.encode()) if who else "",
        )


@dataclass(frozen=True, slots=True)
class Replayed:
    """An answer that was given before."""

    answer: Answer


def once(decide: Decide, keyed: KeyedRequest, now: float) -> Decide:
    """Return a decision that makes a change unless its answer is kept. Its plan raises KeyReused.

    A refusal is not kept: nothing was changed, so the request may be sent again.
    """

    # The answer is in the change's own transaction. So the store has both or neither, and no
    # request in flight can pass a first one: the view shows an answer as soon as it is decided.
    def decide_once(view: View) -> Plan:
        kept = view.answers.get(keyed.digest)
        if kept is not None:
            if kept.request != keyed.request:
                raise KeyReused(f"the {HEADER} was sent with another request before")
            return Plan((), reply=Replayed(_answer(kept)))
        plan = decide(view)
        answer = plan.reply
        if not isinstance(answer, Answer):
            raise TypeError(f"a change replied {answer!r}")
        if len(answer.body) > LARGEST:
            raise TooLarge(f"an answer of more than {LARGEST} bytes cannot be kept for a key")
        write = Write(keys.answer(keyed.digest), _kept(answer, keyed, now), new=True)
        outdated = _outdated(view, keyed.client, now) if len(plan.writes) <= ROOM else ()
        return replace(plan, writes=(*plan.writes, write, *outdated))

    return decide_once


def _outdated(view: View, client: str, now: float) -> Iterator[Write]:
    """Yield the removal of one answer, if there are too many or the oldest is old enough.

    A client pushes out its own answers: those of others are there when they ask again.
    """
    counts = Counter(one.client for one in view.answers.values())
    if client and counts[client] >= MOST_OF_CLIENT:
        crowded = client
    elif len(view.answers) >= MOST:
        crowded = max(counts, key=lambda one: (counts[one], one))
    else:
        oldest = min(view.answers.values(), key=_age, default=None)
        if oldest and now - oldest.at > KEPT:
            yield Write(keys.answer(oldest.digest), None, new=False)
        return
    oldest = min((one for one in view.answers.values() if one.client == crowded), key=_age)
    yield Write(keys.answer(oldest.digest), None, new=False)


def _age(kept: KeptAnswer) -> float:
    return kept.at


def _kept(answer: Answer, keyed: KeyedRequest, now: float) -> KeptAnswer:
    return KeptAnswer(
        digest=keyed.digest,
        request=keyed.request,
        status=answer.status,
        key=answer.key,
        etag=answer.etag,
        body=answer.body,
        at=now,
        client=keyed.client,
    )


def _answer(kept: KeptAnswer) -> Answer:
    return Answer(status=kept.status, key=kept.key, etag=kept.etag, body=kept.body)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:40]
