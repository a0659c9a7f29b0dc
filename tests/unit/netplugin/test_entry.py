"""The console script: no collections while it loads, until the agent wants them."""

import gc
from collections.abc import Iterator

import pytest

from netplugin import entry, main


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    yield
    gc.enable()


def test_nothing_is_collected_while_the_agent_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(main, "main", lambda: seen.append(gc.isenabled()))
    entry.main()
    assert seen == [False]
