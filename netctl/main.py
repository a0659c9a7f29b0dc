"""The program `netctl`: global flags, the commands, and the handling of failures.

Next is `netctl.commandline`, which parses the command line, then a module of `netctl.commands`.
Results go to stdout, errors to stderr in the original's form; `netctl.failure` has the exit codes.
"""

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NoReturn

import click

from core.errors import MasterRefused, MasterUnavailable, outcome_is_unknown
from netctl.commandline import (
    COMPLETION_VARIABLE,
    CommandGroup,
    LaterCommand,
    UnknownWord,
    switch,
)
from netctl.connection import MasterConnection
from netctl.failure import (
    INTERRUPTED,
    IO,
    REQUEST,
    SLIP,
    UNKNOWN_HINT,
    USAGE,
    CommandFailed,
    error_line,
)


def _show_version(ctx: click.Context, _param: click.Parameter, value: object) -> None:
    if value and not ctx.resilient_parsing:
        from netctl.commands.version import own_version  # noqa: PLC0415 - for this flag only

        click.echo(f"netctl version \n{own_version()}")
        ctx.exit(0)


@click.command(cls=CommandGroup, help="A command line client for Contiv netplugin.")
@click.option(
    "--netmaster",
    envvar="NETMASTER",
    show_envvar=True,
    default="http://netmaster:9999",
    show_default=True,
    help="The URL of the netmaster, or of several, separated by commas",
)
@switch(
    "--insecure",
    help_text="Do not check the server's certificate",
    envvar="INSECURE",
    show_envvar=True,
)
@click.option(
    "--tls-ca",
    envvar="NETCTL_TLS_CA",
    show_envvar=True,
    default="",
    help="File with the certificates of the cluster's authorities",
)
@click.option(
    "--tls-cert",
    envvar="NETCTL_TLS_CERT",
    show_envvar=True,
    default="",
    help="File with your certificate, instead of a login",
)
@click.option(
    "--tls-key",
    envvar="NETCTL_TLS_KEY",
    show_envvar=True,
    default="",
    help="File with the key of your certificate",
)
@click.option(
    "-v",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Print the version",
)
@click.pass_context
def cli(
    ctx: click.Context,
    netmaster: str,
    *,
    insecure: bool,
    tls_ca: str,
    tls_cert: str,
    tls_key: str,
) -> None:
    """Store the netmaster of the global flags for the command."""
    ctx.obj = MasterConnection(
        url=netmaster, insecure=insecure, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key
    )


_COMMANDS: Final = {
    "aci-gw": "ACI Gateway information",
    "app-profile": "Application Profile manipulation tools",
    "bgp": "router capability configuration",
    "capture": "Capture packets of an endpoint to standard output, in pcap format",
    "completion": "Print the script that completes netctl's words in bash, zsh or fish",
    "diag": "Collect a bundle (tar.gz) of the state of all masters and hosts, without secrets",
    "endpoint": "Endpoint Inspection",
    "events": "Show who changed what, the oldest first",
    "flows": "Show who talked to whom, and what was dropped",
    "external-contracts": "External contracts",
    "global": "Global information",
    "group": "Endpoint Group manipulation tools",
    "host": "Hosts of the cluster",
    "ipam": "Addresses of the cluster",
    "login": "Log in at a netmaster with TLS, or at the proxy before it, and keep the token",
    "netprofile": "Network profile manipulation tools",
    "network": "Network manipulation tools",
    "policy": "Policy manipulation tools",
    "selftest": (
        "Test all hosts: tunnels and their MTU, flows, services, names; exit 1 if anything fails"
    ),
    "service": "Services: an address for the endpoints that labels select",
    "tenant": "Tenant manipulation tools",
    "trace": "Say what would happen to a packet; without --live none is sent",
    "version": "Version Information",
    "wait": "Wait until hosts have realised a network, group, policy, rule or endpoint",
}
"""The commands and their help texts."""

_ALIASES: Final = {"endpoint": "ep", "network": "net"}

_ROOMS: Final = {
    **dict.fromkeys(("completion", "login", "version"), "netctl.commands"),
    **dict.fromkeys(("events", "host", "ipam", "wait"), "netctl.commands.cluster"),
    **dict.fromkeys(
        ("capture", "diag", "flows", "selftest", "trace"), "netctl.commands.diagnostics"
    ),
}
"""The packages of the commands that are not about objects."""

_MODULES: Final = {"global": "global_settings"}
"""The modules that are not named as their command: `global` is a word of Python."""

# A command line runs one command, so that one alone is imported: all of them take longer to import
# than most take to run.
for _name, _help in _COMMANDS.items():
    _module = _MODULES.get(_name, _name.replace("-", "_"))
    _room = _ROOMS.get(_name, "netctl.commands.objects")
    _later = LaterCommand(module=f"{_room}.{_module}", attribute=_module, summary=_help)
    cli.add_later(_name, _later, *filter(None, [_ALIASES.get(_name)]))


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (this process's own by default) and exit."""
    # A command is short and makes hardly any cycles: collecting them costs more than it frees.
    gc.disable()
    _leave(run(sys.argv[1:] if argv is None else argv))


_NEW_COMMANDS: Final = frozenset(
    {
        *("capture", "completion", "diag", "events", "flows", "host", "ipam", "selftest", "trace"),
        *("endpoint ls", "policy kube-rules", "policy kube-stats", "policy log"),
        *("policy suggest", "wait"),
    }
)
"""Commands that the original does not have, so that no script relies on their answers."""


def run(argv: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from netctl.completion import respond  # noqa: PLC0415 - for completion requests only

        return respond(cli, instruction)
    try:
        ended = cli.main(list(argv), prog_name="netctl", standalone_mode=False)
    except click.UsageError as exc:
        return _wrong_usage(exc)
    except CommandFailed as exc:
        if str(exc):
            _print_error(str(exc))
        if exc.help_text:
            click.echo(exc.help_text)
        return exc.exit_code
    except (MasterRefused, MasterUnavailable) as exc:
        _print_error(str(exc))
        if outcome_is_unknown(exc):
            click.echo(UNKNOWN_HINT, err=True)
        return REQUEST
    except (click.Abort, OSError) as exc:
        return _not_written(exc) if isinstance(exc, OSError) else INTERRUPTED
    return ended if isinstance(ended, int) else 0


def _leave(code: int) -> NoReturn:
    """Exit without taking the interpreter's modules and objects apart, as mypy does.

    That takes a tenth of a command's time, and nothing of netctl waits for it: files are closed
    where they are written, and no module registers a function for the exit.
    """
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError as exc:
        # since Python 3.13 what could not be written is tried, and would be told, once more
        code = IO if code == IO else _not_written(exc)
    os._exit(code)


def _not_written(exc: OSError) -> int:
    """Say that the output could not be written, unless its reader has gone; return the exit code.

    Commands turn the errors of files they know into CommandFailed.
    """
    if not isinstance(exc, BrokenPipeError):
        with suppress(OSError):
            _print_error(f"cannot write the output: {(exc.strerror or str(exc)).lower()}")
    return IO


def _wrong_usage(exc: click.UsageError) -> int:
    """Print what is wrong with the words; return the exit code.

    What resembles nothing is answered, in commands of the original, as there: on standard output
    and with 0.
    """
    at = exc.ctx or click.Context(cli, info_name="netctl")
    if _is_new(at) or (isinstance(exc, UnknownWord) and exc.guesses):
        _print_error(exc.format_message())
        click.echo(f"`{at.command_path} --help` lists what there is", err=True)
        return SLIP
    if isinstance(exc, UnknownWord) and exc.kind == "command":
        click.echo(f"No help topic for '{exc.word}'")
    else:
        click.echo(f"Incorrect Usage.\n\n{exc.format_message()}\n\n{at.get_help()}")
    return USAGE


def _is_new(context: click.Context) -> bool:
    words = context.command_path.split()[1:]
    return any(" ".join(words[:count]) in _NEW_COMMANDS for count in (1, 2))


def _print_error(message: str) -> None:
    terminal = sys.stderr.isatty()
    line = error_line(message, now=datetime.now(UTC).astimezone(), terminal=terminal)
    click.echo(line, err=True, nl=False)
