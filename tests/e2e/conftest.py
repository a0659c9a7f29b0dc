"""The cluster of a run: made once, used by all cases, removed at the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import RealCluster, missing


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    if fault := missing():
        pytest.exit(fault, returncode=2)
    cluster = RealCluster(Path(tmp_path_factory.mktemp("e2e")))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
