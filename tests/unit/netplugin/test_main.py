"""The command: texts on stderr as recorded of the original, and exit codes."""

import logging
from collections.abc import Iterator

import pytest

from core.errors import HostError, UsageError
from netplugin import main
from netplugin.settings import Settings

MODES = ["--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "routing"]
ADDRESSES = ["--ctrl-ip", "192.0.2.1", "--vtep-ip", "192.0.2.1"]


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Put the root logger back as it was."""
    root, quiet = logging.getLogger(), logging.getLogger("asyncio").level
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("asyncio").setLevel(quiet)


@pytest.fixture(autouse=True)
def no_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "tune_garbage_collector", lambda: None)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "netplugin mode is not set\n"),
        (["--mode", "kubernetes"], "netplugin network mode is not set\n"),
        (
            ["--mode", "kubernetes", "--netmode", "vlan", "--fwdmode", "bridge", *ADDRESSES],
            "vlan-uplinks must be set when using VLAN mode\n",
        ),
        (
            ["--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "bridge"],
            'invalid netplugin forwarding mode: "bridge" (network mode: "vxlan")\n',
        ),
        (
            ["--mode", "bad", "--netmode", "vxlan", "--fwdmode", "routing"],
            "unknown netplugin mode: bad\n",
        ),
        (["--log-level", "xx"], 'not a valid logrus Level: "xx"\n'),
    ],
)
def test_a_wrong_flag_ends_it_with_22(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.start(arguments, {}) == 22
    assert capsys.readouterr() == ("", text)


def test_an_unknown_flag_ends_it_with_22(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.start(["--bogus"], {}) == 22
    assert capsys.readouterr().err.startswith("Incorrect Usage. ")


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_what_is_only_asked_for_is_no_failure(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.start([argument], {}) == 0
    assert "netplugin" in capsys.readouterr().out


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.start(["--help"], {}) == 0
    said = capsys.readouterr().out
    assert "\ncommands:\n  netplugin preflight: " in said
    assert "\n  netplugin cleanup: " in said


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (None, 0),
        (HostError("no link"), 1),
        (UsageError("another forwarding mode"), 22),
        (OSError("address in use"), 1),
    ],
)
def test_how_the_agent_ends_is_the_exit_code(
    failure: Exception | None,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    started: list[Settings] = []

    async def run(settings: Settings, version: str) -> None:
        assert version
        started.append(settings)
        if failure is not None:
            raise failure

    monkeypatch.setattr(main, "run", run)
    assert main.start([*MODES, *ADDRESSES, "--host", "h9"], {}) == code
    assert started[0].host == "h9"
    said = capsys.readouterr().err
    assert (f"netplugin ended: {failure}" in said) is (failure is not None)
    assert "Traceback" not in said
