"""netmaster is killed at random moments while every kind of object changes, on a real store.

Clients lead subjects of every kind through their lives (`tests.system.strikes`). A kill counts for
a kind if it found one of its requests sent and not answered. After each kill the next master must
find of each subject what was there before its last request or what that leads to, and
`tests.system.judge` must find the whole of one piece.
"""

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bed.master import Master
from tests.bed.store import Store
from tests.property.subjects import NEVER_STORED, SUBJECTS, Subject, told
from tests.system.judge import PLURALS, complaints
from tests.system.strikes import Client
from tests.system.succession import leading, send, stored, succeed

pytestmark = [pytest.mark.store, pytest.mark.system, pytest.mark.thorough]

STRIKES: Final = 20
"""How often each kind must have been struck."""
MOST_KILLS: Final = 60
LIVES_FOR: Final = (0.02, 0.4)
"""Between how many seconds of changes a master is killed."""
COPIES: Final = 2
"""Clients of each kind, but of those of which there is one object only."""
ONE_OF_A_KIND: Final = frozenset({"aciGw", "global"})

CROWD: Final = tuple(
    subject if subject.kind in ONE_OF_A_KIND else subject.copy(number)
    for subject in (*SUBJECTS, *NEVER_STORED)
    for number in range(1 if subject.kind in ONE_OF_A_KIND else COPIES)
)


def test_every_kind_survives_kills(store: Store, bed_dir: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    moments = random.Random(seed)
    with leading(store, bed_dir) as master:
        send(master, *(request for subject in CROWD for request in subject.before))
        known = {subject.mark: _lived(master, store, subject) for subject in CROWD}
        steps = dict.fromkeys(known, 0)
        strikes = Counter(dict.fromkeys((subject.kind for subject in CROWD), 0))
        answered = carried_out = kills = 0
        while min(strikes.values()) < STRIKES and kills < MOST_KILLS:
            kills += 1
            clients = [Client(master, subject, steps[subject.mark]) for subject in CROWD]
            strikes.update(_struck(master, clients, moments))
            succeed(master, store)
            found = stored(store)
            for client in clients:
                mark = client.subject.mark
                steps[mark] = _stands(found, client, known[mark])
                answered += client.answered
                carried_out += steps[mark] != client.step
            assert complaints(found, master.ask) == []
        print(f"{kills} kills struck {dict(strikes)}")  # noqa: T201 - what it was worth
        print(f"{answered} changes answered, {carried_out} carried out besides")  # noqa: T201
    assert strikes.keys() >= PLURALS.keys() | {"endpoint"}
    assert min(strikes.values()) >= STRIKES, strikes


def _lived(master: Master, store: Store, subject: Subject) -> list[dict[str, Any]]:
    """Lead a subject through its life once; return what the store told of it at each step."""
    found = []
    for request in subject.life:
        found.append(told(stored(store), subject.mark))
        send(master, request)
    assert told(stored(store), subject.mark) == found[0]
    return found


def _struck(master: Master, clients: Sequence[Client], moments: random.Random) -> set[str]:
    """Have the clients at work, kill the master, and return which kinds that struck."""
    for client in clients:
        client.start()
    time.sleep(moments.uniform(*LIVES_FOR))
    killed_at = time.monotonic()
    master.kill()
    for client in clients:
        client.join()
        assert not client.wrong
    return {client.subject.kind for client in clients if client.struck(killed_at)}


def _stands(found: Mapping[str, bytes], client: Client, known: Sequence[dict[str, Any]]) -> int:
    """Return at which step a subject stands after its master's death."""
    now = told(found, client.subject.mark)
    at = [step for step in client.steps if known[step] == now]
    assert at, f"{client.subject.mark} is at none of the steps {client.steps}: {now}"
    return at[0]
