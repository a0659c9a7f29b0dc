"""Tokens and certificates for the API servers."""

import os
import ssl
from pathlib import Path

import pytest

from core.errors import OrchestratorUnavailable
from netplugin.kube.api_access import Credentials, Issued, KubeAccess, Pem
from netplugin.kube.config import KubeConfig
from netplugin.kube.discovery import access_of
from tests.bed.certificates import make_certificates


def config(**values: str) -> KubeConfig:
    return KubeConfig.model_validate(values)


def access(account: Path, **values: str) -> KubeAccess:
    named = {"K8S_API_SERVER": "https://192.0.2.1:6443", **values}
    found = access_of(config(**named), {}, account)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    return directory


def test_a_token_of_ones_own_is_shown_else_the_accounts_as_it_is_now(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    assert access(tmp_path, K8S_TOKEN=" own ").bearer() == "own"
    assert access(tmp_path, K8S_CERT="/c", K8S_KEY="/k").bearer() == ""
    own = access(tmp_path)
    assert own.bearer() == "first"
    token.write_text("second\n")
    assert own.bearer() == "second"
    token.write_text("\n")
    with pytest.raises(OrchestratorUnavailable, match="token is empty"):
        own.bearer()
    token.unlink()
    with pytest.raises(OrchestratorUnavailable, match="token: No such file"):
        own.bearer()


def test_without_tls_there_are_no_certificates(tmp_path: Path) -> None:
    assert access(tmp_path).tls("http://192.0.2.1") is None


@pytest.mark.parametrize(
    ("authority", "text"),
    [
        ("", "no CA for Kubernetes: K8S_CA must name the file"),
        ("/nowhere", "/nowhere: No such file or directory: mend K8S_CA"),
        (__file__, r"test_api_access\.py is no certificate or key in PEM"),
    ],
)
def test_over_tls_an_authority_must_be_there(tmp_path: Path, authority: str, text: str) -> None:
    with pytest.raises(OrchestratorUnavailable, match=text):
        access(tmp_path, K8S_CA=authority).tls("https://192.0.2.1")


def test_a_client_certificate_must_be_one(tmp_path: Path, certificates: Path) -> None:
    ca = str(certificates / "ca.pem")
    with pytest.raises(
        OrchestratorUnavailable, match=r"test_api_access\.py is no certificate or key"
    ):
        access(tmp_path, K8S_CA=ca, K8S_CERT=__file__).tls("https://192.0.2.1")


def test_a_context_is_made_anew_when_a_file_was_replaced(
    tmp_path: Path, certificates: Path
) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_bytes((certificates / "ca.pem").read_bytes())
    own = access(tmp_path, K8S_CA=str(ca))
    first = own.tls("https://192.0.2.1")
    assert isinstance(first, ssl.SSLContext)
    assert own.tls("https://192.0.2.1") is first
    new = tmp_path / "new.pem"
    new.write_bytes((certificates / "other.pem").read_bytes())
    new.replace(ca)
    second = own.tls("https://192.0.2.1")
    assert isinstance(second, ssl.SSLContext)
    assert second is not first
    assert second.get_ca_certs() != first.get_ca_certs()


def test_certificates_may_be_texts(certificates: Path) -> None:
    def text(name: str) -> Pem:
        return Pem(text=(certificates / name).read_text())

    held = Credentials(ca=text("ca.pem"), cert=text("client.pem"), key=text("client.key"))
    own = KubeAccess(servers=("https://192.0.2.1",), credentials=held)
    before = set(os.listdir("/tmp"))  # noqa: PTH208 - names alone
    assert isinstance(own.tls("https://192.0.2.1"), ssl.SSLContext)
    assert not {one for one in set(os.listdir("/tmp")) - before if one.startswith("tmp")}  # noqa: PTH208 - names alone


class Issuing:
    """Issues what a test puts there."""

    name = "a test"

    def __init__(self, *credentials: Issued) -> None:
        self.there = list(credentials)

    async def issued(self) -> Issued:
        return self.there[0]

    def refused(self, used: Issued) -> bool:
        del self.there[0]
        return used is not self.there[0]


async def test_issued_credentials_are_those_of_the_next_request(certificates: Path) -> None:
    first = Issued(token="first")
    cert, key = ((certificates / f"client.{end}").read_text() for end in ("pem", "key"))
    held = Credentials(ca=Pem(str(certificates / "ca.pem")))
    issuer = Issuing(first, Issued(cert=cert, key=key))
    own = KubeAccess(servers=("https://192.0.2.1",), credentials=held, issuer=issuer)
    assert own.identity == "what a test issues"
    assert await own.renew() is first
    assert own.bearer() == "first"
    anonymous = own.tls("https://192.0.2.1")
    assert own.refused(first)
    await own.renew()
    assert own.bearer() == ""
    assert own.tls("https://192.0.2.1") is not anonymous


async def test_lasting_credentials_are_not_issued_anew(tmp_path: Path) -> None:
    own = access(tmp_path, K8S_TOKEN="own")
    assert await own.renew() is None
    assert not own.refused(None)
    assert own.bearer() == "own"
