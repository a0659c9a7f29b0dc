"""The netplugin command: flags and environment in, an exit code out. Next: `netplugin.daemon`."""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import uvloop

from core import daemon_flags
from core.collector import calm_collector
from core.errors import ContivError
from core.host_address import default_host_address
from core.version import VERSION
from netplugin import cleanup, preflight, settings
from netplugin.daemon import run

_COMMANDS: Final = {cleanup.NAME: cleanup.run, preflight.NAME: preflight.run}

log = logging.getLogger(__name__)


def start(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the agent until it is told to stop, or a command; return the exit code."""
    try:
        if arguments and arguments[0] in _COMMANDS:
            _COMMANDS[arguments[0]](arguments[1:], environ)
            return 0
        values = daemon_flags.read("netplugin", settings.FLAGS, arguments, environ, VERSION)
        if values is None:
            return 0
        daemon_flags.set_up_logs(values)
        resolved = settings.resolve(values, default_host_address)
    except (ContivError, OSError) as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code if isinstance(exc, ContivError) else 1
    calm_collector()
    try:
        uvloop.run(run(resolved, VERSION))
    except (ContivError, OSError) as exc:
        log.critical("netplugin ended: %s", exc)
        return exc.exit_code if isinstance(exc, ContivError) else 1
    return 0


def main() -> None:
    """Run the command of this process; `netplugin.entry` calls it."""
    sys.exit(start(sys.argv[1:], os.environ))
