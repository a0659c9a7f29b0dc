"""Entries of the host's connection tracking for datagrams: listed, and deleted.

In comes a family; out come entries of UDP as `netplugin.bridges.services.stale_datagrams` judges
them, and those it names are deleted. Messages are read and written here: pyroute2 takes a hundred
times as long for an entry, and a host that asks name servers has them by the ten thousand. The
kernel chooses those of UDP where it can (Linux 5.8), else all are looked at. Functions block, and
apply to the network namespace of the calling thread.
"""

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from netplugin.kernel.netlink.requests import host_errors

_NETFILTER: Final = 12
_GET: Final = (1 << 8) | 1
_DELETE: Final = (1 << 8) | 2
"""Of connection tracking, subsystem 1 of nfnetlink."""
_REQUEST: Final = 0x1
_ACK: Final = 0x4
_DUMP: Final = 0x300
_ERROR: Final = 2
_DONE: Final = 3

_TUPLE: Final = 1
_REPLY: Final = 2
_STATUS: Final = 3
_SEEN_REPLY: Final = 1 << 1
_ZONE: Final = 18
_FILTER: Final = 25
_IP: Final = 1
_PROTO: Final = 2
_NUMBER: Final = 1
_SOURCE_PORT: Final = 2
_PORT: Final = 3
_FILTER_FLAGS: Final = 1
_BY_PROTOCOL: Final = 1 << 3
_NESTED: Final = 0x8000
_KIND: Final = 0x3FFF

_UDP: Final = 17
_FAMILIES: Final = {4: socket.AF_INET, 6: socket.AF_INET6}
_SOURCE: Final = {4: 1, 6: 3}
_TO: Final = {4: 2, 6: 4}
"""The attributes of source and destination."""

_HEADER: Final = struct.Struct("=IHHII")
_GENERIC: Final = struct.Struct("=BBH")
_ATTRIBUTE: Final = struct.Struct("=HH")
_BUFFER: Final = 1 << 18
_AT_ONCE: Final = 100
"""Deletions in a message: their answers must fit the socket's buffer."""

End = tuple[bytes, int]
"""A packed address and a port."""


class Datagrams(NamedTuple):
    """An entry of UDP: where its sender sends, and who answers in truth."""

    version: int
    sent_to: End
    answered_by: End
    """The same, unless the host leads the datagrams elsewhere."""
    name: bytes
    """The attribute by which the kernel finds the entry."""
    answered: bool = True
    """Whether anything came back."""


def entries(version: int) -> list[Datagrams]:
    """Return the entries of UDP in the host's own zone. Raises HostError."""
    with host_errors("cannot read connection tracking"):
        return [*_entries(version)]


def delete(doomed: Iterable[Datagrams]) -> None:
    """Delete entries; one that is gone is a success. Raises HostError.

    What the same ends made meanwhile, by new rules, goes too: their next datagram makes it again.
    """
    requests = [_message(_DELETE, _REQUEST | _ACK, one.version, one.name) for one in doomed]
    with host_errors("cannot delete from connection tracking"):
        for at in range(0, len(requests), _AT_ONCE):
            _send(requests[at : at + _AT_ONCE])


def _entries(version: int) -> Iterator[Datagrams]:
    number = _attribute(_NUMBER, bytes([_UDP]))
    chosen = _attribute(_TUPLE | _NESTED, _attribute(_PROTO | _NESTED, number))
    flags = _attribute(_FILTER_FLAGS, struct.pack("=I", _BY_PROTOCOL))
    flags += _attribute(_FILTER_FLAGS + 1, struct.pack("=I", 0))
    request = chosen + _attribute(_FILTER | _NESTED, flags)
    with _socket() as sock:
        sock.send(_message(_GET, _REQUEST | _DUMP, version, request))
        while True:
            data = sock.recv(_BUFFER)
            for kind, body in _messages(data):
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    _raise(body)
                if (entry := _entry(version, body)) is not None:
                    yield entry


def _send(requests: list[bytes]) -> None:
    with _socket() as sock:
        sock.send(b"".join(requests))
        left = len(requests)
        while left:
            for kind, body in _messages(sock.recv(_BUFFER)):
                if kind == _ERROR:
                    left -= 1
                    _raise(body, unless=errno.ENOENT)


def _entry(version: int, body: bytes) -> Datagrams | None:
    found = _attributes(body[_GENERIC.size :])
    if _ZONE in found:
        return None  # of another program, Open vSwitch for one
    sent, answer = _attributes(found[_TUPLE]), _attributes(found[_REPLY])
    protocol = _attributes(sent[_PROTO])
    if protocol[_NUMBER] != b"\x11":
        return None
    replies = _attributes(answer[_PROTO])
    return Datagrams(
        version,
        (_attributes(sent[_IP])[_TO[version]], int.from_bytes(protocol[_PORT], "big")),
        (
            _attributes(answer[_IP])[_SOURCE[version]],
            int.from_bytes(replies[_SOURCE_PORT], "big"),
        ),
        _attribute(_TUPLE | _NESTED, found[_TUPLE]),
        bool(int.from_bytes(found.get(_STATUS, b""), "big") & _SEEN_REPLY),
    )


def _socket() -> socket.socket:
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER)


def _message(kind: int, flags: int, version: int, body: bytes) -> bytes:
    generic = _GENERIC.pack(_FAMILIES[version], 0, 0)
    length = _HEADER.size + len(generic) + len(body)
    return _HEADER.pack(length, kind, flags, 0, 0) + generic + body


def _attribute(kind: int, value: bytes) -> bytes:
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def _attributes(data: bytes) -> dict[int, bytes]:
    found, at = {}, 0
    while at < len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        found[kind & _KIND] = data[at + _ATTRIBUTE.size : at + length]
        at += (length + 3) & ~3
    return found


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        yield kind, data[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def _raise(body: bytes, unless: int = 0) -> None:
    (error,) = struct.unpack_from("=i", body)
    if -error not in {0, unless}:
        raise OSError(-error, os.strerror(-error))
