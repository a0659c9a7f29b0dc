"""Clients of a netmaster that is about to be killed, and what its death struck.

In come a running master and subjects (`tests.property.subjects`); each `Client` leads one of them
through its life until the master is gone. Out comes, for each, where it may stand: an answer
means that its change is there; a request that was sent and not answered has been carried out or
not; one that never left has not.
"""

import http.client
import time
from collections.abc import Sequence
from contextlib import closing
from threading import Thread
from typing import Final

from tests.bed.master import Master
from tests.property.subjects import Request, Subject

PATIENCE: Final = 60.0
"""Seconds a living master may take for an answer, on the slowest of machines."""


class Client(Thread):
    """Sends one subject's requests, from a step on, until the master is gone."""

    def __init__(self, master: Master, subject: Subject, step: int) -> None:
        super().__init__()
        self.subject = subject
        self.step = step
        self.answered = 0
        self.wrong = ""
        self._sent_at: float | None = None
        self._master = master

    def run(self) -> None:
        """Lead the subject through its life."""
        address = ("127.0.0.1", self._master.port)
        with closing(http.client.HTTPConnection(*address, timeout=PATIENCE)) as connection:
            while not self.wrong:
                request = self.subject.life[self.step]
                try:
                    self._send(connection, request)
                    answer = connection.getresponse()
                    text = answer.read().decode()
                except TimeoutError:
                    self.wrong = f"{request}: no answer within {PATIENCE:g} s"
                except (OSError, http.client.HTTPException):
                    return
                else:
                    self._note(request, answer.status, text)

    def struck(self, killed_at: float) -> bool:
        """Return whether the kill at that time found a request sent and not answered."""
        return self._sent_at is not None and self._sent_at < killed_at

    @property
    def steps(self) -> Sequence[int]:
        """Return where the subject may stand now that the master is dead."""
        after = (self.step + 1) % len(self.subject.life)
        return (self.step,) if self._sent_at is None else (after, self.step)

    def _send(self, connection: http.client.HTTPConnection, request: Request) -> None:
        headers = {"Content-Type": "application/json"}
        connection.request(request.method, request.path, request.payload or None, headers)
        self._sent_at = time.monotonic()

    def _note(self, request: Request, status: int, text: str) -> None:
        self._sent_at = None
        if status != request.status:
            self.wrong = f"{request}: {status} {text}"
            return
        self.answered += 1
        self.step = (self.step + 1) % len(self.subject.life)
