"""netmaster and a store that asks for something: it serves, or ends and says what to do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from core import keys
from tests.bed.certificates import make_certificates
from tests.bed.etcd import Etcd
from tests.bed.master import MODES, Master
from tests.bed.metrics import parsed
from tests.bed.netns import free_port
from tests.bed.page import Page
from tests.bed.secured import (
    USER,
    SecuredEtcd,
    identity_flags,
    tls_flags,
)
from tests.bed.waiting import eventually

pytestmark = pytest.mark.store


@pytest.fixture(scope="module")
def secured(bed_dirs: Iterator[Path]) -> Iterator[SecuredEtcd]:
    """Run an etcd with TLS, client certificates and users."""
    directory = next(bed_dirs)
    directory.mkdir()
    make_certificates(directory)
    etcd = SecuredEtcd(directory, *tls_flags(directory), scheme="https")
    etcd.start()
    etcd.enable_users(keys.ROOT)
    yield etcd
    etcd.kill()


@dataclass(frozen=True)
class Named:
    """An etcd as a command line names it, whatever is there."""

    url: str
    kind: str = "etcd"


@contextmanager
def master_on(directory: Path, url: str, *flags: str) -> Iterator[Master]:
    master = Master(directory, Named(url), flags=(*MODES, *flags))
    try:
        yield master
    finally:
        master.kill()


def last_words(directory: Path, url: str, *flags: str) -> str:
    """Start a master that cannot use its store; return the line it ended with."""
    with master_on(directory, url, *flags) as master:
        master.spawn()
        eventually(lambda: not master.running, "the master ends")
        lines = master.log_text().splitlines()
        assert "Traceback" not in master.log_text()
        return lines[-1]


def test_tls_and_a_password(secured: SecuredEtcd, bed_dir: Path) -> None:
    flags = identity_flags(secured.directory)
    dead = f"https://127.0.0.1:{free_port(None)}"
    with master_on(bed_dir, f"{dead},{secured.url}", *flags) as master:
        master.start()
        assert master.ask("POST", "/api/v1/tenants/t/", {"tenantName": "t"}).status == 200
        assert master.ask("GET", "/api/v1/tenants/t/").status == 200
        shown = Path(f"/proc/{master.pid}/cmdline").read_bytes()
        assert b"--store-password-file" in shown
        assert f"\0{USER.password}\0".encode() not in shown


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda _: [], "--store-ca"),
        (lambda flags: _without(flags, "--store-cert", "--store-key"), "--store-cert"),
        (lambda flags: _without(flags, "--store-user", "--store-password-file"), "--store-user"),
        (lambda flags: [f.replace("ca.pem", "other.pem") for f in flags], "--store-ca"),
        (lambda flags: [f.replace("client.", "other.") for f in flags], "--store-cert"),
        (lambda flags: [f.replace("ca.pem", "ca.key") for f in flags], "not PEM"),
        (lambda flags: [f.replace("ca.pem", "no.pem") for f in flags], "No such file"),
        (lambda flags: [f.replace("/password", "/ca.pem") for f in flags], "--store-password-file"),
        (lambda flags: ["root" if f == USER.user else f for f in flags], "--store-password-file"),
    ],
    ids=["no authority", "no certificate", "no user", "other authority", "other certificate",
         "no certificate in the file", "no file", "other password", "other user"],
)  # fmt: skip
def test_a_store_that_refuses_us_ends_the_start(
    secured: SecuredEtcd, bed_dir: Path, wrong: Callable[[list[str]], list[str]], said: str
) -> None:
    flags = wrong(list(identity_flags(secured.directory)))
    assert said in last_words(bed_dir, secured.url, *flags)


def _without(flags: list[str], *names: str) -> list[str]:
    dropped = {flags.index(name) + offset for name in names for offset in (0, 1)}
    return [flag for place, flag in enumerate(flags) if place not in dropped]


def test_the_wrong_scheme(secured: SecuredEtcd, etcd: Etcd, bed_dir: Path) -> None:
    plain = secured.url.replace("https", "http")
    assert "speaks TLS: name it with https://" in last_words(bed_dir, plain)
    flags = ("--store-ca", str(secured.directory / "ca.pem"))
    tls = etcd.url.replace("http", "https")
    assert "speaks no TLS: name it with http://" in last_words(bed_dir, tls, *flags)


def test_a_missing_permission(bed_dir: Path) -> None:
    etcd = SecuredEtcd(bed_dir)
    etcd.start()
    try:
        etcd.enable_users("/other/")
        (bed_dir / "password").write_text(USER.password)
        flags = ("--store-user", USER.user, "--store-password-file", str(bed_dir / "password"))
        said = last_words(bed_dir, etcd.url, *flags)
        assert "needs a role that may read and write under /contiv.io/" in said
    finally:
        etcd.kill()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"hello", "is no etcd"),
        (b'{"etcdserver":"2.3.8","etcdcluster":"2.3.0"}', "is etcd 2.3.8: run etcd 3.4 or later"),
    ],
)
def test_something_else_at_the_stores_address(bed_dir: Path, text: bytes, said: str) -> None:
    with Page(text) as page:
        assert said in last_words(bed_dir, page.url)


def test_a_store_that_is_late_is_waited_for(bed_dir: Path, etcd: Etcd) -> None:
    etcd.kill()
    with master_on(bed_dir, etcd.url) as master:
        master.spawn()
        eventually(
            lambda: "waiting for the store" in master.log_text(), "it says what it waits for"
        )
        etcd.start()
        master.await_ready()
        assert "waiting for the store: resolved" in master.log_text()


def test_a_store_that_goes_is_told_until_it_is_back(bed_dir: Path, etcd: Etcd) -> None:
    with master_on(bed_dir, etcd.url) as master:
        master.start()

        def state() -> dict[str, Any]:
            return cast("dict[str, Any]", master.ask("GET", "/readyz").json())

        eventually(lambda: state() == READY, "all is well")
        etcd.kill()
        eventually(lambda: "loops" in failing(state()), "what fails is told")
        assert state()["faults"]
        page = parsed(master.ask("GET", "/metrics").body)
        assert page.total("contiv_netmaster_loop_failures_total") > 0
        etcd.start()
        eventually(lambda: state() == READY, "all is well again")


READY = {"ready": True, "checks": {"store": "ok", "leader": "ok", "loops": "ok"}}


def failing(state: dict[str, Any]) -> set[str]:
    return {name for name, said in state["checks"].items() if said != "ok"}
