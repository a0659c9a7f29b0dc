"""The releases that are tried, and the parts of the tests that meet what differs there. Data."""

from collections.abc import Mapping, Sequence
from typing import Final

RELEASES: Final[Mapping[str, str]] = {"trixie": "Debian 13"}
"""Names of suites of Debian's archive, and what the table calls them."""

DEMO: Final = "demo"
PARTS: Final[Mapping[str, Sequence[str]]] = {
    DEMO: (),
    "units of the agent": ("tests/unit/netplugin", "--timeout=60"),
    "units of ofnet": ("tests/unit/ofnet", "--timeout=60"),
    "other units": (
        "tests/unit",
        "--ignore=tests/unit/netplugin",
        "--ignore=tests/unit/ofnet",
        "--timeout=60",
    ),
    "stores": ("tests/contract", "tests/integration/objdb"),
    "services": ("tests/system/test_services.py", "tests/system/test_service_table.py"),
    "pods": ("tests/system/test_pods.py",),
    "docker": ("tests/system/test_docker.py",),
    "containerd": ("tests/system/test_containerd.py",),
}
"""What pytest is told for each; the demo is a program of its own."""

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
