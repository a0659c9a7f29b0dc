"""`tests.bed.netns`: ports for daemons of several processes of tests at a time."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

from tests.bed.netns import _own_ports

FOUND = """
from itertools import islice
from tests.bed.netns import _own_ports
print(*islice(_own_ports(), 1000))
"""


def test_two_processes_of_tests_find_different_ports() -> None:
    """Both would find the same one free before a daemon of either listens."""
    mine = set(islice(_own_ports(), 1000))
    done = subprocess.run(
        [sys.executable, "-c", FOUND],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    theirs = {int(port) for port in done.stdout.split()}
    assert len(mine) == len(theirs) == 1000
    assert mine.isdisjoint(theirs)
