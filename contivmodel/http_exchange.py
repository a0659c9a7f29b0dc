"""One exchange of HTTP/1.1 over a connected socket: a request out, an `HttpAnswer` in.

For `contivmodel.client_sync`, which connects, encrypts and words the failures. Bodies are read as
they come, with a length, in chunks or up to the end of the connection (RFC 9112 §6.3).
"""

# Why not `http.client`: its import loads `email` and `ssl`, and takes as long as a bare interpreter
# takes to start. Nothing of it is needed here but this: one request per connection, no cookies, no
# redirects, no compression, and answers of netmaster or a proxy before it.

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from core.numbers import bounded

if TYPE_CHECKING:
    import socket

    from _typeshed import WriteableBuffer

_LINE: Final = 65_536
"""Bytes of a line of an answer, at most."""

_LONGEST_BODY: Final = 10**15
_CHUNK_DIGITS: Final = 12

_HEADERS: Final = 100
"""Header lines of an answer, at most."""

_BODILESS: Final = frozenset({204, 304})


class HttpFailure(Exception):
    """An exchange failed otherwise than by an error of the socket; the text says how."""


class NoReply(HttpFailure):
    """The connection ended before an answer began."""


class CutShort(HttpFailure):
    """The connection ended within an answer."""


class NotSendable(HttpFailure):
    """A header of the request has a value that HTTP cannot carry; nothing was sent."""


class HttpAnswer(io.BufferedReader):
    """The answer to a request, and the reader of its body. Reading raises CutShort, OSError."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str], body: "_Body") -> None:
        super().__init__(body)
        self.status = status
        self.reason = reason
        self.headers = headers
        """By name as the server spells it."""


def exchange(
    sock: "socket.socket",
    method: str,
    target: str,
    *,
    host: str,
    headers: Mapping[str, str],
    payload: bytes | None,
) -> HttpAnswer:
    """Send a request and return its answer, the body unread. Raises HttpFailure, OSError."""
    sock.sendall(_request(method, target, host, headers, payload) + (payload or b""))
    stream = sock.makefile("rb")
    try:
        return _answer(stream)
    except (HttpFailure, OSError):
        stream.close()
        raise


def _answer(stream: io.BufferedReader) -> HttpAnswer:
    while True:
        status, reason = _status(_line(stream))
        headers = _headers(stream)
        if status >= 200:  # 100 Continue and its like stand before the answer
            break
    fields = {name.lower(): value for name, value in headers.items()}
    chunked = fields.get("transfer-encoding", "").lower() == "chunked"
    left = None if chunked else _length(fields)
    body = _Body(stream, 0 if status in _BODILESS else left, chunked=chunked)
    return HttpAnswer(status, reason, headers, body)


def _request(
    method: str, target: str, host: str, headers: Mapping[str, str], payload: bytes | None
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Accept-Encoding: identity"]
    if payload is not None or method == "POST":
        lines.append(f"Content-Length: {len(payload or b'')}")
    for name, value in headers.items():
        if "\r" in value or "\n" in value or not value.isascii():
            raise NotSendable(f'net/http: invalid header field value for "{name}"')
        lines.append(f"{name}: {value}")
    return "\r\n".join([*lines, "", ""]).encode()


def _line(stream: io.BufferedReader) -> bytes:
    line = stream.readline(_LINE + 1)
    if len(line) > _LINE:
        raise HttpFailure(f"got more than {_LINE} bytes when reading a line")
    return line


def _status(line: bytes) -> tuple[int, str]:
    if not line:
        raise NoReply("no answer")
    text = line.decode("iso-8859-1")
    version, _, rest = text.strip().partition(" ")
    number, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not (number.isdecimal() and len(number) == 3):
        raise HttpFailure(text)
    return int(number), reason.strip()


def _headers(stream: io.BufferedReader) -> dict[str, str]:
    found: dict[str, str] = {}
    for _ in range(_HEADERS + 1):
        line = _line(stream).decode("iso-8859-1")
        if line in {"\r\n", "\n"}:
            return found
        if not line:
            raise CutShort("headers")
        name, colon, value = line.partition(":")
        if not colon:
            raise HttpFailure(line)
        found[name] = value.strip()
    raise HttpFailure(f"got more than {_HEADERS} headers")


def _length(fields: Mapping[str, str]) -> int | None:
    """Return the bytes of the body; None if it ends with the connection."""
    told = fields.get("content-length")
    if told is None:
        return None
    length = bounded(told, 0, _LONGEST_BODY)
    if length is None:
        raise HttpFailure(f"Content-Length: {told[:80]}")
    return length


class _Body(io.RawIOBase):
    """The bytes of a body, without the framing."""

    def __init__(self, stream: io.BufferedReader, left: int | None, *, chunked: bool) -> None:
        self._stream = stream
        self._left = left
        """Bytes of the body, or of the current chunk; None without a known end."""
        self._chunked = chunked
        if chunked:
            self._left = 0

    def readable(self) -> bool:
        """Return that a body can be read."""
        return True

    def close(self) -> None:
        """Close the reader of the connection too."""
        self._stream.close()
        super().close()

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read what has come, waiting for the first byte; 0 is the end of the body."""
        if self._chunked and self._left == 0:
            self._left = self._next_chunk()
        room = memoryview(buffer).cast("B")
        if self._left is None:
            return self._stream.readinto1(room)
        if self._left == 0:
            return 0
        size = self._stream.readinto1(room[: self._left])
        if size == 0:
            raise CutShort("body")
        self._left -= size
        if self._chunked and self._left == 0 and _line(self._stream) not in {b"\r\n", b"\n"}:
            raise CutShort("chunk")
        return size

    def _next_chunk(self) -> int:
        """Read the line before a chunk, and behind the last one all trailers; return its size."""
        line = _line(self._stream).partition(b";")[0].strip()
        if not line or len(line) > _CHUNK_DIGITS or not line.isalnum():
            raise CutShort("chunk size")
        try:
            size = int(line, 16)
        except ValueError:
            raise CutShort("chunk size") from None
        if size == 0:
            _headers(self._stream)
            self._chunked, self._left = False, 0
        return size
