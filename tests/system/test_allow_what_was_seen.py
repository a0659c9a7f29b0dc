"""docs/allow-what-was-seen.md, command by command, on the demo's cluster."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed.cluster import ROOT
from tests.bed.demo import Story, demo_bed, shell, show
from tests.packaging.console import check, shown

pytestmark = [pytest.mark.system, pytest.mark.ovs]

DOCUMENT = ROOT / "docs" / "allow-what-was-seen.md"


@pytest.fixture
def place(bed_dir: Path, tmp_path: Path) -> Iterator[Path]:
    """Return a folder with the demo's functions of bash, of a cluster that is up."""
    bed = demo_bed(bed_dir)
    try:
        show(bed, Story())
        (tmp_path / ".run").mkdir()
        (tmp_path / ".run" / "demo.sh").write_text(shell(bed))
        yield tmp_path
    finally:
        bed.stop()


def test_every_command_prints_what_is_shown(place: Path) -> None:
    assert len(shown(DOCUMENT)) > 10
    check(DOCUMENT, environ=dict(os.environ), place=place)
