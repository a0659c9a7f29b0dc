"""`objdb.credentials`: certificates and passwords from files, and their errors."""

from pathlib import Path

import pytest

from core.errors import UsageError
from daemons import flags
from objdb.access import StoreCredentials, Tls
from objdb.connect import etcd_access, store_of
from objdb.credentials import CredentialFiles

TLS_STORE = "--etcd=https://a:1,https://b:2"


def given(*arguments: str, **environ: str) -> flags.Values:
    values = flags.read("netmaster", flags.STORE, arguments, environ, "1")
    assert values is not None
    return values


def test_files_become_what_a_client_needs(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name)
    (tmp_path / "password").write_text("se cret\n")
    values = given(
        TLS_STORE,
        *(f"--store-{name}={tmp_path / name}" for name in ("ca", "cert", "key")),
        "--store-user=contiv",
        CONTIV_NETMASTER_STORE_PASSWORD_FILE=str(tmp_path / "password"),
    )
    wanted = etcd_access(store_of(values))
    assert wanted.endpoints == ("a:1", "b:2")
    assert wanted.tls == Tls(ca=b"ca", cert=b"cert", key=b"key")
    assert wanted.credentials == StoreCredentials(user="contiv", password="se cret")


def test_a_plain_store_needs_nothing() -> None:
    wanted = etcd_access(store_of(given("--etcd=http://a:1")))
    assert (wanted.tls, wanted.credentials) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((TLS_STORE,), "name its file with --store-ca, or use http://"),
        (("--etcd=http://a:1", "--store-ca=ca"), "name its endpoints with https://"),
        (
            (TLS_STORE, "--store-ca=ca", "--store-cert=c"),
            "--store-cert and --store-key go together",
        ),
        ((TLS_STORE, "--store-ca=ca", "--store-key=k"), "--store-cert and --store-key go together"),
        (("--store-user=u",), "--store-user and --store-password-file go together"),
        (("--store-password-file=f",), "--store-user and --store-password-file go together"),
    ],
)
def test_what_does_not_go_together(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        store_of(given(*arguments))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(UsageError, match=f"--store-ca {missing}: No such file"):
        CredentialFiles(ca=str(missing)).tls()
    missing.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        CredentialFiles(user="u", password_file=str(missing)).credentials()


def test_consul_has_variables_of_its_own() -> None:
    with pytest.raises(UsageError, match="CONSUL_HTTP_TOKEN"):
        store_of(given("--consul=http://a:1", "--store-user=u", "--store-password-file=p"))
    assert store_of(given("--consul=http://a:1")).members == ("a:1",)
