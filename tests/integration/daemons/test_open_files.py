"""The limit of open files is raised, in a process of its own."""

import subprocess
import sys

_PROGRAM = """
import resource
from daemons.open_files import raise_open_files_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
print(raise_open_files_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_becomes_the_hard_one() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["200", "200", "200"]
