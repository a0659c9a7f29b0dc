"""The netplugin command: its flags, commands and daemon, for `daemons.program`, which runs them.

Next: `netplugin.startup.daemon`, `netplugin.commands`.
"""

import os
import sys
from typing import Final

import uvloop

from core.version import VERSION
from daemons.program import Program
from netplugin import settings
from netplugin.commands import cleanup, cni_files, preflight
from netplugin.settings import AgentSettings
from netplugin.startup.daemon import run


def _serve(resolved: AgentSettings) -> None:
    uvloop.run(run(resolved, VERSION))


NETPLUGIN: Final = Program(
    name="netplugin",
    flags=settings.FLAGS,
    commands={cleanup.NAME: cleanup.run, preflight.NAME: preflight.run},
    help={
        preflight.NAME: "check whether this host can run an agent; takes the agent's flags",
        cleanup.NAME: "remove the agent's objects from this host; takes its flags and --dry-run",
        **cni_files.HELP,
    },
    resolve=settings.resolve,
    serve=_serve,
    ended="netplugin ended: %s",
)


def main() -> None:
    """Run the command of this process; `netplugin.entry` calls it."""
    sys.exit(NETPLUGIN.start(sys.argv[1:], os.environ))
