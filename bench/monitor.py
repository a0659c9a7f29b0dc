"""Watches flows appear in a switch, as the switch itself tells of them (`ovs-ofctl monitor`)."""

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bed.hosts import Host

LIMIT = 300
"""Seconds after which it ends, and whoever still waits with it."""


class Monitor:
    """The flows added to a bridge, in order."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def wait(self, pattern: str, count: int) -> float:
        """Return the monotonic time at which as many more flows that match had been added."""
        wanted = re.compile(pattern)
        for line in self._lines:
            count -= "event=ADDED" in line and wanted.search(line) is not None
            if count == 0:
                return time.monotonic()
        raise TimeoutError(f"no flow {pattern} within {LIMIT} s")


@contextmanager
def monitor(host: Host, bridge: str) -> Iterator[Monitor]:
    """Watch a bridge for the length of the body."""
    command = ["ovs-ofctl", "-O", "OpenFlow13", "monitor", bridge, "watch:!initial"]
    with subprocess.Popen(
        ["timeout", str(LIMIT), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=host.ovs.environment,
    ) as process:
        if process.stdout is None:
            raise RuntimeError("the monitor has no pipe")
        try:
            process.stdout.readline()  # the switch has taken the request
            yield Monitor(process.stdout)
        finally:
            process.kill()
