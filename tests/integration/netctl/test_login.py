"""A login on a terminal, at a stand-in for the authenticating proxy that speaks TLS."""

import json
import os
import signal
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed.waiting import eventually
from tests.integration.netctl.login import logging_in, netctl
from tests.integration.netctl.proxy import TOKEN, Proxy, certified, serving

SAVED = Path(".netctl") / "config.json"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return certified(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def proxy(tls: ssl.SSLContext) -> Iterator[Proxy]:
    proxy = Proxy()
    with serving(proxy, tls):
        yield proxy


def test_a_login_is_sent_saved_and_used(proxy: Proxy, tmp_path: Path) -> None:
    with logging_in(tmp_path, proxy.url, "--insecure") as login:
        assert login.give() == (0, "Username: Password: \nLogin succeeded.\n", "")
        shown = os.read(login.terminal, 4096)
        assert b"joe" in shown
        assert b"secret" not in shown
        assert login.echoes()
    [(path, token, body)] = proxy.asked
    assert (path, token) == ("/api/v1/auth_proxy/login/", "")
    assert json.loads(body) == {"username": "joe", "password": "secret"}
    assert (tmp_path / SAVED).read_bytes() == proxy.answer

    done = netctl(tmp_path, "--netmaster", proxy.url, "--insecure", "tenant", "ls", "-j")
    assert (done.returncode, done.stdout) == (0, "[]\n")
    assert proxy.asked[-1][:2] == ("/api/v1/tenants/", TOKEN)

    done = netctl(tmp_path, "--netmaster", "http://127.0.0.1:1", "tenant", "ls")
    assert done.returncode == 3
    assert "setting auth token requires a https auth_proxy URL" in done.stderr


def test_the_token_is_for_the_user_alone(proxy: Proxy, tmp_path: Path) -> None:
    saved = tmp_path / SAVED
    for _ in range(2):
        with logging_in(tmp_path, proxy.url, "--insecure") as login:
            assert login.give()[0] == 0
        assert saved.parent.stat().st_mode & 0o777 == 0o700
        assert saved.stat().st_mode & 0o777 == 0o600
        saved.chmod(0o644)
        proxy.answer = b'{"token": "x"}'
    assert saved.read_bytes() == proxy.answer


@pytest.mark.parametrize(
    ("status", "said", "complained"),
    [
        (401, "Login failed: Bad username or password.\n", ""),
        (503, "Login failed: unexpected response code (503)\n\n", "out of order"),
    ],
)
def test_a_refused_login_is_not_saved(
    status: int, said: str, complained: str, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.status, proxy.answer = status, b"out of order"
    with logging_in(tmp_path, proxy.url, "--insecure") as login:
        assert login.give() == (3, f"Username: Password: \n{said}", complained)
    assert not (tmp_path / SAVED).exists()


def test_a_certificate_nobody_trusts_gets_no_password(proxy: Proxy, tmp_path: Path) -> None:
    with logging_in(tmp_path, proxy.url) as login:
        code, _, err = login.give()
    assert code == 4
    assert f'Post "{proxy.url}/api/v1/auth_proxy/login/": x509: ' in err
    assert proxy.asked == []


def test_a_place_that_cannot_be_written_is_an_input_error(proxy: Proxy, tmp_path: Path) -> None:
    home = tmp_path / "nowhere"
    with logging_in(home, proxy.url, "--insecure") as login:
        code, out, err = login.give()
    assert (code, out.endswith("Login succeeded.\n")) == (4, True)
    assert "no such file or directory" in err


def test_a_name_is_required(proxy: Proxy, tmp_path: Path) -> None:
    with logging_in(tmp_path, proxy.url) as login:
        login.type(" \n")
        code, out, err = login.end()
    assert (code, out) == (3, "Username: ")
    assert 'msg="you must specify a username"' in err


def test_the_end_of_input_is_an_input_error(proxy: Proxy, tmp_path: Path) -> None:
    done = netctl(tmp_path, "--netmaster", proxy.url, "login")
    assert (done.returncode, done.stdout) == (4, "Username: ")
    assert "level=error msg=EOF " in done.stderr


def test_an_interrupt_brings_the_echo_back(proxy: Proxy, tmp_path: Path) -> None:
    with logging_in(tmp_path, proxy.url) as login:
        login.type("joe\n")
        eventually(lambda: not login.echoes(), "the echo is off")
        login.process.send_signal(signal.SIGINT)
        assert login.end()[0] == 130
        assert login.echoes()


def test_words_are_refused(tmp_path: Path) -> None:
    done = netctl(tmp_path, "--netmaster", "https://127.0.0.1:1", "login", "joe")
    assert done.returncode == 1
    assert "More arguments than required" in done.stderr
