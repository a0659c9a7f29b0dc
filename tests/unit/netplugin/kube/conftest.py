"""Closes the caches that a test has opened, of which Python 3.13 and later warn otherwise."""

from collections.abc import Iterator

import pytest

from tests.unit.netplugin.kube.caches import closed


@pytest.fixture(autouse=True)
def _caches_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with closed(monkeypatch):
        yield
