"""The REST client is created from the global flags and the saved login."""

from pathlib import Path
from typing import Any

import pytest

from daemons.waiting import waiting
from netctl.connection import MasterConnection, saved_token
from netctl.failure import HELP, IO, REQUEST, CommandFailed


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    clients: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "contivmodel.client_sync.RestClient",
        lambda url, **options: clients.append({"url": url, **options}),
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    return clients


def save(home: Path, text: str) -> None:
    (home / ".netctl").mkdir()
    (home / ".netctl" / "config.json").write_text(text)


def test_a_saved_token_is_sent_over_https(made: list[dict[str, Any]], tmp_path: Path) -> None:
    save(tmp_path, '{"token": "secret"}')
    MasterConnection(url="https://proxy:10000", insecure=True).client()
    assert made == [
        {
            "url": "https://proxy:10000",
            "token": "secret",
            "insecure": True,
            "secure": None,
            "what_if": None,
            "waiting": waiting,
        }
    ]


@pytest.mark.parametrize("url", ["http://master:9999", "https://a:9999, http://b:9999"])
def test_a_saved_token_is_never_sent_in_the_clear(
    made: list[dict[str, Any]], tmp_path: Path, url: str
) -> None:
    save(tmp_path, '{"token": "secret"}')
    with pytest.raises(CommandFailed) as failed:
        MasterConnection(url=url, insecure=False).client()
    assert failed.value.exit_code == REQUEST
    assert str(failed.value) == (
        "error processing netctl config: failed to set auth token: "
        "setting auth token requires a https auth_proxy URL"
    )
    assert made == []


def test_without_a_login_no_token_is_sent(made: list[dict[str, Any]]) -> None:
    MasterConnection(url="http://master:9999", insecure=False).client()
    assert made == [
        {
            "url": "http://master:9999",
            "token": "",
            "insecure": False,
            "secure": None,
            "what_if": None,
            "waiting": waiting,
        }
    ]


@pytest.mark.parametrize("url", ["master:9999", "ftp://master", "", "http://master:9999/"])
def test_a_bad_url_is_refused(url: str, made: list[dict[str, Any]]) -> None:
    with pytest.raises(CommandFailed, match="Error connecting to netmaster") as failed:
        MasterConnection(url=url, insecure=False).client()
    assert failed.value.exit_code == HELP
    assert made == []


@pytest.mark.parametrize("text", ["", "[]", '{"token": 5}', "\x00", "[" * 100_000])
def test_an_unreadable_login_is_reported(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(CommandFailed, match="netctl config: failed to unmarshal JSON") as failed:
        saved_token(path)
    assert failed.value.exit_code == REQUEST


@pytest.mark.parametrize("token", ["two\\nlines", "\\ud800", "\\u00e9", "\\u0000"])
def test_a_token_that_no_header_can_have_is_reported(token: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(f'{{"token": "{token}"}}')
    with pytest.raises(CommandFailed, match="log in again") as failed:
        saved_token(path)
    assert failed.value.exit_code == REQUEST


def test_a_directory_in_place_of_the_login_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="failed to read config file") as failed:
        saved_token(tmp_path)
    assert failed.value.exit_code == REQUEST


def test_a_login_that_cannot_be_looked_for_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CommandFailed) as failed:
        saved_token(tmp_path / "file" / "config.json")
    assert failed.value.exit_code == IO


def test_a_login_without_token_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    assert saved_token(path) == ""
    assert saved_token(tmp_path / "other.json") is None


def test_a_user_without_a_home_has_no_login(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(CommandFailed, match="failed to detect HOME directory") as failed:
        MasterConnection(url="http://master:9999", insecure=False).client()
    assert failed.value.exit_code == IO
