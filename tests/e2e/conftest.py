"""The cluster of a run: made once, used by all cases, removed at the end.

`CONTIV_TEST_FAMILY` says which families it has (`tests.e2e.programs.Family`), IPv4 by default.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import RealCluster, missing
from tests.e2e.programs import Family


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    if fault := missing():
        pytest.exit(fault, returncode=2)
    family = Family(os.environ.get("CONTIV_TEST_FAMILY") or Family.V4)
    cluster = RealCluster(Path(tmp_path_factory.mktemp("e2e")), family=family)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()
