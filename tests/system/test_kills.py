"""netmaster is killed at random moments while every kind of object changes, on a real store.

One client per kind leads its subject through its life again and again. After each kill the next
master must find, of each kind, what was there before the request under way or what it leads to;
from there the client goes on.
"""

import random
import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

import pytest

from core import keys
from netmaster import entries
from tests.bed.master import Master
from tests.bed.store import Store
from tests.bed.waiting import eventually
from tests.property.subjects import SUBJECTS, Request, Subject, told

pytestmark = [pytest.mark.store, pytest.mark.system]

KILLS: Final = 22
LIVES_FOR: Final = (0.02, 0.6)
"""Between how many seconds of changes a master is killed."""


class Client(threading.Thread):
    """Sends one subject's requests, from a step on, until one is not answered."""

    def __init__(self, master: Master, subject: Subject, step: int) -> None:
        super().__init__()
        self.subject = subject
        self.step = step
        self.wrong: list[str] = []
        self._master = master
        self.answered = 0

    def run(self) -> None:
        """Lead the subject through its life until the master is gone."""
        while not self.wrong:
            request = self.subject.life[self.step]
            try:
                answer = self._master.ask(request.method, request.path, request.body)
            except (OSError, HTTPException):
                return
            if answer.status != 200:
                self.wrong.append(f"{request.method} {request.path}: {answer.text}")
                return
            self.answered += 1
            self.step = (self.step + 1) % len(self.subject.life)


def test_every_kind_survives_kills(store: Store, bed_dir: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    moments = random.Random(seed)
    master = Master(bed_dir, store)
    master.start()
    try:
        for subject in SUBJECTS:
            for request in subject.before:
                _must(master, request)
        known = {subject.kind: _lived(master, store, subject) for subject in SUBJECTS}
        steps = dict.fromkeys(known, 0)
        changes = dict.fromkeys(known, 0)
        for kill in range(KILLS):
            clients = [Client(master, subject, steps[subject.kind]) for subject in SUBJECTS]
            for client in clients:
                client.start()
            time.sleep(moments.uniform(*LIVES_FOR))
            master.kill()
            for client in clients:
                client.join()
                assert not client.wrong, (seed, kill, client.wrong)
            _forget_leader(store)
            master.start()
            for client in clients:
                kind = client.subject.kind
                steps[kind] = _stands(store, client, known[kind])
                changes[kind] += client.answered
        print(f"{KILLS} kills, changes in between: {changes}")  # noqa: T201 - what it was worth
        assert min(changes.values()) > 0
    finally:
        master.kill()
    assert "internal error" not in master.log_text()
    assert "Traceback" not in master.log_text()


def _must(master: Master, request: Request) -> None:
    answer = master.ask(request.method, request.path, request.body)
    assert answer.status == 200, (request, answer.text)


def _lived(master: Master, store: Store, subject: Subject) -> list[dict[str, Any]]:
    """Lead a subject through its life once; return what the store told of it at each step."""
    found = []
    for request in subject.life:
        found.append(told(_stored(store), subject.mark))
        _must(master, request)
    assert told(_stored(store), subject.mark) == found[0]
    return found


def _stands(store: Store, client: Client, known: list[dict[str, Any]]) -> int:
    """Return at which step a subject stands after its master's death."""
    before, after = client.step, (client.step + 1) % len(known)
    for step in (after, before):
        if told(_stored(store), client.subject.mark) == known[step]:
            return step

    def finished() -> bool:
        return told(_stored(store), client.subject.mark) == known[after]

    eventually(finished, f"{client.subject.kind} stands at step {before} or {after}", within=5)
    return after


def _forget_leader(store: Store) -> None:
    """Take the dead master's lock away, as the end of its lease would."""
    store.delete(keys.LEADER_LOCK)


def _stored(store: Store) -> dict[str, bytes]:
    found = store.entries(keys.ROOT)
    return {key: value for key, value in found.items() if entries.is_leaders(key)}
