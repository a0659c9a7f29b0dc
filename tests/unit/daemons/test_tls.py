"""TLS of the daemons: who is accepted, and files that change while a listener serves."""

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
from daemons import flags, tls
from daemons.peers import PeerIdentity, Role, rpc_allows
from daemons.tls import TlsContexts, TlsFiles, peer_identity, shake_hands
from netmaster import ca
from tests.unit.certificates import NOW, Issuer, anonymous_client, met, raw_client, request

MASTER = request(Role.MASTER, "m1")


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    return Issuer.new(tmp_path)


@pytest.fixture
def server(issuer: Issuer) -> ssl.SSLContext:
    return TlsContexts(issuer.files(MASTER)).server()


@pytest.mark.parametrize("role", Role)
def test_a_certificate_of_each_role_is_accepted(
    role: Role, issuer: Issuer, server: ssl.SSLContext
) -> None:
    addresses = frozenset({"192.0.2.1"}) if role in ca.SERVERS else frozenset()
    client = raw_client(issuer.files(request(role, "n1")))
    assert met(client, server) == PeerIdentity(role, "n1", addresses)


@pytest.mark.parametrize("role", Role)
def test_a_certificate_of_another_authority_is_refused(
    role: Role, issuer: Issuer, server: ssl.SSLContext, tmp_path: Path
) -> None:
    files = Issuer.new(tmp_path / "other").files(
        request(role, "n1"), trusted=issuer.authority.certificate
    )
    assert "not from the authority in --tls-ca" in str(met(raw_client(files), server))


@pytest.mark.parametrize("role", Role)
def test_an_expired_certificate_is_refused(
    role: Role, issuer: Issuer, server: ssl.SSLContext
) -> None:
    client = raw_client(issuer.expired_files(request(role, "n1")))
    assert "has expired: issue a new one with `netmaster ca issue`" in str(met(client, server))


def test_a_client_without_certificate_is_refused(issuer: Issuer, server: ssl.SSLContext) -> None:
    client = anonymous_client(issuer.files(MASTER))
    assert "the peer sent no certificate: give it --tls-ca" in str(met(client, server))


def test_a_client_without_certificate_has_no_identity_where_one_is_optional(
    issuer: Issuer, tmp_path: Path
) -> None:
    files = issuer.files(MASTER)
    server = TlsContexts(files).server(certificate_optional=True)
    assert met(anonymous_client(files), server) is None
    agent = issuer.files(request())
    assert str(met(raw_client(agent), server)) == "agent/h1"
    foreign = Issuer.new(tmp_path / "other").files(request(), trusted=issuer.authority.certificate)
    assert "not from the authority" in str(met(raw_client(foreign), server))


@pytest.mark.parametrize(
    ("addresses", "dialled", "said"),
    [
        (("192.0.2.1",), "192.0.2.1", "agent/h1"),
        (("192.0.2.1",), "192.0.2.2", "for another IP address"),
        (("192.0.2.1", "2001:db8::1"), "2001:db8::1", "agent/h1"),
        (("m1.example.org",), "m1.example.org", "agent/h1"),
        (("m1.example.org",), "m2.example.org", "for another host name"),
        (("192.0.2.1",), "m1", "for another host name"),
    ],
)
def test_the_address_dialled_is_verified(
    addresses: tuple[str, ...], dialled: str, said: str, issuer: Issuer
) -> None:
    server = TlsContexts(issuer.files(request(Role.MASTER, "m1", addresses))).server()
    client = TlsContexts(issuer.files(request())).client()
    assert said in str(met(client, server, dialled))


@pytest.mark.parametrize("role", [Role.ADMIN, Role.OPERATOR, Role.READER])
def test_a_users_certificate_is_none_of_a_server(role: Role, issuer: Issuer) -> None:
    """A user who could listen in a master's place would be shown every agent's requests."""
    users = issuer.files(request(role, "u1"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(users.cert, users.key)
    client = TlsContexts(issuer.files(request())).client()
    assert "not for this use" in str(met(client, server))
    with pytest.raises(UsageError, match="do not match: unsuitable certificate purpose"):
        TlsContexts(users)


@pytest.mark.filterwarnings("ignore:.*TLSv1_1 is deprecated:DeprecationWarning")
def test_tls_1_1_is_refused(issuer: Issuer, server: ssl.SSLContext) -> None:
    client = raw_client(issuer.files(request()))
    client.set_ciphers("DEFAULT@SECLEVEL=0")
    client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_1
    assert met(client, server) == "the peer is older than TLS 1.2"


@pytest.mark.parametrize("role", Role)
def test_a_clients_replaced_certificate_is_accepted_while_a_listener_serves(
    role: Role, issuer: Issuer, server: ssl.SSLContext
) -> None:
    wanted = request(role, "n1")
    before = raw_client(issuer.files(wanted))
    after = raw_client(issuer.files(wanted))
    assert met(before, server) == met(after, server)
    assert str(met(after, server)) == f"{role}/n1"


@pytest.mark.parametrize("role", sorted(ca.SERVERS))
def test_a_certificate_of_another_host_is_refused_by_clients_and_seen_by_servers(
    role: Role, issuer: Issuer, server: ssl.SSLContext
) -> None:
    """On the way out the address gives it away; on the way in, its name is the other host's."""
    stolen = issuer.files(request(role, "h2", ("192.0.2.2",)))
    client = TlsContexts(issuer.files(MASTER)).client()
    assert "for another IP address" in str(met(client, TlsContexts(stolen).server()))
    seen = met(raw_client(stolen), server)
    assert seen == PeerIdentity(role, "h2", frozenset({"192.0.2.2"}))
    assert not rpc_allows(seen, "OfnetMaster.Report", host="h1")
    assert not rpc_allows(seen, "OfnetMaster.RegisterNode", address="192.0.2.1")


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
    caplog.set_level(logging.INFO, "daemons.tls")
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


def test_an_encrypted_key_is_refused(issuer: Issuer) -> None:
    """OpenSSL would ask for the passphrase on the terminal."""
    files = issuer.files(MASTER)
    encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
    Path(files.key).write_bytes(_encrypted_key())
    assert Path(files.key).read_bytes().startswith(encrypted)
    with pytest.raises(UsageError, match="the key is encrypted"):
        TlsContexts(files)


def _encrypted_key() -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [
        (("--tls-ca=c",), "--tls-cert and --tls-key as well"),
        (("--tls-cert=c",), "--tls-ca and --tls-key as well"),
        (("--tls-ca=c", "--tls-key=k"), "name the file of --tls-cert as well"),
    ],
)
def test_the_three_flags_go_together(arguments: tuple[str, ...], missing: str) -> None:
    values = flags.read("netmaster", tls.FLAGS, arguments, {}, "1")
    assert values is not None
    with pytest.raises(UsageError, match=missing) as refused:
        tls.tls_files(values)
    assert "`netmaster ca issue` writes all three" in str(refused.value)


def test_flags_and_variables_name_the_files() -> None:
    environ = {"CONTIV_NETPLUGIN_TLS_CA": "a", "CONTIV_NETPLUGIN_TLS_CERT": "b"}
    values = flags.read("netplugin", tls.FLAGS, ("--tls-key=c",), environ, "1")
    assert values is not None
    assert tls.tls_files(values) == TlsFiles(ca="a", cert="b", key="c")
    none = flags.read("netplugin", tls.FLAGS, (), {}, "1")
    assert none is not None
    assert not tls.tls_files(none)


def test_a_short_lived_clients_context(issuer: Issuer, server: ssl.SSLContext) -> None:
    files = issuer.files(request(Role.ADMIN, "root"))
    assert str(met(tls.client_context(files), server)) == "admin/root"
    with pytest.raises(UsageError, match="--tls-cert /nowhere: No such file"):
        tls.client_context(TlsFiles(ca=files.ca, cert="/nowhere", key=files.key))


def test_a_connection_without_tls_has_no_identity() -> None:
    assert peer_identity(None) is None


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
