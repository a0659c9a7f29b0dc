"""`netctl login`: obtains a token from the authenticating proxy with user name and password.

Both are read from standard input, the password without echo. The proxy's answer is saved unchanged;
`netctl.connection` reads the token from it.
"""

import sys
import termios
from http import HTTPStatus
from typing import TextIO

import click

from core.errors import MasterUnavailable
from netctl.commandline import Command
from netctl.connection import MasterConnection, save_login
from netctl.failure import IO, REQUEST, CommandFailed


@click.command(
    cls=Command,
    help="Log in at a netmaster with TLS, or at the proxy before it, and keep the token",
)
@click.pass_obj
def login(master: MasterConnection) -> None:
    """Ask for the credentials, log in and save the token."""
    if not master.is_private:
        click.echo("login requires a https auth_proxy URL")
        raise CommandFailed("", REQUEST, help_text=click.get_current_context().get_help())
    username, password = _credentials()
    try:
        status, answer = master.client().login(username, password)
    except MasterUnavailable as exc:
        raise CommandFailed(str(exc), IO) from exc
    if status == HTTPStatus.UNAUTHORIZED:
        click.echo("Login failed: Bad username or password.")
        raise CommandFailed("", REQUEST)
    if status != HTTPStatus.OK:
        click.echo(f"Login failed: unexpected response code ({status})\n")
        click.echo(answer, err=True, nl=False)
        raise CommandFailed("", REQUEST)
    click.echo("Login succeeded.")
    save_login(answer)


def _credentials() -> tuple[str, str]:
    if sys.stdin is None:
        raise CommandFailed("bad file descriptor", IO)
    click.echo("Username: ", nl=False)
    username = _line(sys.stdin).strip()
    if not username:
        raise CommandFailed("you must specify a username", REQUEST)
    click.echo("Password: ", nl=False)
    password = _line_without_echo(sys.stdin)
    click.echo()
    return username, password


def _line(stdin: TextIO) -> str:
    line = stdin.readline()
    if not line.endswith("\n"):
        raise CommandFailed("EOF", IO)
    return line.removesuffix("\n")


def _line_without_echo(terminal: TextIO) -> str:
    try:
        shown = termios.tcgetattr(terminal)
    except termios.error as exc:
        raise CommandFailed(str(exc.args[1]).lower(), IO) from exc
    hidden = [*shown]
    hidden[3] &= ~termios.ECHO
    try:  # the echo is switched off inside: an interrupt right after it must restore it
        termios.tcsetattr(terminal, termios.TCSADRAIN, hidden)
        return _line(terminal)
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, shown)
