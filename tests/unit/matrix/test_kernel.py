"""What came of a portion on the kernel's datapath, by what its guest printed and reported."""

from pathlib import Path

import pytest

from tests.matrix.kernel import RELEASES, judged
from tests.matrix.table import CUT, KERNEL, Result, read

ROOT = Path(__file__).parents[3]
SAID = """\
openvswitch: Open vSwitch switching datapath
kernel 6.1.176, ovs-vswitchd (Open vSwitch) 3.1.0
tests/system/test_bgp.py::test_one PASSED                                 [ 25%]
tests/system/test_bgp.py::test_two[an id] device vvport1 entered promiscuous mode
FAILED [ 50%]
tests/system/test_bgp.py::test_three SKIPPED (for a reason)               [ 75%]
tests/system/test_bgp.py::test_four """
REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.system.test_bgp" name="test_one"/>
<testcase classname="tests.system.test_bgp" name="test_two"><skipped/></testcase>
<testcase classname="tests.system.test_bgp" name="test_three"><failure/><error/></testcase>
<testcase classname="tests.system.test_bgp" name="test_four"><error/></testcase>
<testcase time="0.001"/>
</testsuite></testsuites>"""
WHAT = "kernel 6.1.176, Open vSwitch 3.1.0"
GONE = "did not come to its end"


def test_a_guest_that_came_to_its_end_is_judged_by_its_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    said = f"{SAID}PASSED [100%]\nkernel-check ended with 1\n"
    assert judged(said, report, 4) == (Result(1, 2), WHAT)


@pytest.mark.parametrize(("status", "why"), [("", GONE), ("3", GONE), ("2", CUT)])
def test_one_that_ran_fewer_tests_says_why(tmp_path: Path, status: str, why: str) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert judged(f"{SAID}\nkernel-check ended with {status}\n", report, 4)[0] == Result(1, 2, why)


def test_without_a_report_what_was_printed_counts(tmp_path: Path) -> None:
    none = tmp_path / "none.xml"
    assert judged(SAID, none, 4) == (Result(1, 1, GONE), WHAT)
    assert judged("", none, 4) == (Result(0, 0, GONE), "")


def test_the_page_has_a_table_of_these_releases() -> None:
    page = (ROOT / "docs/platforms.md").read_text()
    assert KERNEL in page
    assert {release for _, release in read(page, KERNEL)} <= {*RELEASES.values()}
