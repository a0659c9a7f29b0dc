"""`make kernel-check`: run portions of the tests on the kernel's datapath, and write the results.

    python -m tests.matrix.kernel [--releases NAME...] [--portions NAME...]

Each portion runs in a virtual machine of its own (scripts/kernel-check), with the kernel and the
Open vSwitch of a release: the one of this machine, or one that has a root (`tests.matrix.roots`).
The results go into the second table of docs/platforms.md, what was printed into
.run/kernel-check. Needs root, qemu, and the archive of Debian until a kernel is there.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.matrix import roots
from tests.matrix.box import Box
from tests.matrix.table import KERNEL, Result, counted, written

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "platforms.md"
LOGS: Final = ROOT / ".run" / "kernel-check"
OWN: Final = "own"
"""The release of this machine."""
RELEASES: Final[Mapping[str, str]] = {OWN: "Debian 12", "trixie": "Debian 13"}
DEFAULT: Final = ("flows", "hosts")
PORTIONS: Final[Mapping[str, Sequence[str]]] = {
    "flows": (
        "tests/integration/ofnet/test_datapath.py",
        "tests/integration/ofnet/test_packets.py",
        "tests/integration/ovsdb/test_own_ports.py",
    ),
    "hosts": ("tests/system/kernel.py",),
    "modes": ("tests/system/test_modes.py", "tests/system/test_truth_table.py"),
    "policies": ("tests/system/test_policy_table.py",),
    "services": ("tests/system/test_services.py", "tests/system/test_service_table.py"),
    "fragments": ("tests/system/test_fragments.py",),
    "guards": (
        "tests/system/test_forgery.py",
        "tests/system/test_pod_guard.py",
    ),
    "bandwidth": ("tests/system/test_bandwidth.py",),
    "mtu": ("tests/system/test_mtu.py", "tests/system/test_mtu_modes.py"),
    "trace": (
        "tests/system/test_trace.py",
        "tests/system/test_live_trace.py",
        "tests/system/test_diagnostics.py",
    ),
    "bgp": ("tests/system/test_bgp.py",),
    "restarts": ("tests/system/test_restarts.py", "tests/system/test_dataplane_restarts.py"),
    "firewalls": ("tests/system/test_real_firewalls.py",),
    "preflight": (
        "tests/system/test_preflight.py",
        "tests/system/test_cleanup.py",
        "tests/system/test_host_cleanup.py",
    ),
}
"""What pytest is told for each. Those of `DEFAULT` run unless others are named."""
# behind what the firmware tells the terminal, in the same line
_WHAT: Final = re.compile(r"kernel (\S+), ovs-vswitchd \(Open vSwitch\) (\S+)")
_STATUS: Final = re.compile(r"^kernel-check ended with (\d+)", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments name; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix.kernel")
    parser.add_argument("--releases", nargs="+", choices=RELEASES, default=[OWN])
    parser.add_argument("--portions", nargs="+", choices=PORTIONS, default=list(DEFAULT))
    options = parser.parse_args(arguments)
    LOGS.mkdir(parents=True, exist_ok=True)
    failed = 0
    for release in options.releases:
        title = RELEASES[release]
        with files(release) as place:
            for portion in options.portions:
                result, what = tried(release, portion, place)
                cell = f"{result} ({commit()}, {datetime.now(UTC):%Y-%m-%d})"
                sys.stdout.write(f"{title}: {portion}: {cell}\n")
                sys.stdout.flush()
                cells = {(portion, title): cell} | ({("what it has", title): what} if what else {})
                PAGE.write_text(written(PAGE.read_text(), cells, KERNEL))
                failed += result.bad
    return int(failed > 0)


@contextmanager
def files(release: str) -> Iterator[dict[str, str]]:
    """Have the files of a release for the body, which are made; yield what says where they are."""
    if release == OWN:
        yield {}
        return
    with roots.alone(release):
        root = roots.made(release)
        roots.prepare(root, ROOT)
        box = Box(root)
        box.start()
        setup = f"cd /{roots.TREE} && make setup"
        try:
            with (LOGS / f"{release}-setup.log").open("w") as log:
                box.run(setup, online=True, output=log).check_returncode()
        finally:
            box.stop()
        yield {"KERNEL_CHECK_ROOT": str(root), "KERNEL_CHECK_TREE": f"/{roots.TREE}"}


def tried(release: str, portion: str, place: Mapping[str, str]) -> tuple[Result, str]:
    """Run a portion; return what came of it, and kernel and Open vSwitch as the guest told them."""
    name = re.sub(r"\W+", "-", portion)
    log = LOGS / f"{release}-{name}.log"
    report = LOGS / f"{release}-{name}.xml"
    report.unlink(missing_ok=True)
    environ = {**os.environ, **place, "KERNEL_CHECK_REPORT": str(report)}
    with log.open("w") as output:
        words = [str(ROOT / "scripts/kernel-check"), *PORTIONS[portion]]
        subprocess.run(words, env=environ, stdout=output, stderr=subprocess.STDOUT, check=False)
    return judged(log.read_text(errors="replace"), report)


def judged(said: str, report: Path) -> tuple[Result, str]:
    """Return the result of a guest that said this, and what it has."""
    ended = _STATUS.search(said)
    why = "" if ended and ended[1] in "01" else "did not come to its end"
    found = _WHAT.search(said)
    what = f"kernel {found[1]}, Open vSwitch {found[2]}" if found else ""
    if report.exists():
        return counted(report.read_text(), why), what
    # without a report, for time was over: what was printed of each test
    passed, failed = (len(re.findall(rf" {word} +\[", said)) for word in ("PASSED", "FAILED"))
    return Result(passed, failed + len(re.findall(r" ERROR +\[", said)), why), what


def commit() -> str:
    """Return the commit of this tree."""
    words = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    sys.exit(main(sys.argv[1:]))
