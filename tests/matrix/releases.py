"""The releases that are tried, and the parts of the tests that meet what differs there. Data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the tests: what pytest is told, and the minutes it takes on two idle processors.

    `before` is put before the command of pytest. A part without tests is no run of pytest.
    """

    tests: Sequence[str]
    minutes: int
    before: str = ""


DEMO: Final = "demo"
"""The part that is a program of its own, without pytest."""
WHOLE: Final = "make test"
"""The part that is all that a change must pass: the target of that name."""
PARTS: Final[Mapping[str, Part]] = {
    DEMO: Part((), 1),
    WHOLE: Part((), 40),
    "services": Part(("tests/system/test_services.py", "tests/system/test_service_table.py"), 5),
    "docker": Part(("tests/system/test_docker.py",), 4),
    "containerd": Part(("tests/system/test_containerd.py", "tests/system/test_cni_verbs.py"), 2),
    "stores": Part(("tests/contract", "tests/integration/objdb"), 6),
    "units of the agent": Part(("tests/unit/netplugin", "--timeout=60"), 5),
    "units of ofnet": Part(("tests/unit/ofnet", "--timeout=60"), 3),
    "other units": Part(
        (
            "tests/unit",
            "tests/integration/deploy",
            "--ignore=tests/unit/netplugin",
            "--ignore=tests/unit/ofnet",
            "--timeout=60",
        ),
        6,
    ),
    "switch and host": Part(
        ("tests/integration/ofnet", "tests/integration/ovsdb", "tests/integration/netns"), 8
    ),
    "firewalls": Part(
        ("tests/system/test_host_firewalls.py", "tests/system/test_real_firewalls.py"), 4
    ),
    # the wheel's dependencies come from the package index, which a root does not reach then
    "package": Part(
        (
            "tests/packaging/installed.py",
            "tests/packaging/units.py",
            "tests/packaging/quick_start.py",
            "--deselect=tests/packaging/installed.py::test_it_installs_runs_and_leaves_nothing[wheel]",
        ),
        5,
        before="make deb &&",
    ),
}
"""The parts by name, in the order in which they are run."""


@dataclass(frozen=True, slots=True)
class Release:
    """A release of Debian: what the table calls it, and what of the archive a root is made of."""

    title: str
    suites: Sequence[str]
    parts: Sequence[str]
    """What is run unless parts are named."""
    apt: Sequence[str] = ()
    """Settings of apt in its root."""


RELEASES: Final[Mapping[str, Release]] = {
    "trixie": Release("Debian 13", ("trixie", "trixie-updates"), (DEMO, WHOLE, "package")),
    "sid": Release(
        "sid",
        ("sid",),
        # the parts that meet Open vSwitch, docker, containerd, stores and Python
        tuple(name for name in PARTS if name not in {WHOLE, "package"}),
        # a mirror that keeps one day's sid is as good, and signed as well
        ('Acquire::Check-Valid-Until "false"',),
    ),
}
"""The releases by their names in Debian's archive."""

VERSIONS: Final[Mapping[str, str]] = {
    "Python": "python3 -V",
    "Open vSwitch": "ovs-vswitchd --version",
    "docker": "dockerd --version",
    "containerd": "containerd --version",
    "etcd": "etcd --version",
    "consul": "consul version",
    "iptables": "iptables --version",
}
"""What differs most, and the commands that tell: the first number with dots is the version."""
