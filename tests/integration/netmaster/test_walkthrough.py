"""docs/walkthrough.md, command by command, against a real master on a real store."""

import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bed.master import Master
from tests.bed.store import Store
from tests.bed.waiting import WITHIN

pytestmark = pytest.mark.store

DOCUMENT = Path(__file__).parents[3] / "docs" / "walkthrough.md"


class Shown(NamedTuple):
    """A command of the document and the answer below it."""

    command: str
    answer: str


def shown() -> list[Shown]:
    """Return what the document shows, in order."""
    found: list[Shown] = []
    for block in re.findall(r"```console\n(.*?)```", DOCUMENT.read_text(), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, answer = part.partition("\n")
            found.append(Shown(command, answer))
    return found


def answered(master: Master, command: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "MASTER": master.url},
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=True,
    )
    return done.stdout


def test_every_answer_is_as_shown(store: Store, bed_dir: Path) -> None:
    master = Master(bed_dir, store)
    master.start()
    try:
        document = shown()
        assert len(document) > 25
        for command, answer in document:
            assert answered(master, command) == answer, command
    finally:
        master.kill()
