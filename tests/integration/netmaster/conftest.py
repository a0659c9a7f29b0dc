"""A running master, for the tests of a module to share."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bed.etcd import Etcd
from tests.bed.master import Master


@dataclass(frozen=True)
class Running:
    """A leading master and its store."""

    etcd: Etcd
    master: Master


@pytest.fixture(scope="module")
def running(bed_dirs: Iterator[Path], etcd_session: Etcd) -> Iterator[Running]:
    """Run a master on an etcd of its own; tests use names of their own."""
    directory = next(bed_dirs)
    directory.mkdir()
    master = Master(directory, etcd_session.url)
    master.start()
    try:
        yield Running(etcd_session, master)
        assert "internal error" not in master.log_text()
        assert "Traceback" not in master.log_text()
    finally:
        master.kill()
