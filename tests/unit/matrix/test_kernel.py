"""What came of a portion in a virtual machine, by what it printed and reported."""

from pathlib import Path

from tests.matrix.kernel import DEFAULT, PORTIONS, RELEASES, judged
from tests.matrix.table import KERNEL, Result, read

ROOT = Path(__file__).parents[3]
SAID = """\
Booting from ROM..\x1bc\x1b[?7l\x1b[2Jkernel 6.1.0-56-amd64, ovs-vswitchd (Open vSwitch) 3.1.0
tests/a.py::test_one PASSED                                   [ 33%]
tests/a.py::test_two FAILED                                   [ 66%]
tests/a.py::test_three """
WHAT = "kernel 6.1.0-56-amd64, Open vSwitch 3.1.0"


def test_a_guest_that_came_to_its_end_is_judged_by_its_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite tests="5" failures="1" skipped="1"/></testsuites>')
    said = f"{SAID}\nkernel-check ended with 1\n"
    assert judged(said, report) == (Result(3, 1), WHAT)


def test_without_a_report_what_was_printed_counts(tmp_path: Path) -> None:
    ended = Result(1, 1, "did not come to its end")
    assert judged(SAID, tmp_path / "none.xml") == (ended, WHAT)
    assert judged("", tmp_path / "none.xml") == (Result(0, 0, ended.ended), "")


def test_portions_name_tests_that_are_there_and_the_page_has_a_table() -> None:
    assert {*DEFAULT} <= PORTIONS.keys()
    words = [word for portion in PORTIONS.values() for word in portion]
    assert [word for word in words if not (ROOT / word).exists()] == []
    page = (ROOT / "docs/platforms.md").read_text()
    assert KERNEL in page
    assert {release for _, release in read(page, KERNEL)} <= {*RELEASES.values()}
