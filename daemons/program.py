"""The program of a daemon: command line and environment in, an exit code out.

In comes a `Program`: the daemon's flags, its settings, its commands and what serves. One that ends
by an error says why, as a sentence on standard error before the logs are set up, as a log event
afterwards. Next: `netmaster.daemon`, `netplugin.startup.daemon`, and the commands of both.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from core.errors import ContivError
from core.logs import JOURNAL_STREAM, error_mark
from core.retry import Loop, retry
from core.version import VERSION
from daemons import flags, traces
from daemons.collector import tune_garbage_collector
from daemons.flags import Flag, Values
from daemons.host_address import default_host_address
from daemons.memory import use_one_arena
from daemons.open_files import raise_open_files_limit

log = logging.getLogger(__name__)

Command = Callable[[Sequence[str], Mapping[str, str]], None]
"""Gets the words after its name, and the environment. Raises ContivError or OSError."""

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(Generic[S]):
    """A daemon. `resolve` makes its settings of flags and of what returns the host's address.

    `serve` runs it until it is told to end. `ended` is the log event of an end by an error, with
    the error as its argument. `help` has a line for each command that the help lists.
    """

    name: str
    flags: Sequence[Flag]
    commands: Mapping[str, Command]
    help: Mapping[str, str]
    resolve: Callable[[Values, Callable[[], str]], S]
    serve: Callable[[S], None]
    ended: str

    def start(self, arguments: Sequence[str], environ: Mapping[str, str]) -> int:
        """Run a command, or the daemon until it is told to end; return the exit code."""
        try:
            command = self.commands.get(arguments[0]) if arguments else None
            if command is not None:
                command(arguments[1:], environ)
                return 0
            values = flags.read(
                self.name, self.flags, arguments, environ, VERSION, commands=self.help
            )
            if values is None:  # only help or version was asked for
                return 0
            flags.set_up_logs(values, environ)
            settings = self.resolve(values, default_host_address)
            collector = traces.checked(values["trace-endpoint"])
        except (ContivError, OSError) as exc:
            mark = error_mark(sys.stderr, environ.get(JOURNAL_STREAM, ""))
            sys.stderr.write(f"{mark}{exc}\n")
            return _exit_code(exc)
        use_one_arena()
        tune_garbage_collector()
        raise_open_files_limit()
        try:
            with traces.exported(self.name, collector):
                self.serve(settings)
        except (ContivError, OSError) as exc:
            log.critical(self.ended, exc)
            return _exit_code(exc)
        return 0


def _exit_code(exc: ContivError | OSError) -> int:
    return exc.exit_code if isinstance(exc, ContivError) else 1


async def load_ahead(*loads: Callable[[], None]) -> None:
    """Import what a daemon that is ready will need, one after the other.

    A machine that cannot open a file at the moment, or a daemon that has as many as it may, does so
    later: neither is a reason to end.
    """
    loop = Loop(log, "modules not loaded", errors=(OSError, ImportError))
    for load in loads:
        await retry(loop, partial(asyncio.to_thread, load))
