"""`netctl login` up to its first prompt; an integration test runs the rest on a terminal."""

import pytest

from tests.unit.netctl.master import Netctl


def test_only_https_is_spoken_to(netctl: Netctl) -> None:
    done = netctl("login")
    assert (done.code, done.err) == (3, "")
    assert done.out.startswith("login requires a https auth_proxy URL\nUsage: netctl login")


def test_a_closed_input_is_an_input_error(netctl: Netctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    done = netctl("--netmaster", "https://a:1", "login")
    assert (done.code, done.out, done.message) == (4, "", '"bad file descriptor"')


def test_words_come_before_the_url(netctl: Netctl) -> None:
    done = netctl("login", "joe")
    assert (done.code, done.message) == (1, '"More arguments than required"')
