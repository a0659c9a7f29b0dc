"""Flags of both generations; docs/flags.md lists every one of them as it is declared."""

import logging
import logging.handlers
from pathlib import Path

import pytest

from core.errors import UsageError
from daemons import flags
from daemons.flags import Flag, Generation, Values
from netmaster import settings as netmaster
from netplugin import settings as netplugin

DOCUMENT = Path(__file__).parents[3] / "docs" / "flags.md"
DAEMONS = {"netmaster": netmaster.FLAGS, "netplugin": netplugin.FLAGS}
OLDER = "--cluster-store=etcd://10.0.0.1:2379"


def values(*arguments: str, daemon: str = "netplugin", **environ: str) -> Values:
    """Return what a command line says."""
    read = flags.read(daemon, DAEMONS[daemon], arguments, environ, "1")
    assert read is not None
    return read


def row(daemon: str, flag: Flag) -> str:
    """Return a flag's line of the document."""
    names = ", ".join(f"`--{name}`" for name in flag.names)
    variable = f"`CONTIV_{daemon.upper()}_{flag.env}`"
    default = "false" if flag.switch else f"`{flag.default}`" if flag.default else ""
    text = flag.help.replace("|", "\\|")
    return f"| {names} | {variable} | {default} | {flag.generation} | {text} |"


@pytest.mark.parametrize("daemon", DAEMONS)
def test_the_document_lists_every_flag_and_no_other(daemon: str) -> None:
    section = DOCUMENT.read_text().partition(f"## {daemon}\n")[2].partition("\n## ")[0]
    listed = [line for line in section.splitlines() if line.startswith("| `--")]
    assert listed == [row(daemon, flag) for flag in DAEMONS[daemon]]


@pytest.mark.parametrize("daemon", DAEMONS)
def test_names_and_variables_are_unique(daemon: str) -> None:
    names = [name for flag in DAEMONS[daemon] for name in flag.names]
    variables = [flag.env for flag in DAEMONS[daemon]]
    assert len(names) == len(set(names))
    assert len(variables) == len(set(variables))


@pytest.mark.parametrize(
    ("daemon", "older"),
    [
        (
            "netmaster",
            "debug plugin-name cluster-store control-url listen-url cluster-mode dns-enable",
        ),
        (
            "netplugin",
            (
                "debug syslog json-log host-label plugin-mode config vtep-ip ctrl-ip vlan-if "
                "cluster-store"
            ),
        ),
    ],
)
def test_every_flag_of_the_older_generation_is_accepted(daemon: str, older: str) -> None:
    known = {name: flag for flag in DAEMONS[daemon] for name in flag.names}
    for name in older.split():
        assert known[name].generation in {Generation.OLDER, Generation.BOTH}, name


def test_one_dash_and_two_are_the_same() -> None:
    assert values("-host-label", "h")["host"] == values("--host=h")["host"] == "h"


def test_a_repeatable_flag_joins_what_it_is_given() -> None:
    read = values("-vlan-if", "eth1", "--vlan-if=eth2,eth3", CONTIV_NETPLUGIN_VLAN_UPLINKS="eth9")
    assert read["vlan-uplinks"] == "eth1,eth2,eth3"
    assert values(CONTIV_NETPLUGIN_VLAN_UPLINKS="eth9")["vlan-uplinks"] == "eth9"


def test_the_older_profile_needs_no_modes() -> None:
    modes = flags.network_options(values(OLDER))
    assert (modes.mode, modes.net_mode, modes.fwd_mode) == ("docker", "", "")


def test_in_the_older_profile_modes_that_are_given_count() -> None:
    modes = flags.network_options(
        values(OLDER, "-plugin-mode", "kubernetes", "--netmode", "vlan", "--fwdmode", "bridge")
    )
    assert (modes.mode, modes.net_mode, modes.fwd_mode) == ("kubernetes", "vlan", "bridge")
    for flag in ("--mode", "--netmode", "--fwdmode"):
        with pytest.raises(UsageError, match="unknown netplugin"):
            flags.network_options(values(OLDER, flag, "x"))


def test_debug_is_a_log_level(root_logger: logging.Logger) -> None:
    flags.set_up_logs(values("-debug"))
    assert root_logger.level == logging.DEBUG


def test_a_dead_flag_is_named(
    root_logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    flags.set_up_logs(values("-dns-enable", daemon="netmaster"))
    assert root_logger.level == logging.INFO
    assert 'msg="flag has no effect any more" flag=dns-enable' in capsys.readouterr().err
    flags.set_up_logs(values(daemon="netmaster"))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "arguments",
    [
        (OLDER, "-syslog", "udp://127.0.0.1:1514"),
        (OLDER, "-syslog", "kernel", "--syslog-url=udp://127.0.0.1:1514"),
        ("--syslog", "--syslog-url", "udp://127.0.0.1:1514"),
    ],
)
def test_syslog_is_a_switch_or_an_address(
    root_logger: logging.Logger, arguments: tuple[str, ...]
) -> None:
    flags.set_up_logs(values(*arguments))
    handler = root_logger.handlers[0]
    assert isinstance(handler, logging.handlers.SysLogHandler)
    assert handler.address == ("127.0.0.1", 1514)
    handler.close()


def test_without_the_older_profile_syslog_takes_no_address() -> None:
    with pytest.raises(UsageError, match="invalid boolean value"):
        flags.set_up_logs(values("-syslog", "udp://127.0.0.1:1514"))
