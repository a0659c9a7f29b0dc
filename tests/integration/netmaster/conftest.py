"""A running master, for the tests of a module to share."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bed.etcd import Etcd
from tests.bed.master import Master
from tests.bed.store import Store


@dataclass(frozen=True)
class Running:
    """A leading master and its store."""

    store: Store
    master: Master


@pytest.fixture(scope="module")
def running(bed_dirs: Iterator[Path], store_session: Store) -> Iterator[Running]:
    """Run a master on a store of its own; tests use names of their own."""
    directory = next(bed_dirs)
    directory.mkdir()
    master = Master(directory, store_session)
    master.start()
    try:
        yield Running(store_session, master)
        assert "internal error" not in master.log_text()
        assert "Traceback" not in master.log_text()
    finally:
        master.kill()


@pytest.fixture
def etcd(bed_dirs: Iterator[Path]) -> Iterator[Etcd]:
    """Run an empty etcd, whatever the other tests run on."""
    directory = next(bed_dirs)
    directory.mkdir()
    etcd = Etcd(directory)
    etcd.start()
    yield etcd
    etcd.kill()
