"""netmaster and a consul that asks for something: it serves, or ends and says what to do."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.bed.certificates import make_certificates
from tests.bed.master import MODES, Master
from tests.bed.page import Page
from tests.bed.secured import TOKEN, Secured, SecuredConsul, with_acl, with_tls
from tests.bed.waiting import eventually

pytestmark = pytest.mark.store

RIGHTS = """
key_prefix "contiv.io/" { policy = "write" }
session_prefix "" { policy = "write" }
node_prefix "" { policy = "read" }
service "contiv-lease" { policy = "write" }
"""
"""What the remedy says that a token needs."""


@pytest.fixture(scope="module")
def tls(bed_dirs: Iterator[Path]) -> Iterator[tuple[Secured, Path]]:
    """Run a consul that speaks TLS and asks for a certificate."""
    directory = next(bed_dirs)
    directory.mkdir()
    make_certificates(directory)
    consul = with_tls("consul", directory)
    consul.start()
    yield consul, directory
    consul.kill()


@pytest.fixture
def tokens(bed_dir: Path) -> Iterator[SecuredConsul]:
    """Run a consul that asks for a token."""
    consul = with_acl(bed_dir, RIGHTS)
    yield consul
    consul.kill()


class Named:
    """A consul as a command line names it, whatever is there."""

    kind = "consul"

    def __init__(self, url: str) -> None:
        self.url = url


def files(directory: Path) -> dict[str, str]:
    """Return what tells a client of the certificates in a directory."""
    return {
        "CONSUL_CACERT": str(directory / "ca.pem"),
        "CONSUL_CLIENT_CERT": str(directory / "client.pem"),
        "CONSUL_CLIENT_KEY": str(directory / "client.key"),
    }


def last_words(directory: Path, url: str) -> str:
    """Start a master that cannot use its store; return the line it ended with."""
    master = Master(directory, Named(url), flags=MODES)
    try:
        master.spawn()
        eventually(lambda: not master.running, "the master ends")
        return master.log_text().splitlines()[-1]
    finally:
        master.kill()


def serves(directory: Path, url: str) -> None:
    """Start a master, and see that it reads and writes."""
    master = Master(directory, Named(url), flags=MODES)
    try:
        master.start()
        assert master.ask("POST", "/api/v1/tenants/t/", {"tenantName": "t"}).status == 200
        assert master.ask("GET", "/api/v1/tenants/t/").status == 200
    finally:
        master.kill()


def test_a_token_with_the_rights_that_the_remedy_names(
    tokens: SecuredConsul, bed_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONSUL_HTTP_TOKEN", TOKEN)
    serves(bed_dir, tokens.url)


@pytest.mark.parametrize("token", ["", "33333333-3333-3333-3333-333333333333"])
def test_a_missing_or_unknown_token_ends_the_start(
    tokens: SecuredConsul, bed_dir: Path, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("CONSUL_HTTP_TOKEN", token)
    said = last_words(bed_dir, tokens.url)
    assert "the token (CONSUL_HTTP_TOKEN) needs key_prefix" in said


def test_certificates(
    tls: tuple[Secured, Path], bed_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consul, directory = tls
    for name, path in files(directory).items():
        monkeypatch.setenv(name, path)
    serves(bed_dir, consul.url)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"CONSUL_CACERT": "other.pem"}, "is CONSUL_CACERT its authority's"),
        ({"CONSUL_CACERT": ""}, "is CONSUL_CACERT its authority's"),
        ({"CONSUL_CLIENT_CERT": "", "CONSUL_CLIENT_KEY": ""}, "CONSUL_CLIENT_CERT and CONSUL_"),
        (
            {"CONSUL_CLIENT_CERT": "other.pem", "CONSUL_CLIENT_KEY": "other.key"},
            "does not accept our certificate",
        ),
        ({"CONSUL_CACERT": "no.pem"}, "CONSUL_CACERT: "),
        ({"CONSUL_CACERT": "ca.key"}, "certificates for the store cannot be used"),
    ],
    ids=["other authority", "no authority", "no certificate", "other certificate", "no file",
         "no certificate in the file"],
)  # fmt: skip
def test_wrong_certificates_end_the_start(
    tls: tuple[Secured, Path],
    bed_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Mapping[str, str],
    said: str,
) -> None:
    consul, directory = tls
    changed = {name: str(directory / file) if file else "" for name, file in wrong.items()}
    for name, path in {**files(directory), **changed}.items():
        monkeypatch.setenv(name, path)
    assert said in last_words(bed_dir, consul.url)


def test_the_wrong_scheme(
    tls: tuple[Secured, Path], tokens: SecuredConsul, bed_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consul, directory = tls
    said = last_words(bed_dir, consul.url.replace("https", "http"))
    assert "speaks TLS: name it with https://" in said
    for name, path in files(directory).items():
        monkeypatch.setenv(name, path)
    said = last_words(bed_dir, tokens.url.replace("http", "https"))
    assert "speaks no TLS: name it with http://" in said


def test_something_else_at_the_stores_address(bed_dir: Path) -> None:
    with Page() as page:
        assert "is no consul" in last_words(bed_dir, page.url)


def test_a_consul_that_is_late_is_waited_for(
    tls: tuple[Secured, Path], bed_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    consul, directory = tls
    for name, path in files(directory).items():
        monkeypatch.setenv(name, path)
    consul.kill()
    master = Master(bed_dir, Named(consul.url), flags=MODES)
    try:
        master.spawn()
        eventually(
            lambda: "waiting for the store" in master.log_text(), "it says what it waits for"
        )
        consul.start()
        master.await_ready()
    finally:
        master.kill()
