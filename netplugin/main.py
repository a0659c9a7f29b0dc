"""The netplugin command: flags and environment in, an exit code out.

Next: `netplugin.startup.daemon`.
"""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import uvloop

from core.errors import ContivError
from core.version import VERSION
from daemons import flags
from daemons.collector import tune_garbage_collector
from daemons.host_address import default_host_address
from daemons.open_files import raise_open_files_limit
from netplugin import settings
from netplugin.commands import cleanup, preflight
from netplugin.startup.daemon import run

_COMMANDS: Final = {cleanup.NAME: cleanup.run, preflight.NAME: preflight.run}
_HELP: Final = {
    preflight.NAME: "check whether this host can run an agent; takes the agent's flags",
    cleanup.NAME: "remove the agent's objects from this host; takes its flags and --dry-run",
}

log = logging.getLogger(__name__)


def start(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the agent until SIGTERM or SIGINT, or a command; return the exit code."""
    try:
        if arguments and arguments[0] in _COMMANDS:
            _COMMANDS[arguments[0]](arguments[1:], environ)
            return 0
        values = flags.read(
            "netplugin", settings.FLAGS, arguments, environ, VERSION, commands=_HELP
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
        log.critical("netplugin ended: %s", exc)
        return exc.exit_code if isinstance(exc, ContivError) else 1
    return 0


def main() -> None:
    """Run the command of this process; `netplugin.entry` calls it."""
    sys.exit(start(sys.argv[1:], os.environ))
