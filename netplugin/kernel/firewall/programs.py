"""Runs the programs that read and change the rules of the host's firewall.

In comes a command as a list, never a line for a shell; out comes what it says. What the agent runs
is noted, so that its own changes are told from others'
(`netplugin.kernel.firewall.firewall_watch`).
"""

import shlex
import subprocess
from collections.abc import Sequence
from typing import Final

from core.errors import HostError
from core.patience import patient
from netplugin.kernel.firewall.firewall_watch import note_own

LIMIT: Final = patient(20.0)
"""Time limit in seconds of one run."""


def run_program(command: Sequence[str], given: str = "") -> str:
    """Run a program that reads or changes rules; return what it says. Raises HostError."""
    try:
        with subprocess.Popen(  # noqa: S603 - a list of arguments that the agent builds
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
        ) as process:
            note_own(process.pid)
            try:
                said, complained = process.communicate(given, timeout=LIMIT)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise HostError(f"{command[0]}: {exc}") from exc
    if process.returncode:
        raise HostError(f"{shlex.join(command)}: {complained.strip()}")
    return said
