"""`netctl diag`: one archive of what all masters and agents say of themselves, for a report."""

import os
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import click

from netctl.commandline import Command
from netctl.commands.flags import Decorator
from netctl.connection import MasterConnection
from netctl.failure import IO, CommandFailed

_to_file: Decorator = click.option(
    "-o", "--output", default="", help="File to write, - for standard output (default: by the time)"
)


@click.command(
    "diag",
    cls=Command,
    help="Collect a bundle (tar.gz) of the state of all masters and hosts, without secrets",
)
@_to_file
@click.pass_obj
def diag(master: MasterConnection, *, output: str) -> None:
    """Write the archive, and print the file's name."""
    parts = master.client().diagnosis()
    if output == "-":
        stream = sys.stdout.buffer
        for part in parts:
            stream.write(part)
        return
    path = Path(output or f"contiv-diagnosis-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz")
    try:
        _write(path, parts)
    except OSError as exc:
        raise CommandFailed(f"cannot write {path}: {exc.strerror}", IO) from exc
    click.echo(str(path))


def _write(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file that only this user can read, all of it or nothing."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    opened = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(opened, "wb") as file:
            for part in parts:
                file.write(part)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
