"""The program `netctl`: global flags, the commands, and the handling of failures.

Next is `netctl.commandline`, which parses the command line, then a module of `netctl.commands`.
Results go to stdout, errors to stderr in the original's form; `netctl.failure` has the exit codes.
"""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NoReturn

import click

from core.errors import MasterRefused, MasterUnavailable, outcome_is_unknown
from netctl.commandline import COMPLETION_VARIABLE, CommandGroup, switch
from netctl.commands.aci_gw import aci_gw
from netctl.commands.app_profile import app_profile
from netctl.commands.bgp import bgp
from netctl.commands.capture import capture
from netctl.commands.completion import completion
from netctl.commands.diag import diag
from netctl.commands.endpoint import endpoint
from netctl.commands.events import events
from netctl.commands.external_contracts import external_contracts
from netctl.commands.global_settings import global_settings
from netctl.commands.group import group
from netctl.commands.host import host
from netctl.commands.ipam import ipam
from netctl.commands.login import login
from netctl.commands.netprofile import netprofile
from netctl.commands.network import network
from netctl.commands.policy import policy
from netctl.commands.selftest import selftest
from netctl.commands.service import service
from netctl.commands.tenant import tenant
from netctl.commands.trace import trace
from netctl.commands.version import own_version, version
from netctl.connection import MasterConnection
from netctl.failure import (
    HELP,
    INTERRUPTED,
    REQUEST,
    UNKNOWN_HINT,
    USAGE,
    CommandFailed,
    error_line,
)


def _show_version(ctx: click.Context, _param: click.Parameter, value: object) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"netctl version \n{own_version()}")
        ctx.exit(0)


@click.command(cls=CommandGroup, help="A command line client for Contiv netplugin.")
@click.option(
    "--netmaster",
    envvar="NETMASTER",
    show_envvar=True,
    default="http://netmaster:9999",
    show_default=True,
    help="The URL of the netmaster",
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


cli.add(aci_gw)
cli.add(app_profile)
cli.add(bgp)
cli.add(capture)
cli.add(completion)
cli.add(diag)
cli.add(endpoint, "ep")
cli.add(events)
cli.add(external_contracts)
cli.add(global_settings)
cli.add(group)
cli.add(host)
cli.add(ipam)
cli.add(login)
cli.add(netprofile)
cli.add(network, "net")
cli.add(policy)
cli.add(selftest)
cli.add(service)
cli.add(tenant)
cli.add(trace)
cli.add(version)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (this process's own by default) and exit."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


_NEW_COMMANDS: Final = frozenset(
    {"capture", "completion", "diag", "events", "host", "ipam", "selftest"}
)


def run(argv: Sequence[str]) -> int:
    """Run a command line and return the exit code."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from netctl.completion import respond  # noqa: PLC0415 - for completion requests only

        return respond(cli, instruction)
    try:
        ended = cli.main(list(argv), prog_name="netctl", standalone_mode=False)
    except click.UsageError as exc:
        shown = exc.ctx or click.Context(cli, info_name="netctl")
        click.echo(f"Incorrect Usage.\n\n{exc.format_message()}\n\n{shown.get_help()}")
        return HELP if _is_new(shown) else USAGE
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
    except click.Abort:
        return INTERRUPTED
    return ended if isinstance(ended, int) else 0


def _is_new(context: click.Context) -> bool:
    """Return whether the original has no such command, so no script relies on its exit code."""
    chain: click.Context | None = context
    while chain is not None:
        if chain.info_name in _NEW_COMMANDS:
            return True
        chain = chain.parent
    return False


def _print_error(message: str) -> None:
    terminal = sys.stderr.isatty()
    line = error_line(message, now=datetime.now(UTC).astimezone(), terminal=terminal)
    click.echo(line, err=True, nl=False)
