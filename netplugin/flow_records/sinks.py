"""Where records of flows are exported to: a file, a unix socket, a collector of IPFIX.

In come batches (`netplugin.flow_records.export`), and where to (`netplugin.settings`). A batch that
cannot be sent raises OSError and is not sent again: the exporter counts it as lost.
"""

import asyncio
import errno
import json
import os
import socket
import stat
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from core.ids import HostLabel
from netplugin.flow_records import ipfix
from netplugin.flow_records.ipfix import Portion

LARGEST_FILE: Final = 64 << 20
"""Bytes after which a file is put aside."""
KEPT_FILES: Final = 4
"""How many files are kept beside the one that is written: `<path>.1` is the newest."""
PATIENCE: Final = 5.0
"""Seconds that a reader of a socket may take for a batch."""
AT_ONCE: Final = 32
"""Datagrams after which a collector is given `PAUSE` seconds."""
PAUSE: Final = 0.005


class Sink(Protocol):
    """Something that takes batches."""

    async def send(self, batch: Sequence[Portion]) -> None:
        """Send a batch. Raises OSError."""

    def close(self) -> None:
        """Free what is open."""


def lines(host: HostLabel, batch: Sequence[Portion]) -> bytes:
    """Return a batch as lines of JSON, one for each record, as `netctl flows -o jsonl` has them."""
    shown = ({"host": host, **portion.record.shown()} for portion in batch)
    return "".join(f"{json.dumps(one)}\n" for one in shown).encode()


class FileSink:
    """Lines of JSON in a file, which is put aside when it is large; the oldest go."""

    def __init__(
        self,
        path: Path,
        host: HostLabel,
        *,
        largest: int = LARGEST_FILE,
        kept: int = KEPT_FILES,
    ) -> None:
        self._path = path
        self._host = host
        self._largest = largest
        self._kept = kept

    async def send(self, batch: Sequence[Portion]) -> None:
        """Append a batch. Raises OSError."""
        await asyncio.to_thread(self._write, batch)

    def close(self) -> None:
        """Nothing is open between two batches, so that others may move the file."""

    def _write(self, batch: Sequence[Portion]) -> None:
        # without waiting: a pipe that somebody put there may have no reader
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = os.open(self._path, flags | os.O_NONBLOCK, 0o640)
        with os.fdopen(opened, "wb") as file:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                raise OSError(errno.EINVAL, "it is no regular file", str(self._path))
            file.write(lines(self._host, batch))
            file.flush()
            # not `tell`, which knows nothing of what was there before
            size = os.fstat(opened).st_size
        if size >= self._largest:
            self._put_aside()

    def _put_aside(self) -> None:
        for number in range(self._kept - 1, 0, -1):
            with suppress(FileNotFoundError):
                self._aside(number).replace(self._aside(number + 1))
        self._path.replace(self._aside(1))

    def _aside(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


class SocketSink:
    """Lines of JSON to whoever listens at a unix socket."""

    def __init__(self, path: Path, host: HostLabel) -> None:
        self._path = path
        self._host = host
        self._writer: asyncio.StreamWriter | None = None

    async def send(self, batch: Sequence[Portion]) -> None:
        """Send a batch; connects first where that is needed. Raises OSError."""
        text = await asyncio.to_thread(lines, self._host, batch)
        try:
            async with asyncio.timeout(PATIENCE):
                if self._writer is None or self._writer.is_closing():
                    _, self._writer = await asyncio.open_unix_connection(self._path)
                self._writer.write(text)
                await self._writer.drain()
        except (OSError, TimeoutError):
            self.close()
            raise

    def close(self) -> None:
        """End the connection, with what was not taken."""
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None


class IpfixSink:
    """Messages of IPFIX to a collector, by UDP."""

    def __init__(self, address: str, port: int, host: HostLabel, now: Callable[[], float]) -> None:
        self._where = address, port
        self._domain = zlib.crc32(host.encode())
        self._now = now
        self._sequence = 0
        self._socket: socket.socket | None = None

    async def send(self, batch: Sequence[Portion]) -> None:
        """Send a batch. Raises OSError where nothing listens or no way leads."""
        await asyncio.to_thread(self._send, batch)

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, batch: Sequence[Portion]) -> None:
        if self._socket is None:
            family = socket.AF_INET6 if ":" in self._where[0] else socket.AF_INET
            self._socket = socket.socket(family, socket.SOCK_DGRAM)
            self._socket.settimeout(PATIENCE)
            self._socket.connect(self._where)
        told = ipfix.messages(batch, at=self._now(), sequence=self._sequence, domain=self._domain)
        for number, (message, flows) in enumerate(told, start=1):
            # whether or not it arrives, it counts: by a gap the collector knows of the loss
            self._sequence = (self._sequence + flows) % (1 << 32)
            self._socket.send(message)
            if number % AT_ONCE == 0:
                time.sleep(PAUSE)
