"""How a daemon starts and ends: what it says, and its exit code."""

import errno
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from core.errors import ContivError, HostError, UsageError
from daemons import flags, program
from daemons.flags import Values
from daemons.program import Program, load_ahead
from netmaster.main import NETMASTER
from netplugin.entry import CNI_FILES
from netplugin.main import NETPLUGIN

pytestmark = pytest.mark.usefixtures("root_logger")

MODES: Final = ["--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "routing"]


class Started:
    """A daemon that only notes its settings, and ends by an error or in good order."""

    def __init__(self, failure: Exception | None) -> None:
        self.settings: list[str] = []
        self._failure = failure

    def serve(self, settings: str) -> None:
        self.settings.append(settings)
        if self._failure is not None:
            raise self._failure


def make_program(
    failure: Exception | None = None,
    resolve: Callable[[Values, Callable[[], str]], str] = lambda values, _: values["mode"],
    command: Callable[[Sequence[str], Mapping[str, str]], None] = lambda _words, _environ: None,
) -> tuple[Program[str], Started]:
    started = Started(failure)
    made = Program(
        name="daemon",
        flags=flags.COMMON,
        commands={"look": command},
        help={"look": "look at it"},
        resolve=resolve,
        serve=started.serve,
        ended="daemon ended: %s",
    )
    return made, started


@pytest.fixture(autouse=True)
def tuned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keep this process as it is; list what would have been changed."""
    done: list[str] = []
    monkeypatch.setattr(program, "tune_garbage_collector", lambda: done.append("collector"))
    monkeypatch.setattr(program, "raise_open_files_limit", lambda: done.append("files"))
    return done


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (None, 0),
        (HostError("no link"), 1),
        (UsageError("another forwarding mode"), 22),
        (OSError("address in use"), 1),
    ],
)
def test_how_a_daemon_ends_is_the_exit_code(
    failure: Exception | None, code: int, tuned: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    daemon, started = make_program(failure)
    assert daemon.start(["--mode", "kubernetes"], {}) == code
    assert started.settings == ["kubernetes"]
    assert tuned == ["collector", "files"]
    said = capsys.readouterr().err
    assert (f"daemon ended: {failure}" in said) is (failure is not None)
    assert "Traceback" not in said


def test_an_error_that_nobody_foresaw_is_not_hidden() -> None:
    daemon, _ = make_program(KeyError("bug"))
    with pytest.raises(KeyError):
        daemon.start([], {})


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError("wrong flag"), 22), (OSError("no interface"), 1)]
)
def test_settings_that_cannot_be_used_end_the_start(
    error: Exception, code: int, tuned: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def resolve(_values: Values, _address: Callable[[], str]) -> str:
        raise error

    daemon, started = make_program(resolve=resolve)
    assert daemon.start([], {}) == code
    assert (started.settings, tuned) == ([], [])
    assert capsys.readouterr() == ("", f"{error}\n")


def test_a_command_gets_the_words_after_its_name_and_the_environment(tuned: list[str]) -> None:
    given: list[object] = []
    daemon, started = make_program(command=lambda *words: given.extend(words))
    assert daemon.start(["look", "--closely"], {"A": "b"}) == 0
    assert given == [["--closely"], {"A": "b"}]
    assert (started.settings, tuned) == ([], [])


@pytest.mark.parametrize(("error", "code"), [(HostError("fault"), 1), (OSError("gone"), 1)])
def test_how_a_command_ends_is_the_exit_code(
    error: ContivError | OSError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(_words: Sequence[str], _environ: Mapping[str, str]) -> None:
        raise error

    daemon, _ = make_program(command=command)
    assert daemon.start(["look"], {}) == code
    assert capsys.readouterr() == ("", f"{error}\n")


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_what_is_only_asked_for_is_no_failure(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon, started = make_program()
    assert daemon.start([argument], {}) == 0
    assert started.settings == []
    assert "daemon" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("daemon", "arguments"),
    [
        (NETMASTER, ["--external-address", "127.0.0.1:9999"]),
        (NETPLUGIN, ["--ctrl-ip", "192.0.2.1", "--vtep-ip", "192.0.2.1"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_both_daemons_are_such_programs(
    daemon: Program[Any], arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    started = Started(OSError("address in use"))
    assert replace(daemon, serve=started.serve).start([*MODES, *arguments], {}) == 1
    assert len(started.settings) == 1
    assert f"{daemon.name} ended: address in use" in capsys.readouterr().err
    # `netplugin.entry` runs those that need nothing of the agent
    assert {*daemon.commands, *CNI_FILES} >= daemon.help.keys()


async def test_what_cannot_be_imported_now_is_imported_later() -> None:
    tried: list[str] = []

    def first() -> None:
        tried.append("first")
        if len(tried) < 3:
            raise OSError(errno.EMFILE, "Too many open files")

    await load_ahead(first, lambda: tried.append("second"))
    assert tried == ["first", "first", "first", "second"]
