"""`netctl version`: the versions of this program and of the server."""

from collections.abc import Mapping
from typing import Any

import click

from core.errors import MasterRefused, MasterUnavailable
from core.version import BUILD_TIME, GIT_COMMIT, VERSION
from netctl.commandline import Command
from netctl.connection import MasterConnection
from netctl.failure import VERSION as VERSION_FAILED
from netctl.failure import CommandFailed


def own_version() -> str:
    """Return this build's version in three lines."""
    return _lines({"Version": VERSION, "GitCommit": GIT_COMMIT, "BuildTime": BUILD_TIME})


@click.command(cls=Command, help="Version Information")
@click.pass_obj
def version(master: MasterConnection) -> None:
    """Print both versions; the server's is read first, so that a failure prints neither."""
    try:
        server = master.anonymous_client().version()
    except (MasterRefused, MasterUnavailable) as exc:
        raise CommandFailed(str(exc), VERSION_FAILED) from exc
    click.echo(f"Client Version:\n{own_version()}\nServer Version:\n{_lines(server)}", nl=False)


def _lines(info: Mapping[str, Any]) -> str:
    names = ("Version", "GitCommit", "BuildTime")
    return "".join(f"{name}: {info.get(name, '')}\n" for name in names)
