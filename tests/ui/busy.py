"""Flows of a busy cluster on the screen: 10 hosts, 10 000 endpoints, 1 000 connections a second.

Run by `make ui-check`. It prints how long netmaster takes to answer and the page to draw: figures,
no verdicts, for the machine may be busy with more. That nothing grows is a verdict.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from tests.bed.master import Master
from tests.bed.store import STORES, store_url
from tests.bed.waiting import eventually
from tests.ui.browser import opened
from tests.ui.recording import BEFORE, HOSTS

pytestmark = [pytest.mark.store, pytest.mark.timeout(900)]

RATE: Final = 1_000
QUESTIONS: Final = (
    "limit=100",
    "limit=100&fromGroup=web&toGroup=shop",
    "limit=100&verdict=dropped",
    "limit=100&to=10.1.4.0/24",
    f"limit=100&toLabels={quote('app=db')}",
)
ASKED: Final = 40
"""How often each is asked."""
WATCHED: Final = 20.0
"""Seconds of drawing that are measured, and so often what the page holds."""
LOOKS: Final = 5
BETWEEN: Final = 300
"""Milliseconds between two looks at what a page holds."""
FRAMES: Final = """seconds => new Promise((resolve) => {
  const frames = [];
  let last = performance.now();
  const end = last + 1000 * seconds;
  function next(now) {
    frames.push(now - last);
    last = now;
    if (now < end) requestAnimationFrame(next); else resolve(frames);
  }
  requestAnimationFrame(next);
})"""


@pytest.fixture(scope="module")
def master(bed_dirs: Iterator[Path]) -> Iterator[Master]:
    """Run netmaster beside ten hosts that record."""
    directory = next(bed_dirs)
    directory.mkdir()
    store = STORES["etcd"](directory)
    store.start()
    found = Master(directory, store)
    words = [sys.executable, "-m", "tests.ui.recording", store_url(store), str(RATE)]
    try:
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as recording:
            try:
                assert recording.stdout is not None
                assert recording.stdout.readline() == "ready\n"
                found.start()
                eventually(lambda: len(asked(found, "limit=100")) == 100, "all hosts are asked")
                yield found
                assert "Traceback" not in found.log_text()
                assert recording.poll() is None
            finally:
                found.kill()
                recording.kill()
    finally:
        store.kill()


def asked(master: Master, query: str) -> list[dict[str, Any]]:
    """Return the flows that netmaster finds, of all hosts."""
    answer = master.ask("GET", f"/api/v2/flows?{query}")
    assert answer.status == 200, answer.text
    found: Any = answer.json()
    assert found["unreachable"] == {}
    items: list[dict[str, Any]] = found["items"]
    return items


def tell(what: str, milliseconds: list[float], target: float) -> None:
    """Print a figure."""
    cuts = statistics.quantiles(milliseconds, n=100)
    said = "" if cuts[98] <= target else f", over the target of {target:g} ms"
    print(  # noqa: T201 - the result
        f"{what}: median {cuts[49]:.0f} ms, p99 {cuts[98]:.0f} ms, "
        f"worst {max(milliseconds):.0f} ms{said}"
    )


def test_questions_are_answered_beside_a_thousand_flows_a_second(master: Master) -> None:
    for query in QUESTIONS:
        took = []
        for _ in range(ASKED):
            began = time.monotonic()
            assert asked(master, query)
            took.append(1000 * (time.monotonic() - began))
        tell(f"flows?{query}", took, 300.0)


@pytest.mark.parametrize("view", ["flows", "map"])
def test_a_view_draws_on_beside_a_thousand_flows_a_second(
    chromium: Browser, master: Master, view: str, picture: Any
) -> None:
    text = "2,000 newest flows" if view == "flows" else "5,000 newest flows"
    with opened(chromium, master.url) as shown:
        shown.go(view)
        expect(shown.page.locator(".summary")).to_contain_text(text)
        frames = shown.page.evaluate(FRAMES, WATCHED)
        tell(f"frames of {view}", frames[1:], 50.0)
        first = held(shown.page)
        shown.page.evaluate(FRAMES, WATCHED)
        assert held(shown.page) <= first * 1.5, "the page grows"
        if view == "flows":
            fresh = shown.page.locator("[aria-rowindex='2'] button").inner_text()
            expect(shown.page.locator("[aria-rowindex='2'] button")).not_to_have_text(fresh)
        else:
            assert shown.page.locator("svg.flowmap .edge").count() >= HOSTS
            assert shown.page.locator("svg.flowmap .lost").count() >= 1
        assert shown.faults() == []
        picture(shown, f"busy-{view}")
    assert BEFORE * RATE > 5_000  # what the map shows at most


def held(page: Any) -> int:
    """Return how many bytes the page's program holds: the least of some looks after a collection.

    An answer that is on its way counts, too, and may be as large as what the page keeps.
    """
    session = page.context.new_cdp_session(page)
    sizes = []
    for _ in range(LOOKS):
        session.send("HeapProfiler.collectGarbage")
        sizes.append(int(session.send("Runtime.getHeapUsage")["usedSize"]))
        page.wait_for_timeout(BETWEEN)
    session.detach()
    return min(sizes)
