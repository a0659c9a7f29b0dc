"""docs/quick-start.md, command by command, on a machine of its own with etcd and Open vSwitch.

Run by `make install-check`, which builds the package.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.bed.netns import Namespace, fresh_name
from tests.packaging.console import check, shown
from tests.packaging.kinds import ROOT, debian_package
from tests.packaging.machine import Machine
from tests.packaging.root import overlaid

DOCUMENT: Final = ROOT / "docs" / "quick-start.md"
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


@pytest.mark.timeout(300)
def test_every_command_succeeds_and_prints_what_is_shown(machine: Machine) -> None:
    assert len(shown(DOCUMENT)) > 20
    environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    check(DOCUMENT, machine.enter, environ)
    assert machine.run("ovs-vsctl", "list-br").stdout == "br-phy\n"
