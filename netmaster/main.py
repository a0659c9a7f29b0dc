"""The netmaster command: its flags, commands and daemon, for `daemons.program`, which runs them.

Next: `netmaster.daemon`, `netmaster.commands`.
"""

import os
import sys
from typing import Final

import uvloop

from core.version import VERSION
from daemons.program import Program
from netmaster import settings
from netmaster.commands import dispatch
from netmaster.daemon import run
from netmaster.settings import MasterSettings


def _serve(resolved: MasterSettings) -> None:
    uvloop.run(run(resolved, VERSION))


NETMASTER: Final = Program(
    name="netmaster",
    flags=settings.FLAGS,
    commands=dispatch.COMMANDS,
    help=dispatch.HELP,
    resolve=settings.resolve,
    serve=_serve,
    ended="netmaster ended: %s",
)


def main() -> None:
    """Run the command of this process; `netmaster.entry` calls it."""
    sys.exit(NETMASTER.start(sys.argv[1:], os.environ))
