"""Which certificates the daemons accept. Replaced files are in `test_tls_rotation`."""

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from core.errors import UsageError
from daemons import flags
from daemons.certificates import tls
from daemons.certificates.peers import PeerIdentity, Role, rpc_allows
from daemons.certificates.tls import TlsContexts, TlsFiles, contexts_of, peer_identity
from netmaster.commands import ca
from tests.unit.certificates import Issuer, anonymous_client, met, raw_client, request

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


def test_a_daemon_knows_when_its_certificates_expire(issuer: Issuer) -> None:
    files = issuer.files(request())
    contexts = TlsContexts(files)
    for what, path in (("own", files.cert), ("authority", files.ca)):
        end = x509.load_pem_x509_certificate(Path(path).read_bytes()).not_valid_after_utc
        assert contexts.expiry()[what] == end.timestamp()
    before = contexts.expiry()["own"]
    assert issuer.files(replace(request(), days=3)) == files  # a renewed one
    assert contexts.expiry()["own"] < before


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


def test_a_daemon_without_tls_warns_of_who_controls_it(caplog: pytest.LogCaptureFixture) -> None:
    assert contexts_of(TlsFiles()) is None
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith("REST and RPC without TLS: whoever reaches their ports")


def test_a_daemon_with_tls_does_not(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    assert contexts_of(issuer.files(MASTER)) is not None
    assert caplog.records == []


@pytest.mark.parametrize("role", [Role.MASTER, Role.AGENT])
def test_a_server_of_another_role_than_the_one_called_is_refused(
    role: Role, issuer: Issuer
) -> None:
    """On a host with both daemons the certificate of either has the host's address."""
    own = issuer.files(request(Role.AGENT, "h2"))
    server = TlsContexts(issuer.files(request(role, "n1"))).server()
    contexts = TlsContexts(own)
    for called, context in (
        (Role.MASTER, contexts.to_masters()),
        (Role.AGENT, contexts.to_agent("n1")),
    ):
        outcome = str(met(context, server))
        if called is role:
            assert outcome == "agent/h2"
        else:
            assert f"the certificate of {role}/n1, not of role {called}" in outcome


def test_the_agent_of_another_host_than_the_one_called_is_refused(issuer: Issuer) -> None:
    """An agent may register in another host's name; only that host has its certificate."""
    contexts = TlsContexts(issuer.files(MASTER))
    server = TlsContexts(issuer.files(request(Role.AGENT, "h1"))).server()
    assert str(met(contexts.to_agent("h1"), server)) == "master/m1"
    for called in ("h2", "H1", "h11", ""):
        outcome = str(met(contexts.to_agent(called), server))
        assert f"the certificate of agent/h1, not of host {called}" in outcome
    assert contexts.to_agent("h1") is contexts.to_agent("h1")
