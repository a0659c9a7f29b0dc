"""The cluster that attacks share, and what notes their figures."""

from collections.abc import Callable

import pytest

from tests.adversary.table import FIGURES
from tests.system.conftest import bed, flags, hosts, no_pods_left  # noqa: F401 - fixtures


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Note a figure of this attack for its row."""
    return lambda figure: record_property(FIGURES, figure)
