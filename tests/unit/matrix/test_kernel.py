"""What came of a portion in a virtual machine, by what it printed and reported."""

from pathlib import Path

import pytest

from tests.matrix.kernel import DEFAULT, PORTIONS, RELEASES, judged
from tests.matrix.table import CUT, KERNEL, Result, read

ROOT = Path(__file__).parents[3]
SAID = """\
Booting from ROM..\x1bc\x1b[?7l\x1b[2Jkernel 6.1.0-56-amd64, ovs-vswitchd (Open vSwitch) 3.1.0
tests/system/kernel.py::test_one PASSED                                   [ 25%]
tests/system/test_bgp.py::test_two[an id] FAILED                          [ 50%]
tests/system/test_bgp.py::test_three SKIPPED (for a reason)               [ 75%]
tests/system/test_bgp.py::test_four """
REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.system.kernel"/>
<testcase classname="tests.system.kernel"><skipped/></testcase>
<testcase classname="tests.system.test_bgp"><failure/><error/></testcase>
<testcase classname="tests.system.test_bgp"><error/></testcase>
<testcase classname="tests.system.test_bgp"/>
</testsuite></testsuites>"""
WHAT = "kernel 6.1.0-56-amd64, Open vSwitch 3.1.0"
WANTED = {"tests/system/kernel.py": 1, "tests/system/test_bgp.py": 3}
GONE = "did not come to its end"


def test_a_guest_that_came_to_its_end_is_judged_by_its_report(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    said = f"{SAID}\nkernel-check ended with 1\n"
    found = {"hosts": Result(1, 0), "bgp": Result(1, 2), "mtu": Result(0, 0)}
    assert judged(said, report, ["hosts", "bgp", "mtu"], WANTED) == (found, WHAT)


@pytest.mark.parametrize(("status", "why"), [("", GONE), ("3", GONE), ("2", CUT)])
def test_what_was_not_begun_is_left_out(tmp_path: Path, status: str, why: str) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    said = f"{SAID}\nkernel-check ended with {status}\n"
    found = {"hosts": Result(1, 0), "bgp": Result(1, 2, why)}
    assert judged(said, report, ["hosts", "bgp", "mtu"], WANTED) == (found, WHAT)


def test_any_portion_may_be_the_one_that_was_cut_off(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    said = f"{SAID}\nkernel-check ended with 2\n"
    found = {"hosts": Result(1, 0, CUT), "bgp": Result(1, 2)}
    wanted = {"tests/system/kernel.py": 2, "tests/system/test_bgp.py": 2}
    assert judged(said, report, ["hosts", "bgp", "mtu"], wanted) == (found, WHAT)


def test_without_a_report_what_was_printed_counts(tmp_path: Path) -> None:
    none = tmp_path / "none.xml"
    found = {"hosts": Result(1, 0), "bgp": Result(0, 1, GONE)}
    assert judged(SAID, none, ["hosts", "bgp", "mtu"], WANTED) == (found, WHAT)
    assert judged("", none, ["hosts", "bgp"], WANTED) == ({"hosts": Result(0, 0, GONE)}, "")


def test_portions_name_tests_that_are_there_and_the_page_has_a_table() -> None:
    assert {*DEFAULT} <= PORTIONS.keys()
    files = [word.partition("::")[0] for portion in PORTIONS.values() for word in portion]
    assert [file for file in files if not (ROOT / file).exists()] == []
    page = (ROOT / "docs/platforms.md").read_text()
    assert KERNEL in page
    assert {release for _, release in read(page, KERNEL)} <= {*RELEASES.values()}
