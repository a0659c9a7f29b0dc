"""A collector of IPFIX for tests: nfdump's nfcapd, and what it has understood."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bed.netns import Namespace
from tests.bed.waiting import eventually

COLUMNS = ("sa", "sp", "da", "dp", "pr", "pkt", "byt", "td")
"""What is read of a flow, by the names nfdump has for it in all versions; its CSV differs."""
_FORMAT = " ".join(f"%{name}" for name in COLUMNS)
_NO_FAULTS = re.compile(r"Sequence Errors: 0, Bad Packets: 0\b")
ROTATION = 2
"""Seconds for which nfcapd keeps flows to itself: its least."""


@dataclass(frozen=True)
class Collector:
    """A collector that runs, its folder and what it says."""

    folder: Path
    log: Path

    def flows(self) -> list[dict[str, str]]:
        """Return the flows of all files that are complete."""
        found: list[dict[str, str]] = []
        for file in sorted(self.folder.glob("nfcapd.2*")):
            command = ["nfdump", "-r", str(file), "-q", "-N", "-6", "-o", f"fmt:{_FORMAT}"]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            rows = (line.split() for line in text.splitlines())
            # a file without flows says so in words
            found += [
                dict(zip(COLUMNS, row, strict=True)) for row in rows if len(row) == len(COLUMNS)
            ]
        return found

    def faults(self) -> list[str]:
        """Return what it says of messages that are bad or missing."""
        return [
            line
            for line in self.log.read_text(errors="replace").splitlines()
            if "Flows:" in line and _NO_FAULTS.search(line) is None
        ]


@contextmanager
def collecting(folder: Path, address: str, port: int, namespace: Namespace) -> Iterator[Collector]:
    """Run nfcapd inside a namespace until the end."""
    folder.mkdir()
    log = folder / "log"
    command = ["nfcapd", "-w", str(folder), "-b", address, "-p", str(port), "-t", str(ROTATION)]
    process = namespace.popen(command, log=log)
    try:
        eventually(lambda: "Startup nfcapd" in log.read_text(), "the collector listens")
        yield Collector(folder, log)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
