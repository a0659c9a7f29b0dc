"""Portions, as pytest finds their tests, which are there and how many; and how a run ends."""

import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path

from tests.matrix.kernel import PORTIONS, planned

ROOT = Path(__file__).parents[3]
ENDED = """
import os, signal, sys
from tests.matrix.kernel import run
signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
run(["bash", "-c", "sleep 600 & echo started; wait"], os.environ, sys.stdout)
"""


def test_what_is_run_is_counted() -> None:
    one, other = "tests/unit/matrix/test_table.py", "tests/unit/matrix/test_budget.py"
    assert planned([one, other]) == planned([one]) + planned([other]) > planned([one]) > 1


def test_portions_name_tests_that_are_there() -> None:
    words = list(chain.from_iterable(PORTIONS.values()))
    assert planned(words) >= len(words)  # a name that pytest does not find ends the collection


def test_what_a_command_started_ends_with_the_program() -> None:
    command = [sys.executable, "-c", ENDED]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        assert program.stdout.readline() == "started\n"
        program.send_signal(signal.SIGTERM)
        said, _ = program.communicate(timeout=60)  # until all that have the pipe are gone
    assert (said, program.returncode) == ("", 1)
