"""Headless Chromium for tests: it talks to one address alone, and remembers what it asked and said.

In come a URL and, for a cluster in namespaces, the namespace to run in; out come pages.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    Page,
    Playwright,
    Route,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.bed.waiting import WITHIN, eventually

CHROMIUM: Final = Path("/usr/bin/chromium")
AXE: Final = Path(__file__).with_name("vendor") / "axe.min.js"
SIZE: Final = ViewportSize(width=1280, height=800)
BAD: Final = {"serious", "critical"}
_WAIT: Final = 1000 * WITHIN
"""The bed's limit in milliseconds, for all that is awaited: the condition is what is tested."""

expect.set_options(timeout=_WAIT)


@dataclass
class Shown:
    """A page of the user interface at `url`. `outside` are requests to other places."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)

    def go(self, view: str) -> None:
        """Show a view, as `hosts` or `trace?src=a`."""
        self.page.goto(f"{self.url}/ui/#/{view}")

    def await_text(self, text: str, selector: str = "main") -> None:
        """Wait until a text is shown."""
        self.page.locator(selector).get_by_text(text).first.wait_for()

    @contextmanager
    def held(self, path: str) -> Iterator[None]:
        """Keep what is asked at a path from netmaster during the body, and send it then."""
        asked: list[Route] = []

        def hold(route: Route) -> None:
            asked.append(route)

        self.page.route(f"**/api/v2/{path}*", hold)
        yield
        # the page tells of requests while it is asked something
        eventually(lambda: self.page.evaluate("1") and asked, f"{path} is asked")
        for one in asked:
            one.continue_()
        self.page.unroute(f"**/api/v2/{path}*")

    def faults(self) -> list[str]:
        """Return what axe-core finds that is serious or critical."""
        # evaluated by the debugger, which the page's policy does not bind
        self.page.evaluate(AXE.read_text() + "; undefined")
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']}: {json.dumps([node['html'] for node in one['nodes']][:3])}"
            for one in found["violations"]
            if one["impact"] in BAD
        ]

    def first_paint(self) -> float:
        """Return the seconds from navigation to the first contentful paint."""
        asked = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
        return float(eventually(lambda: self.page.evaluate(asked), "a first paint")) / 1000

    def took(self, change: Callable[[], object], seen: str) -> float:
        """Return the seconds from the begin of a change until an expression in the page is true."""
        began = time.monotonic()
        change()
        # asked from here: the page's policy forbids it to evaluate texts
        eventually(lambda: self.page.evaluate(seen), seen)
        return time.monotonic() - began


@contextmanager
def browser(*, launcher: Path = CHROMIUM, address: str = "127.0.0.1") -> Iterator[Browser]:
    """Run Chromium, which reaches this address alone."""
    with sync_playwright() as playwright:
        yield _launched(playwright, launcher, address)


def _launched(playwright: Playwright, launcher: Path, address: str) -> Browser:
    return playwright.chromium.launch(
        executable_path=launcher,
        args=[
            "--no-sandbox",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-proxy-server",
            f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {address}",
        ],
    )


@contextmanager
def opened(chromium: Browser, url: str, **more: Any) -> Iterator[Shown]:
    """Open a page with a storage of its own; at its end it must not have asked anybody else.

    `more` are settings of the browser's context, as `color_scheme`.
    """
    context = chromium.new_context(viewport=SIZE, ignore_https_errors=True, **more)
    try:
        context.set_default_timeout(_WAIT)
        page = context.new_page()
        shown = Shown(page, url)
        page.on("pageerror", lambda error: shown.complaints.append(str(error)))
        page.on("console", lambda line: _keep(shown, line.type, line.text))
        page.on("request", lambda request: _check(shown, request.url))
        yield shown
        assert shown.outside == []
        assert shown.complaints == []
    finally:
        context.close()


def _keep(shown: Shown, kind: str, text: str) -> None:
    # what netmaster refuses is told by the page
    if kind in {"error", "warning"} and "Failed to load resource" not in text:
        shown.complaints.append(text)


def _check(shown: Shown, url: str) -> None:
    wanted, found = urlsplit(shown.url), urlsplit(url)
    if found.scheme != "data" and (wanted.scheme, wanted.netloc) != (found.scheme, found.netloc):
        shown.outside.append(url)
