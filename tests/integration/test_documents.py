"""The site of the documents builds, and loads nothing from outside."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]


class Loaded(HTMLParser):
    """What a page of the site loads when it is viewed, and its titles."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.titles = 0
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.titles += tag == "h1"
        named = dict(attrs)
        address = named.get("href") if tag == "link" else named.get("src")
        if address:
            self.addresses.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; fails for a link or an anchor that leads nowhere, or a page left out."""
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return directory


def test_pages_of_the_site_load_nothing_from_outside(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) >= len(list((ROOT / "docs").rglob("*.md")))
    for page in pages:
        for address in Loaded(page).addresses:
            assert not re.match(r"\w+:|//", address), (page, address)
            # the page of what is not found names the root of a server
            assert address.startswith("/") or (page.parent / address.partition("?")[0]).exists()
    for style in site.rglob("*.css"):
        addresses = re.findall(r"url\([\"']?([^)\"']+)", style.read_text())
        assert [one for one in addresses if re.match(r"(?!data:)\w+:|//", one)] == []


def test_every_page_of_the_site_has_one_title(site: Path) -> None:
    # two are a block of code that lacks its end
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]
    assert {str(page): found for page in pages if (found := Loaded(page).titles) != 1} == {}
