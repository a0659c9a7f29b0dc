"""The first commands that a newcomer types: each is run by a test, or is a target of make.

Blocks of `console` are run whole (`tests.packaging.console`). Here are the blocks of `sh`, which
install and build: a command that is new there fails until it is named with who runs it.
"""

import re
from pathlib import Path
from typing import Final

import pytest

from core.version import VERSION
from tests.packaging.console import lines, shown

ROOT: Final = Path(__file__).parents[3]
DOCUMENTS: Final = [
    ROOT / name for name in ("README.md", "docs/quick-start.md", "docs/first-steps.md")
]
PACKAGES: Final = re.findall(r"=([\w|.' -]+)", (ROOT / "scripts/setup").read_text())

COVERED: Final = {
    "make demo": "tests/bed/demo.py",
    "make demo KEEP=1": "tests/packaging/first_steps.py",
    "make test": "Makefile",
    "make deb": "tests/packaging/kinds.py",
    "make install PREFIX=/usr/local CNI_BIN=/opt/cni/bin": "tests/packaging/kinds.py",
    "make image": "tests/packaging/image.py",
    "apt-get install -y git make": "scripts/setup",
    "apt-get install -y etcd-server openvswitch-switch iptables": "scripts/setup",
    f"dpkg -i build/contiv_{VERSION}+deb12_amd64.deb": "tests/packaging/quick_start.py",
    "git clone https://github.com/contiv/netplugin contiv && cd contiv": "the reader",
    # on a machine with the address of netmaster
    "export NETMASTER=http://10.0.0.1:9999": "tests/packaging/quick_start.py",
    "netctl net create --subnet=10.20.0.0/16 --gateway=10.20.0.1 default-net": (
        "tests/packaging/quick_start.py"
    ),
    "netctl net ls": "tests/packaging/quick_start.py",
    "curl -s $NETMASTER/api/v1/networks/": "tests/packaging/quick_start.py",
    "curl -s $NETMASTER/info": "tests/packaging/quick_start.py",
    "curl -s http://<control address>:9090/inspect/driver": "tests/packaging/quick_start.py",
}
"""The commands, and who runs them."""


def test_every_command_is_run() -> None:
    assert {line for document in DOCUMENTS for line in lines(document)} == COVERED.keys()


@pytest.mark.parametrize("where", sorted(set(COVERED.values()) - {"the reader"}))
def test_whoever_runs_them_is_there(where: str) -> None:
    assert (ROOT / where).is_file()


def test_targets_of_make_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    said = [command for document in DOCUMENTS[1:] for command, _ in shown(document)]
    for command in (*COVERED, *said):
        if command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}\b[^=]*:", makefile, re.MULTILINE), command


def test_packages_are_those_that_setup_installs() -> None:
    known = {name for one in PACKAGES for name in re.split(r"[|']", one.strip())} | {"make"}
    for command in COVERED:
        if command.startswith("apt-get install -y "):
            assert set(command.split()[3:]) <= known, command


def test_every_page_for_newcomers_has_commands_that_a_test_reads() -> None:
    assert [len(shown(document)) > 15 for document in DOCUMENTS] == [False, True, True]
