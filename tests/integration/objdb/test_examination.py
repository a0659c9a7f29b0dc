"""An examined member is left at once, whether it says good-bye or not."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from core.errors import StoreUnavailable
from core.net import tls_trust
from objdb.examination import ETCD, examine
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


def _secured(accepted: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(accepted, server_side=True)
