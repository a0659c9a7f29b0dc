"""Global flags, help, and the handling of failures."""

from typing import Any

import pytest

from core.errors import MasterUnavailable
from core.version import VERSION
from daemons.waiting import waiting
from tests.unit.netctl.master import MemoryMaster, Netctl

COMMANDS = [
    "aci-gw",
    "app-profile",
    "bgp",
    "completion",
    "endpoint",
    "external-contracts",
    "global",
    "group",
    "login",
    "netprofile",
    "network",
    "policy",
    "service",
    "tenant",
    "version",
]


@pytest.mark.parametrize("words", [[], ["help"], ["h"], ["-h"], ["--help"], ["-help"]])
def test_help_lists_every_command(words: list[str], netctl: Netctl) -> None:
    done = netctl(*words)
    assert done.code == 0
    assert [name for name in COMMANDS if f"\n  {name}" not in done.out] == []
    assert done.err == ""


@pytest.mark.parametrize("words", [["-v"], ["--version"], ["-version"]])
def test_version_is_printed(words: list[str], netctl: Netctl) -> None:
    done = netctl(*words)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"netctl version \nVersion: {VERSION}\nGitCommit: \nBuildTime: \n\n"


@pytest.mark.parametrize(
    ("words", "unknown"),
    [
        (["bogus"], "bogus"),
        (["volume", "ls"], "volume"),
        (["help", "bogus"], "bogus"),
        (["net", "bogus"], "bogus"),
        (["net", "help", "bogus"], "bogus"),
    ],
)
def test_an_unknown_command_has_no_help(words: list[str], unknown: str, netctl: Netctl) -> None:
    done = netctl(*words)
    assert (done.code, done.out, done.err) == (0, f"No help topic for '{unknown}'\n", "")


@pytest.mark.parametrize(
    "words", [["net", "--help"], ["network", "help"], ["help", "net"], ["net"]]
)
def test_help_of_a_group_lists_aliases(words: list[str], netctl: Netctl) -> None:
    done = netctl(*words)
    assert done.code == 0
    assert "rm, delete  Delete a network" in done.out


@pytest.mark.parametrize("words", [["net", "create", "-h"], ["net", "help", "create"]])
def test_help_of_a_command_lists_its_flags(words: list[str], netctl: Netctl) -> None:
    done = netctl(*words)
    assert done.code == 0
    assert "-s6, --subnetv6" in done.out
    assert "-tag, --nw-tag" in done.out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--bogus"], "flag '--bogus' of netctl does not exist"),
        (["net", "ls", "--bogus"], "flag '--bogus' of netctl network ls does not exist"),
        (["net", "ls", "-t"], "flag needs an argument: --tenant"),
        (["net", "create", "-p", "abc", "n"], "'abc' is not a whole number"),
        (["net", "ls", "-q=maybe"], "'maybe' is not a valid boolean"),
    ],
)
def test_wrong_flags_show_the_reason_and_the_help(
    words: list[str], reason: str, netctl: Netctl
) -> None:
    done = netctl(*words)
    assert done.code == 0
    assert done.err == ""
    assert done.out.startswith("Incorrect Usage.\n\n")
    assert reason in done.out
    assert "Usage: netctl" in done.out
    assert netctl.master.written == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["polcy", "ls", "-q"], "command 'polcy' of netctl does not exist: did you mean 'policy'?"),
        (["help", "tennant"], "command 'tennant' of netctl does not exist: did you mean 'tenant'?"),
        (["net", "lst"], "command 'lst' of netctl network does not exist: did you mean 'list'"),
        (["net", "crate", "n1"], "did you mean 'create'?"),
        (["net", "ls", "--tennant=x"], "flag '--tennant=x' of netctl network ls does not exist"),
        (["net", "ls", "--tennant=x"], "did you mean '--tenant'?"),
        (["--netmastr", "http://a", "net", "ls"], "did you mean '--netmaster'?"),
    ],
)
def test_a_slip_fails_and_says_what_was_meant(words: list[str], told: str, netctl: Netctl) -> None:
    done = netctl(*words)
    assert (done.code, done.out) == (2, "")
    assert told in done.message
    assert "--help` lists what there is" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["trace", "-x", "a", "b"],
        ["endpoint", "list", "--x"],
        ["policy", "log", "-n", "many"],
        ["policy", "kube-stats", "-x"],
        ["events", "-n"],
        ["host", "x"],
    ],
)
def test_wrong_words_of_a_new_command_fail(words: list[str], netctl: Netctl) -> None:
    done = netctl(*words)
    assert (done.code, done.out) == (2, "")
    assert done.message


@pytest.mark.parametrize(
    ("environment", "words", "expected"),
    [
        ({}, [], {"url": "http://netmaster:9999", "insecure": False}),
        ({"NETMASTER": ""}, [], {"url": "http://netmaster:9999", "insecure": False}),
        ({"NETMASTER": "http://a:1"}, [], {"url": "http://a:1", "insecure": False}),
        (
            {"NETMASTER": "http://a:1", "INSECURE": "true"},
            ["-netmaster", "https://b:2"],
            {"url": "https://b:2", "insecure": True},
        ),
        (
            {"INSECURE": "1"},
            ["--insecure=false"],
            {"url": "http://netmaster:9999", "insecure": False},
        ),
    ],
)
def test_flags_win_over_the_environment(
    environment: dict[str, str],
    words: list[str],
    expected: dict[str, Any],
    netctl: Netctl,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[dict[str, Any]] = []

    def client(url: str, *, insecure: bool, **others: object) -> MemoryMaster:
        assert others == {"token": "", "secure": None, "what_if": None, "waiting": waiting}
        made.append({"url": url, "insecure": insecure})
        return netctl.master

    monkeypatch.setattr("contivmodel.client_sync.RestClient", client)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert netctl(*words, "tenant", "ls", "-q").out == "default\n"
    assert made == [expected]


@pytest.mark.parametrize("words", [["-o", "xml"], ["-o", "jsonpath={"], ["--sort", "colour"]])
def test_a_form_that_does_not_exist_is_refused(words: list[str], netctl: Netctl) -> None:
    done = netctl("tenant", "ls", *words)
    assert (done.code, done.out) == (1, "")


def test_an_unreachable_master_is_exit_3(netctl: Netctl, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object, **__: object) -> None:
        raise MasterUnavailable('Get "http://a:1/x/": EOF')

    monkeypatch.setattr(netctl.master, "list_all", gone)
    done = netctl("tenant", "ls")
    assert (done.code, done.out) == (3, "")
    assert done.message == '"Get "http://a:1/x/": EOF"'


@pytest.mark.parametrize("unknown", [True, False])
def test_a_change_without_an_answer_may_have_been_made(
    netctl: Netctl, monkeypatch: pytest.MonkeyPatch, unknown: bool
) -> None:
    def lost(*_: object, **__: object) -> None:
        raise MasterUnavailable('Post "http://a:1/x/": EOF', outcome_unknown=unknown)

    monkeypatch.setattr(netctl.master, "write", lost)
    done = netctl("tenant", "create", "blue")
    assert done.code == 3
    assert 'Post "http://a:1/x/": EOF' in done.err
    assert ("outcome unknown: the change may have been done" in done.err) == unknown


def test_a_watch_prints_what_changes_until_it_is_interrupted(
    netctl: Netctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([None, "blue", None])

    def sleep(_seconds: float) -> None:
        try:
            name = next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None
        if name:
            netctl.master.add("tenants", {"key": name, "tenantName": name})

    monkeypatch.setattr("time.sleep", sleep)
    done = netctl("tenant", "ls", "-q", "--watch")
    assert (done.code, done.out) == (130, "default\ndefault\nblue\n")


def test_an_interrupt_ends_quietly(netctl: Netctl, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(netctl.master, "list_all", interrupted)
    done = netctl("tenant", "ls")
    assert (done.code, done.out, done.err.strip()) == (130, "", "")
