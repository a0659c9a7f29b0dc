"""A transport without a socket: tests read what was written and decide what comes back."""

import asyncio

from ofnet.channel import wire
from ofnet.channel.session import SwitchSession


class FakeTransport(asyncio.Transport):
    """Collects what a session writes; `abort` ends it as a real one does, on the next turn."""

    def __init__(self, socket: object = None) -> None:
        super().__init__({"socket": socket})
        self.written = bytearray()
        self.wrote = asyncio.Event()
        self.unsent = 0
        self._session: SwitchSession | None = None
        self._closing = False

    def connect(self, session: SwitchSession) -> None:
        self._session = session
        session.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.wrote.set()

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def abort(self) -> None:
        if not self._closing and self._session is not None:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._session.connection_lost, None)

    def sent(self) -> list[wire.OpenflowMessage]:
        """Take the messages written since the last time."""
        self.wrote.clear()
        return list(wire.frames(self.written))
