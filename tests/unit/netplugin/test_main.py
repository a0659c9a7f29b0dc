"""The command: texts on stderr as recorded of the original, and exit codes.

How an agent ends is in `tests.unit.daemons.test_program`.
"""

import pytest

from netplugin.main import NETPLUGIN

pytestmark = pytest.mark.usefixtures("root_logger")

ADDRESSES = ["--ctrl-ip", "192.0.2.1", "--vtep-ip", "192.0.2.1"]


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
    assert NETPLUGIN.start(arguments, {}) == 22
    assert capsys.readouterr() == ("", text)


def test_an_unknown_flag_ends_it_with_22(capsys: pytest.CaptureFixture[str]) -> None:
    assert NETPLUGIN.start(["--bogus"], {}) == 22
    assert capsys.readouterr().err.startswith("Incorrect Usage. ")


@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_what_is_only_asked_for_is_no_failure(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert NETPLUGIN.start([argument], {}) == 0
    assert "netplugin" in capsys.readouterr().out


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """The finding of docs/notes/trust.md §18."""
    assert NETPLUGIN.start(["--help"], {}) == 0
    said = capsys.readouterr().out
    assert "\ncommands:\n  netplugin preflight: " in said
    assert "\n  netplugin cleanup: " in said
