"""Requests as they are sent, and answers in every framing."""

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from contivmodel.http_exchange import (
    CutShort,
    HttpAnswer,
    HttpFailure,
    NoReply,
    NotSendable,
    exchange,
)
from tests.bed.waiting import WITHIN

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    near, far = socket.socketpair()
    near.settimeout(WITHIN)
    with closing(near), closing(far):
        yield near, far


def asked(ends: Ends, sent: bytes, method: str = "GET", payload: bytes | None = None) -> HttpAnswer:
    """Return the answer of a peer that has sent this already."""
    near, far = ends
    far.sendall(sent)
    far.shutdown(socket.SHUT_WR)
    headers = {"X-Auth-Token": "t"}
    return exchange(near, method, "/a", host="m:9999", headers=headers, payload=payload)


@pytest.mark.parametrize(
    ("method", "payload", "lines"),
    [
        ("GET", None, b""),
        ("DELETE", None, b""),
        ("POST", None, b"Content-Length: 0\r\n"),
        ("POST", b"{}", b"Content-Length: 2\r\n"),
    ],
)
def test_a_request_has_the_length_of_its_body(
    ends: Ends, method: str, payload: bytes | None, lines: bytes
) -> None:
    with asked(ends, b"HTTP/1.1 200 OK\r\n\r\n", method, payload):
        request = ends[1].recv(4096)
    assert request == (
        method.encode()
        + b" /a HTTP/1.1\r\nHost: m:9999\r\nAccept-Encoding: identity\r\n"
        + lines
        + b"X-Auth-Token: t\r\n\r\n"
        + (payload or b"")
    )


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhellomore", b"hello"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b""),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (
            CHUNKED + b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: x\r\n\r\n",
            b"hello",
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", b"a"),
    ],
)
def test_a_body_is_read_in_every_framing(ends: Ends, sent: bytes, body: bytes) -> None:
    with asked(ends, sent) as answer:
        assert answer.read() == body
        assert answer.read() == b""


def test_a_body_can_be_read_by_lines_and_parts(ends: Ends) -> None:
    chunked = CHUNKED + b"3\r\na\nb\r\n2\r\n\nc\r\n0\r\n\r\n"
    with asked(ends, chunked) as answer:
        assert answer.readline() == b"a\n"
        assert answer.read1(100) == b"b"
        assert list(answer) == [b"\n", b"c"]


def test_status_reason_and_headers_are_the_servers(ends: Ends) -> None:
    with asked(ends, b'HTTP/1.1 412 Precondition Failed\r\nETag: "7"\r\n\r\n') as answer:
        assert (answer.status, answer.reason) == (412, "Precondition Failed")
        assert answer.headers == {"ETag": '"7"'}


@pytest.mark.parametrize(
    ("sent", "failure"),
    [
        (b"", NoReply),
        (b"SSH-2.0-x\r\n", HttpFailure),
        (b"HTTP/1.1 20 OK\r\n\r\n", HttpFailure),
        (b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", HttpFailure),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", HttpFailure),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 101 + b"\r\n", HttpFailure),
        (b"HTTP/1.1 200 OK\r\nA: " + b"b" * 65536 + b"\r\n\r\n", HttpFailure),
        (b"HTTP/1.1 200 OK\r\nContent-", HttpFailure),
        (b"HTTP/1.1 200 OK\r\n", CutShort),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", CutShort),
        (CHUNKED + b"9\r\nhello", CutShort),
        (CHUNKED + b"5\r\nhello", CutShort),
        (CHUNKED + b"5\r\nhello\r\n", CutShort),
    ],
)
def test_a_broken_answer_is_a_failure(ends: Ends, sent: bytes, failure: type[HttpFailure]) -> None:
    with pytest.raises(HttpFailure) as failed:
        asked(ends, sent).read()
    assert type(failed.value) is failure


def test_a_header_cannot_bring_another_one(ends: Ends) -> None:
    near, far = ends
    with pytest.raises(NotSendable, match="X-Auth-Token"):
        exchange(near, "GET", "/", host="m", headers={"X-Auth-Token": "a\r\nB: c"}, payload=None)
    near.close()
    assert far.recv(1) == b""
