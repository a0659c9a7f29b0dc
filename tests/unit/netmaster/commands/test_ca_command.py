"""`netmaster ca`: what is written where, with which modes, and what is never overwritten."""

import os
import ssl
import stat
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from core.errors import Invalid, UsageError
from daemons.certificates.tls import TlsContexts, TlsFiles
from netmaster.commands import ca_command
from netmaster.commands.ca_command import FilesRefused
from tests.unit.certificates import NOW, met, raw_client


def run(*arguments: str | Path, now: datetime = NOW) -> None:
    ca_command.run([str(argument) for argument in arguments], now=lambda: now)


def issue(authority: Path, role: str, name: str, out: Path, *more: str | Path) -> TlsFiles:
    run("issue", authority, "--role", role, "--name", name, "--out", out, *more)
    return TlsFiles(ca=str(out / "ca.pem"), cert=str(out / "cert.pem"), key=str(out / "key.pem"))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    directory = tmp_path / "authority"
    run("init", directory)
    return directory


def test_an_authority_is_private(authority: Path) -> None:
    assert mode(authority) == 0o700
    assert mode(authority / "ca-key.pem") == 0o600
    assert {path.name for path in authority.iterdir()} == {"ca.pem", "ca-key.pem"}


def test_an_authority_is_never_overwritten(authority: Path) -> None:
    before = {path: path.read_bytes() for path in authority.iterdir()}
    with pytest.raises(FilesRefused, match=r"ca-key\.pem exists: an authority is never"):
        run("init", authority)
    assert {path: path.read_bytes() for path in authority.iterdir()} == before


def test_a_key_is_not_written_through_a_link(tmp_path: Path) -> None:
    directory = tmp_path / "authority"
    directory.mkdir(mode=0o700)
    (directory / "ca-key.pem").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FilesRefused):
        run("init", directory)
    assert not (tmp_path / "elsewhere").exists()


def test_a_directory_that_others_may_enter_is_left_alone(tmp_path: Path) -> None:
    open_to_all = tmp_path / "shared"
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    with pytest.raises(FilesRefused, match="mode 755"):
        run("init", open_to_all)
    assert mode(open_to_all) == 0o755
    assert not list(open_to_all.iterdir())


def test_daemons_that_are_issued_certificates_meet(authority: Path, tmp_path: Path) -> None:
    master = issue(authority, "master", "m1", tmp_path / "m1", "--address", "192.0.2.1")
    agent = issue(
        authority, "agent", "h1", tmp_path / "h1", "--address", "192.0.2.2", "--address", "h1.lan"
    )
    admin = issue(authority, "admin", "root", tmp_path / "root", "--days", "1")
    server = TlsContexts(master).server()
    assert str(met(raw_client(agent), server)) == "agent/h1"
    assert str(met(raw_client(admin), server)) == "admin/root"
    assert mode(tmp_path / "m1" / "key.pem") == 0o600
    assert mode(tmp_path / "m1" / "cert.pem") == 0o644
    assert {path.name for path in (tmp_path / "m1").iterdir()} == {"ca.pem", "cert.pem", "key.pem"}


def test_a_certificate_is_replaced_while_its_daemon_serves(authority: Path, tmp_path: Path) -> None:
    address = ("--address", "192.0.2.1")
    server = TlsContexts(issue(authority, "master", "m1", tmp_path / "m1", *address)).server()
    admin = raw_client(issue(authority, "admin", "root", tmp_path / "root"))
    assert str(met(admin, server)) == "admin/root"
    issue(authority, "master", "m1", tmp_path / "m1", "--address", "192.0.2.7")
    assert str(met(admin, server, "192.0.2.7")) == "admin/root"


def test_an_authority_is_replaced_step_by_step(authority: Path, tmp_path: Path) -> None:
    """Every step of the exchange leaves master and agent able to meet."""
    address = ("--address", "192.0.2.1")
    later = tmp_path / "later"
    run("init", later)
    both = ("--trust", later / "ca.pem")
    back = ("--trust", authority / "ca.pem")
    steps = [
        (authority, (), authority, ()),
        (authority, both, authority, ()),
        (authority, both, authority, both),
        (later, back, authority, both),
        (later, back, later, back),
        (later, (), later, back),
        (later, (), later, ()),
    ]
    for masters, masters_trust, agents, agents_trust in steps:
        master = issue(masters, "master", "m1", tmp_path / "m1", *address, *masters_trust)
        agent = issue(agents, "agent", "h1", tmp_path / "h1", *address, *agents_trust)
        there, here = TlsContexts(master), TlsContexts(agent)
        assert str(met(here.client(), there.server())) == "agent/h1"
        assert str(met(there.client(), here.server())) == "master/m1"


def test_a_failed_issue_leaves_the_former_files(authority: Path, tmp_path: Path) -> None:
    files = issue(authority, "admin", "root", tmp_path / "root")
    before = {path: path.read_bytes() for path in (tmp_path / "root").iterdir()}
    with pytest.raises(Invalid, match="the authority expired"):
        run(
            *("issue", authority, "--role", "admin", "--name", "root", "--out", tmp_path / "root"),
            now=NOW + timedelta(days=4000),
        )
    with pytest.raises(FilesRefused, match="nowhere: No such file"):
        issue(authority, "admin", "root", tmp_path / "root", "--trust", tmp_path / "nowhere")
    assert {path: path.read_bytes() for path in (tmp_path / "root").iterdir()} == before
    raw_client(files)


def test_a_directory_without_authority_is_named(tmp_path: Path) -> None:
    with pytest.raises(FilesRefused, match=r"empty/ca\.pem: No such file"):
        issue(tmp_path / "empty", "admin", "root", tmp_path / "out")


def test_a_full_disk_leaves_no_partial_files(
    authority: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "root"
    out.mkdir()

    synced: list[int] = []

    def full(descriptor: int) -> None:
        synced.append(descriptor)
        if len(synced) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FilesRefused, match="No space left"):
        issue(authority, "admin", "root", out)
    assert not list(out.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "the following arguments are required: init|issue"),
        (("renew",), "invalid choice: 'renew'"),
        (("init",), "required: DIR"),
        (("issue", "d", "--role", "agent", "--name", "h1"), "required: --out"),
        (("issue", "d", "--role", "root", "--name", "h1", "--out", "o"), "invalid choice: 'root'"),
        (
            ("issue", "d", "--role", "agent", "--name", "h", "--out", "o", "--days", "x"),
            "--days: invalid int value",
        ),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        run(*arguments)
    assert said in str(refused.value)
    assert "usage: netmaster ca" in str(refused.value)
    assert refused.value.exit_code == 22


def test_what_was_written_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("init", tmp_path)
    assert capsys.readouterr().out == f"{tmp_path}/ca.pem\n"
    issue(tmp_path, "admin", "root", tmp_path / "root")
    written = [f"{tmp_path}/root/{name}.pem\n" for name in ("ca", "cert", "key")]
    assert capsys.readouterr().out == "".join(written)


def test_the_wall_clock_is_the_default(tmp_path: Path) -> None:
    ca_command.run(["init", str(tmp_path / "authority")])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(tmp_path / "authority" / "ca.pem")
    assert len(context.get_ca_certs()) == 1
