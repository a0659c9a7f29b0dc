"""docs/quick-start.md, command by command, on a machine of its own with etcd and Open vSwitch.

So are the commands of README.md that ask a cluster. Run by `make install-check`, which builds the
package.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.bed.netns import Namespace, fresh_name
from tests.packaging.console import check, lines, shown
from tests.packaging.kinds import ROOT, debian_package
from tests.packaging.machine import Machine
from tests.packaging.root import overlaid

DOCUMENT: Final = ROOT / "docs" / "quick-start.md"
README: Final = ROOT / "README.md"
ENVIRON: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
MASTER: Final = "10.0.0.1"
"""The address of netmaster in README.md."""
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


@pytest.mark.timeout(300)
def test_every_command_succeeds_and_prints_what_is_shown(machine: Machine) -> None:
    assert len(shown(DOCUMENT)) > 20
    check(DOCUMENT, machine.enter, ENVIRON)
    assert machine.run("ovs-vsctl", "list-br").stdout == "br-phy\n"


@pytest.mark.timeout(300)
def test_what_the_readme_asks_a_cluster_is_answered(machine: Machine) -> None:
    machine.run("sh", "-euc", f"ip address add {MASTER}/32 dev lo; ip link set lo up")
    machine.run("sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
    for unit in ("netmaster", "netplugin"):
        machine.systemctl("start", f"{unit}.service")
    wait = f"netctl --netmaster http://{MASTER}:9999 host applied --wait 30"
    machine.run("sh", "-euc", wait)
    commands = [one for one in lines(README) if not one.startswith("make ")]
    assert len(commands) == 6
    script = "\n".join(f"echo '{MARK}'\n{one}" for one in commands)
    done = machine.run("bash", "-euc", script.replace("<control address>", "192.0.2.11"))
    said = [one.strip() for one in done.stdout.split(f"{MARK}\n")[1:]]
    assert said[1] == "Creating network default:default-net"
    assert "10.20.0.0/16" in said[2]
    (network,) = json.loads(said[3])
    assert network["networkName"] == "default-net"
    assert json.loads(said[4])["leader-ip"]
    assert json.loads(said[5]).keys() == {"vlan", "vxlan"}
