"""The caches of Kubernetes' objects that a test opens, closed at its end."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netplugin.kube.cache import KubeCache


@contextmanager
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close all connections that caches open in the body; agents have theirs until they end."""
    opened: list[sqlite3.Connection] = []
    really = KubeCache._open

    def noted(cache: KubeCache) -> sqlite3.Connection:
        opened.append(really(cache))
        return opened[-1]

    monkeypatch.setattr(KubeCache, "_open", noted)
    try:
        yield
    finally:
        for one in opened:
            one.close()
