"""A server of a test's own in another's place, for the length of a `with`, on a thread of its own.

What it answers is its subclass's; must not know whom it stands in for.
"""

import socketserver
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Final, Self

NOTICES_END: Final = 0.02
"""Seconds until the server sees that it is to end; half a second by default, for each test."""


class StandInServer(ABC):
    """Serves from `__enter__` to `__exit__`."""

    def __init__(self, server: socketserver.BaseServer) -> None:
        self.ended = False
        """Set before `let_go` at the end: who is about to wait for an answer then must not."""

        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, args=(NOTICES_END,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.ended = True
        self.let_go()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @abstractmethod
    def let_go(self) -> None:
        """Let everybody go who is kept waiting for an answer."""
