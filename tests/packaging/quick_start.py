"""docs/quick-start.md, command by command, on a machine of its own with etcd and Open vSwitch.

Run by `make install-check`, which builds the package.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.bed.netns import Namespace, fresh_name
from tests.packaging.kinds import ROOT, debian_package
from tests.packaging.machine import Machine
from tests.packaging.root import overlaid

DOCUMENT: Final = ROOT / "docs" / "quick-start.md"
MARK: Final = "-- next --"
SWITCH: Final = """
mkdir -p /run/openvswitch /etc/openvswitch /var/log/openvswitch
rm -f /etc/openvswitch/conf.db
ovsdb-tool create /etc/openvswitch/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server --remote=punix:/var/run/openvswitch/db.sock --pidfile --detach
ovs-vsctl --no-wait init
ovs-vswitchd --pidfile --detach
ovs-vsctl add-br br-phy -- set bridge br-phy datapath_type=netdev
ip address add 192.0.2.11/24 dev br-phy
ip link set br-phy up
ip route add default via 192.0.2.1
"""
"""What openvswitch-switch.service does; with the host's address on a bridge of the userspace
datapath, since the kernel may lack that of Open vSwitch.
"""


@pytest.fixture
def machine(bed_dir: Path) -> Iterator[Machine]:
    """Boot a machine as the first block of the document leaves one."""
    with ExitStack() as undo:
        network = Namespace(fresh_name("quick"))
        undo.callback(network.delete)
        network.create()
        overlay = bed_dir / "overlay"
        overlay.mkdir()
        root = undo.enter_context(overlaid(overlay))
        shutil.copy(debian_package(), root.path / "var/cache/contiv.deb")
        machine = Machine(root, network, bed_dir / "systemd.log", [])
        undo.callback(machine.end)
        machine.boot()
        machine.systemctl("start", "etcd.service")
        machine.run("sh", "-euc", SWITCH)
        machine.run("mkdir", "-p", "/etc/cni/net.d")
        machine.run("dpkg", "-i", "/var/cache/contiv.deb")
        yield machine


def shown() -> list[tuple[str, str]]:
    """Return the commands of the document, each with what stands below it."""
    blocks = re.findall(r"```console\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, answer) for command, _, answer in (part.partition("\n") for part in parts)]


@pytest.mark.timeout(300)
def test_every_command_succeeds_and_prints_what_is_shown(machine: Machine) -> None:
    document = shown()
    assert len(document) > 20
    # one shell, which ends with the first command that fails
    script = "\n".join(f"echo '{MARK}'\n{command}" for command, _ in document)
    shell = [*machine.enter, "bash", "-e", "-c", script]
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    done = subprocess.run(shell, env=environ, capture_output=True, text=True, check=False)
    said = done.stdout.split(f"{MARK}\n")[1:]
    failed = document[len(said) - 1][0]
    assert done.returncode == 0, f"{failed}: {said[-1]}{done.stderr}{machine.journal()}"
    for (command, answer), printed in zip(document, said, strict=True):
        assert printed == answer, command
    assert machine.run("ovs-vsctl", "list-br").stdout == "br-phy\n"
