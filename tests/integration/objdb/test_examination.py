"""An examined member is left at once, whether it says good-bye or not, and without a traceback."""

import asyncio
import gc
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from core.errors import StoreUnavailable
from core.net import tls_trust
from objdb.examination import CONSUL, ETCD, examine
from tests.bed.certificates import make_certificates

LEFT_WITHIN = 10.0
"""Seconds; a close in good order lasts half a minute when the member is silent."""


async def test_a_silent_member_is_left(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def is_left() -> bool:
            """Shake hands, be silent, and return whether the client ends the connection."""
            accepted, _ = listening.accept()
            with socket.socket(fileno=_secured(accepted, server).detach()) as connection:
                connection.settimeout(LEFT_WITHIN)
                try:
                    while connection.recv(4096):
                        pass
                except TimeoutError:
                    return False
                return True

        left = asyncio.get_running_loop().run_in_executor(None, is_left)
        member = f"127.0.0.1:{listening.getsockname()[1]}"
        context = tls_trust.client_context(ca_file=str(tmp_path / "ca.pem"))
        with pytest.raises(StoreUnavailable):
            await examine(ETCD, member, context)
        assert await left


async def test_an_alert_that_nobody_awaits_is_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal of a missing certificate, read in the moment in which the time is over."""
    make_certificates(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    server.load_verify_locations(tmp_path / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    # The finalizer fetches the failure too, but runs before or after that of the future which
    # prints it: they are a cycle, whose order is the garbage collector's.
    monkeypatch.delattr(asyncio.StreamReaderProtocol, "__del__")
    loop, printed = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: printed.append(context))
    examining = list[asyncio.Task[None]]()
    refused, sent = threading.Event(), threading.Event()

    def over() -> None:
        """Let the alert arrive, then end the time: the loop reads before it looks at timers."""
        refused.set()
        assert sent.wait(LEFT_WITHIN)
        loop.call_later(0, examining[0].cancel)

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse() -> None:
            accepted, _ = listening.accept()
            with accepted:
                received, answer = ssl.MemoryBIO(), ssl.MemoryBIO()
                tls = server.wrap_bio(received, answer, server_side=True)
                with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
                    _shake_hands(tls, received, answer, accepted)
                loop.call_soon_threadsafe(over)
                assert refused.wait(LEFT_WITHIN)
                accepted.sendall(answer.read())
                sent.set()

        member = f"127.0.0.1:{listening.getsockname()[1]}"
        context = tls_trust.client_context(ca_file=str(tmp_path / "ca.pem"))
        async with asyncio.TaskGroup() as group:
            examining.append(group.create_task(examine(CONSUL, member, context)))
            await loop.run_in_executor(None, refuse)
    assert examining.pop().cancelled()
    for _ in range(3):  # what the loop still has to tell the connection
        await asyncio.sleep(0)
        gc.collect()
    assert not printed


def _secured(accepted: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(accepted, server_side=True)


def _shake_hands(
    tls: ssl.SSLObject, received: ssl.MemoryBIO, answer: ssl.MemoryBIO, client: socket.socket
) -> None:
    """Shake hands with a client; what is left of the answer after a failure is not sent."""
    while True:
        received.write(client.recv(4096))
        try:
            return tls.do_handshake()
        except ssl.SSLWantReadError:
            client.sendall(answer.read())
