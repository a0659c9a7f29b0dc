"""A browser for the tests of a module, and where their figures and pictures go."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser

from tests.ui.browser import Shown, browser

PICTURES: Final = os.environ.get("UI_PICTURES", "")
"""The folder that pictures for the documents are written to; none by default."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Run Chromium, which reaches loopback alone."""
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def picture() -> Callable[[Shown, str], None]:
    """Keep a picture of a page, if pictures are wanted."""

    def keep(shown: Shown, name: str) -> None:
        if PICTURES:
            Path(PICTURES).mkdir(parents=True, exist_ok=True)
            shown.page.screenshot(path=Path(PICTURES) / f"{name}.png")

    return keep
