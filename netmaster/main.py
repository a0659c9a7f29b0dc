"""The netmaster command: flags and environment in, an exit code out. Next: `netmaster.daemon`."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Final

import uvloop

from core.errors import ContivError
from daemons import flags
from daemons.collector import tune_garbage_collector
from daemons.host_address import default_host_address
from daemons.open_files import raise_open_files_limit
from netmaster import settings
from netmaster.commands import dispatch
from netmaster.daemon import run

log = logging.getLogger(__name__)

VERSION: Final = version("contiv")


def start(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run netmaster until it is told to stop; return the exit code."""
    try:
        if dispatch.is_command(arguments):
            dispatch.run(arguments, environ)
            return 0
        values = flags.read(
            "netmaster", settings.FLAGS, arguments, environ, VERSION, commands=dispatch.HELP
        )
        if values is None:
            return 0
        flags.set_up_logs(values)
        resolved = settings.resolve(values, default_host_address)
    except (ContivError, OSError) as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code if isinstance(exc, ContivError) else 1
    tune_garbage_collector()
    raise_open_files_limit()
    try:
        uvloop.run(run(resolved, VERSION))
    except (ContivError, OSError) as exc:
        log.critical("netmaster ended: %s", exc)
        return exc.exit_code if isinstance(exc, ContivError) else 1
    return 0


def main() -> None:
    """Entry point of the console script."""
    sys.exit(start(sys.argv[1:], os.environ))
