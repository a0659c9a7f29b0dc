"""`netctl version`."""

import pytest

from core.version import VERSION
from tests.unit.netctl.master import MemoryMaster, Netctl


def test_both_versions_are_shown(netctl: Netctl) -> None:
    done = netctl("version")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        f"Client Version:\nVersion: {VERSION}\nGitCommit: \nBuildTime: \n\n"
        "Server Version:\nVersion: 9.9\nGitCommit: abc\nBuildTime: today\n"
    )


def test_a_server_that_does_not_answer_is_exit_2(netctl: Netctl) -> None:
    netctl.master.refusal = "502 Bad Gateway"
    done = netctl("version")
    assert (done.code, done.out, done.message) == (2, "", '"502 Bad Gateway"')


def test_no_words_are_taken(netctl: Netctl) -> None:
    done = netctl("version", "extra")
    assert (done.code, done.message) == (1, '"More arguments than required"')


def test_insecure_is_heeded(netctl: Netctl, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def client(_url: str, *, insecure: bool, **_: object) -> MemoryMaster:
        asked.append(insecure)
        return netctl.master

    monkeypatch.setattr("contivmodel.client_sync.RestClient", client)
    assert netctl("--insecure", "version").code == 0
    assert asked == [True]
