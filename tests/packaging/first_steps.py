"""docs/first-steps.md, command by command, on a demo that is left up.

Run by `make install-check`, with no other demo on the machine.
"""

import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Final

import pytest

from tests.bed.janitor import process_janitor
from tests.bed.waiting import eventually
from tests.packaging.console import check, shown
from tests.packaging.kinds import ROOT

DOCUMENT: Final = ROOT / "docs" / "first-steps.md"
PORT: Final = 19999
"""Where the test has the user interface; the demo's own choice may be taken on this machine."""


@pytest.fixture
def demo() -> Iterator[None]:
    """Have the demo up, as its reader has."""
    subprocess.run(["make", "demo", "KEEP=1"], cwd=ROOT, check=True)
    try:
        yield
    finally:
        subprocess.run(["make", "demo-down"], cwd=ROOT, check=True)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("demo")
def test_every_command_succeeds_and_prints_what_is_shown() -> None:
    assert len(shown(DOCUMENT)) > 15
    # a group of its own; SIGINT is ignored by what the background of a script has started
    serving = subprocess.Popen(
        ["bash", "-c", f". .run/demo.sh && ui {PORT}"], cwd=ROOT, start_new_session=True
    )
    process_janitor().watch_pid(serving.pid)
    try:
        page = eventually(lambda: _page(PORT), "the user interface")
        assert b"<!DOCTYPE html>" in page
    finally:
        os.killpg(serving.pid, signal.SIGTERM)
        serving.wait()
    check(DOCUMENT, place=ROOT)


def _page(port: int) -> bytes:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ui/") as answer:
            found: bytes = answer.read()
            return found
    except OSError:
        return b""
