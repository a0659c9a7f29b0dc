"""The blocking client on the wire: refused connections, TLS against plain http, certificates."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from contivmodel.client_sync import RestClient
from core.errors import MasterUnavailable
from tests.bed.waiting import WITHIN

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def serving(context: ssl.SSLContext | None = None, connections: int = 1) -> Iterator[int]:
    """Answer so many connections with ANSWER, for any request; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WITHIN)

        def answer() -> None:
            for _ in range(connections):
                answer_one()

        def answer_one() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(WITHIN)
                    speaking = connection
                    if context is not None:
                        speaking = context.wrap_socket(connection, server_side=True)
                    with speaking:
                        speaking.recv(65536)
                        speaking.sendall(ANSWER)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield int(server.getsockname()[1])
        finally:
            thread.join()


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """Yield a server's TLS context with an untrusted certificate."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def test_a_refused_connection_names_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(MasterUnavailable) as failed:
        RestClient(f"http://localhost:{port}").version()
    assert str(failed.value) in {
        f'Get "http://localhost:{port}/version": dial tcp {address}:{port}: '
        "connect: connection refused"
        for address in ("127.0.0.1", "[::1]")
    }
    assert not failed.value.outcome_unknown


def test_a_plain_server_asked_with_tls() -> None:
    with serving() as port, pytest.raises(MasterUnavailable) as failed:
        RestClient(f"https://127.0.0.1:{port}").version()
    assert str(failed.value) == (
        f'Get "https://127.0.0.1:{port}/version": http: server gave HTTP response to HTTPS client'
    )


def test_a_server_of_tls_asked_without(tls: ssl.SSLContext) -> None:
    with serving(tls, connections=2) as port, pytest.raises(MasterUnavailable) as failed:
        RestClient(f"http://127.0.0.1:{port}").version()
    assert str(failed.value).endswith(": it speaks TLS, name it with https:// instead of http://")


def test_an_unknown_certificate_is_refused(tls: ssl.SSLContext) -> None:
    with serving(tls) as port, pytest.raises(MasterUnavailable, match="x509: ") as failed:
        RestClient(f"https://127.0.0.1:{port}").version()
    assert not failed.value.outcome_unknown


def test_an_unknown_certificate_is_taken_when_asked_to(tls: ssl.SSLContext) -> None:
    with serving(tls) as port:
        assert RestClient(f"https://127.0.0.1:{port}", insecure=True).version() == {}
