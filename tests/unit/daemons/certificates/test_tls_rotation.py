"""Files replaced while a daemon serves: certificates, authorities, and damaged ones."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop

from core.errors import UsageError
from daemons.certificates import tls
from daemons.certificates.peers import Role
from daemons.certificates.tls import TlsContexts, TlsFiles, peer_identity, shake_hands
from netmaster.commands import ca
from tests.unit.certificates import NOW, Issuer, met, raw_client, request

MASTER = request(Role.MASTER, "m1")


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer.new(tmp_path)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
class TestRotation:
    """Files replaced while a listener serves; in TLS 1.2 and 1.3 OpenSSL swaps differently."""

    def client(self, files: TlsFiles, version: ssl.TLSVersion) -> ssl.SSLContext:
        context = raw_client(files)
        context.minimum_version = context.maximum_version = version
        return context

    def test_the_next_handshake_has_the_new_certificate(
        self, issuer: Issuer, version: ssl.TLSVersion
    ) -> None:
        server = TlsContexts(issuer.files(MASTER)).server()
        client = self.client(issuer.files(request()), version)
        assert str(met(client, server)) == "agent/h1"
        issuer.files(request(Role.MASTER, "m1", ("192.0.2.9",)))
        assert "for another IP address" in str(met(client, server))
        assert str(met(client, server, "192.0.2.9")) == "agent/h1"

    def test_the_next_handshake_has_the_new_authority(
        self, issuer: Issuer, version: ssl.TLSVersion, tmp_path: Path
    ) -> None:
        """Old, both, new: each step accepts exactly the authorities in the file."""
        other = Issuer(tmp_path, ca.new_authority(NOW))
        both = ca.bundle([issuer.authority.certificate, other.authority.certificate])
        old = self.client(issuer.files(request(name="old"), trusted=both), version)
        new = self.client(other.files(request(name="new"), trusted=both), version)
        server = TlsContexts(issuer.files(MASTER)).server()
        assert str(met(old, server)) == "agent/old"
        assert "not from the authority" in str(met(new, server))
        issuer.files(MASTER, trusted=both)
        assert str(met(old, server)) == "agent/old"
        assert str(met(new, server)) == "agent/new"
        other.files(MASTER)
        assert "not from the authority" in str(met(old, server))
        assert str(met(new, server)) == "agent/new"

    def test_a_resumed_session_has_no_identity(
        self, issuer: Issuer, version: ssl.TLSVersion
    ) -> None:
        """Its certificate was verified by the authorities of an earlier handshake.

        TLS 1.3 cannot resume without tickets; TLS 1.2 can, by the session's number.
        """
        server = TlsContexts(issuer.files(MASTER)).server()
        client = self.client(issuer.files(request()), version)
        near, far = shake_hands(client, server, server_hostname="192.0.2.1")
        assert peer_identity(far) is not None
        far.write(b"x")
        assert near.read() == b"x"  # tickets of TLS 1.3 come after the handshake
        assert near.session is not None
        assert not near.session.has_ticket
        resumed = _resume(client, server, near.session)
        assert resumed.session_reused is (version is ssl.TLSVersion.TLSv1_2)
        assert (peer_identity(resumed) is None) is resumed.session_reused


def _resume(
    client: ssl.SSLContext, server: ssl.SSLContext, session: ssl.SSLSession | None
) -> ssl.SSLObject:
    """Return the server's end of a handshake that offers an earlier session."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname="192.0.2.1", session=session)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for end in (near, far) * 3:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return far


def _truncate(files: TlsFiles) -> None:
    path = Path(files.cert)
    path.write_bytes(path.read_bytes()[:100])


def _remove(files: TlsFiles) -> None:
    Path(files.key).unlink()


def _empty_authority(files: TlsFiles) -> None:
    Path(files.ca).write_bytes(b"")


def _foreign_authority(files: TlsFiles) -> None:
    Path(files.ca).write_bytes(ca.new_authority(NOW).certificate)


def _foreign_key(files: TlsFiles) -> None:
    issued = ca.issue(ca.new_authority(NOW), request(), NOW)
    Path(files.key).write_bytes(issued.key)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_truncate, "not PEM"),
        (_remove, "--tls-key .*: No such file"),
        (_empty_authority, "not PEM"),
        (_foreign_authority, "certificate and authority do not match"),
        (_foreign_key, "a key of another certificate"),
    ],
)
def test_damaged_files_keep_the_last_good_ones_and_are_logged_once(
    damage: Callable[[TlsFiles], None],
    said: str,
    issuer: Issuer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "daemons.certificates.tls")
    files = issuer.files(MASTER)
    contexts = TlsContexts(files)
    server = contexts.server()
    agent = raw_client(issuer.files(request()))
    before = contexts.client()
    damage(files)
    for _ in range(3):
        assert str(met(agent, server)) == "agent/h1"
    assert contexts.client() is before
    events = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert events == [("ERROR", "TLS files cannot be used, the last good ones stay in use")]
    with pytest.raises(UsageError, match=said):
        TlsContexts(files)
    issuer.files(MASTER)
    assert contexts.client() is not before
    assert str(met(agent, server)) == "agent/h1"
    assert caplog.records[-1].getMessage() == "TLS files reloaded"
    assert len(caplog.records) == 2


def test_files_that_change_while_they_are_read_are_not_logged(
    issuer: Issuer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that replaces three files has replaced one or two of them for a moment."""
    files = issuer.files(MASTER)
    contexts = TlsContexts(files)
    before = contexts.client()
    load = tls._load

    def load_meanwhile(named: TlsFiles) -> Any:
        monkeypatch.setattr(tls, "_load", load)
        try:
            return load(named)
        finally:
            issuer.files(MASTER)

    monkeypatch.setattr(tls, "_load", load_meanwhile)
    _foreign_key(files)
    assert contexts.client() is before
    assert not caplog.records
    assert contexts.client() is not before


def test_an_expired_replacement_is_not_used(issuer: Issuer) -> None:
    contexts = TlsContexts(issuer.files(MASTER))
    before = contexts.client()
    issuer.files(MASTER, at=NOW - timedelta(days=MASTER.days + 1))
    assert contexts.client() is before


def test_unchanged_files_are_not_read_again(issuer: Issuer) -> None:
    contexts = TlsContexts(issuer.files(MASTER))
    assert contexts.client() is contexts.client()


def test_a_new_client_context_has_the_new_files(issuer: Issuer) -> None:
    contexts = TlsContexts(issuer.files(request()))
    server = TlsContexts(issuer.files(MASTER)).server()
    assert str(met(contexts.client(), server)) == "agent/h1"
    issuer.files(request(name="h2"), under="agent-h1")
    assert str(met(contexts.client(), server)) == "agent/h2"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_listeners_of_both_event_loops_serve_changed_files(
    new_loop: Callable[[], asyncio.AbstractEventLoop], issuer: Issuer
) -> None:
    """The TLS of uvloop is its own: replacing contexts must work in it too."""

    async def scenario() -> list[str]:
        seen: list[str] = []

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(str(peer_identity(writer.get_extra_info("ssl_object"))))
            writer.write(await reader.readline())
            writer.close()

        async def ask(context: ssl.SSLContext) -> None:
            reader, writer = await asyncio.open_connection(*address, ssl=context)
            writer.write(b"hello\n")
            assert await reader.readline() == b"hello\n"
            writer.close()
            await writer.wait_closed()

        master = request(Role.MASTER, "m1", ("127.0.0.1",))
        listener = TlsContexts(issuer.files(master)).server()
        server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=listener)
        async with server:
            address = server.sockets[0].getsockname()[:2]
            agent = TlsContexts(issuer.files(request()))
            await ask(agent.client())
            issuer.files(request(Role.MASTER, "m1", ("192.0.2.9",)))
            with pytest.raises(ssl.SSLCertVerificationError):
                await ask(agent.client())
            issuer.files(master)
            await ask(agent.client())
        return seen

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(scenario()) == ["agent/h1", "agent/h1"]
