"""All TLS clients check the same of a server's certificate, whatever the interpreter's default."""

import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contivmodel import client_sync
from core.net import tls_trust
from daemons import kube_rest
from daemons.certificates import tls
from daemons.certificates.tls import TlsFiles, shake_hands
from netplugin.kube import api_access
from objdb.consul import agents
from objdb.credentials import CredentialFiles
from tests.bed import certificates

ADDRESS = "127.0.0.1"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what `openssl req -x509` makes: an authority without keyUsage."""
    made = tmp_path_factory.mktemp("certificates")
    certificates.make_certificates(made)
    return made


@pytest.fixture
def strict_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the default contexts of this interpreter those of Python 3.13."""
    made = ssl.create_default_context  # noqa: TID251 - what a client must not use

    def strict(*args: Any, **more: Any) -> ssl.SSLContext:
        context = made(*args, **more)
        context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


def server(directory: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem", directory / "server.key")
    return context


def of_kubernetes(directory: Path) -> ssl.SSLContext:
    credentials = api_access.Credentials(ca=api_access.Pem(str(directory / "ca.pem")))
    context = api_access.KubeAccess(servers=("https://k",), credentials=credentials).tls(
        "https://k"
    )
    assert context is not None
    return context


def of_a_pod(directory: Path) -> ssl.SSLContext:
    (directory / "ca.crt").write_bytes((directory / "ca.pem").read_bytes())
    return kube_rest.KubeRest("https://k", directory)._context()


CLIENTS: dict[str, Callable[[Path], ssl.SSLContext]] = {
    "etcd": lambda directory: CredentialFiles(ca=str(directory / "ca.pem")).context(),
    "consul": lambda directory: agents.tls_context(certificates.tls(directory)),
    "Kubernetes": of_kubernetes,
    "a pod of Kubernetes": of_a_pod,
}


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())
@pytest.mark.usefixtures("strict_interpreter")
def test_an_authority_without_key_usage_is_accepted_by_every_interpreter(
    directory: Path, client: Callable[[Path], ssl.SSLContext]
) -> None:
    shake_hands(client(directory), server(directory), server_hostname=ADDRESS)


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())
def test_a_strangers_certificate_and_another_name_are_refused(
    directory: Path, client: Callable[[Path], ssl.SSLContext]
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        shake_hands(client(directory), server(directory), server_hostname="192.0.2.9")
    other = directory / "other"
    other.mkdir(exist_ok=True)
    (other / "ca.pem").write_bytes((directory / "other.pem").read_bytes())
    for name in ("client.pem", "client.key"):
        (other / name).write_bytes((directory / name).read_bytes())
    with pytest.raises(ssl.SSLCertVerificationError, match="verify failed"):
        shake_hands(client(other), server(directory), server_hostname=ADDRESS)


@pytest.mark.usefixtures("strict_interpreter")
def test_no_client_leaves_its_checks_to_the_interpreter(directory: Path) -> None:
    files = TlsFiles(ca=str(directory / "ca.pem"))
    contexts = {name: make(directory) for name, make in CLIENTS.items()}
    contexts["netctl, without files"] = client_sync._verified()
    contexts["netctl"] = tls.client_context(files)
    contexts["daemons"] = tls._client(files)
    contexts["daemons' listeners"] = tls._empty_server(certificate_optional=False)
    flags = {name: context.verify_flags for name, context in contexts.items()}
    assert set(flags.values()) == {ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST}, flags
    versions = {context.minimum_version for context in contexts.values()}
    assert versions == {ssl.TLSVersion.TLSv1_2}


def test_what_a_strict_client_refuses_can_be_told(directory: Path) -> None:
    context = tls_trust.strict(tls_trust.client_context(ca_file=str(directory / "ca.pem")))
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        shake_hands(context, server(directory), server_hostname=ADDRESS)
    assert refused.value.verify_message == "CA cert does not include key usage extension"


def test_an_expired_certificate_is_told_with_the_clock(directory: Path) -> None:
    expired = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    expired.load_cert_chain(certificates.expired(directory), directory / "server.key")
    client = tls_trust.client_context(ca_file=str(directory / "ca.pem"))
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        shake_hands(client, expired, server_hostname=ADDRESS)
    told = tls_trust.failed_check(refused.value)
    assert re.fullmatch(
        r"certificate has expired by the clock of this machine, "
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00: issue a new one",
        told,
    )
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        shake_hands(client, server(directory), server_hostname="192.0.2.9")
    assert tls_trust.failed_check(refused.value) == refused.value.verify_message
