"""The table of platforms: new results replace earlier ones of the same part and release."""

from pathlib import Path

import pytest

from tests.matrix.releases import PARTS, RELEASES
from tests.matrix.table import (
    BEGIN,
    CUT,
    END,
    KERNEL,
    Result,
    counted,
    read,
    together,
    version_in,
    written,
)

ROOT = Path(__file__).parents[3]
PAGE = f"# Platforms\n\n{BEGIN}{END}\nMore.\n"


def test_results_come_into_the_page_and_stay() -> None:
    once = written(PAGE, {("demo", "Debian 13"): "1 passed, 0 failed"})
    twice = written(once, {("units", "Debian 13"): "7 passed, 1 failed"})
    again = written(twice, {("demo", "sid"): "0 passed, 1 failed"})
    assert read(again) == {
        ("demo", "Debian 13"): "1 passed, 0 failed",
        ("demo", "sid"): "0 passed, 1 failed",
        ("units", "Debian 13"): "7 passed, 1 failed",
        ("units", "sid"): "-",
    }
    assert again.startswith("# Platforms\n\n")
    assert again.endswith("\nMore.\n")
    assert written(again, {}) == again


def test_two_tables_of_a_page_do_not_touch_each_other() -> None:
    page = f"{PAGE}{KERNEL}{END}The end.\n"
    both = written(page, {("hosts", "Debian 12"): "2 passed, 0 failed"}, KERNEL)
    both = written(both, {("demo", "Debian 13"): "1 passed, 0 failed"})
    assert read(both, KERNEL) == {("hosts", "Debian 12"): "2 passed, 0 failed"}
    assert read(both) == {("demo", "Debian 13"): "1 passed, 0 failed"}
    assert both.endswith("The end.\n")


def test_a_report_is_counted() -> None:
    report = (
        '<testsuites><testsuite tests="10" failures="2" errors="1" skipped="3" name="pytest">'
        "</testsuite></testsuites>"
    )
    assert counted(report) == Result(passed=4, failed=3)
    cut_off = counted(report, "ended with status 2")
    assert str(cut_off) == "4 passed, 3 failed; ended with status 2"
    assert str(Result(4, 3)) == "4 passed, 3 failed"
    assert str(Result(0, 0, "ended with status 4")) == "0 passed, 0 failed; ended with status 4"


def test_results_of_several_reports_are_added() -> None:
    parts = [Result(4, 0), Result(6, 1, "ended with status 1")]
    assert together(parts, "make ended with 2") == Result(10, 1, "make ended with 2")
    # without any report nothing passed, which must not look like a success
    assert together([], "make ended with 2").bad


def test_a_lack_of_time_alone_is_no_failure() -> None:
    assert not Result(7, 0).bad
    assert not Result(3, 0, CUT).bad
    assert Result(7, 1).bad
    assert Result(3, 1, CUT).bad
    assert Result(0, 0, "ended with status 4").bad


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("Python 3.13.5\n", "3.13.5"),
        ("Docker version 26.1.5+dfsg1, build a72d7cd\n", "26.1.5"),
        ("iptables v1.8.11 (nf_tables)\n", "1.8.11"),
        ("bash: line 1: consul: command not found\n", "?"),
    ],
)
def test_the_version_of_a_program_is_read(said: str, version: str) -> None:
    assert version_in(said) == version


def test_parts_name_tests_that_are_there_and_the_page_has_a_table() -> None:
    words = [word for part in PARTS.values() for word in part.tests if not word.startswith("--")]
    assert [word for word in words if not (ROOT / word).exists()] == []
    assert {part for release in RELEASES.values() for part in release.parts} <= {*PARTS}
    releases = {release for _, release in read((ROOT / "docs/platforms.md").read_text())}
    assert releases <= {release.title for release in RELEASES.values()}
