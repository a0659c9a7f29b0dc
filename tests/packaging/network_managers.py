"""NetworkManager and systemd-networkd, both running and told to manage every link: not ours.

In a root of its own, under a systemd, with links of our names and of others. Run by
`make install-check`, which needs the archives of Debian for NetworkManager.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from netplugin.commands.link_files import FILES
from tests.bed.netns import Namespace, fresh_name
from tests.bed.waiting import eventually
from tests.packaging.machine import Machine
from tests.packaging.root import overlaid

OURS: Final = ("vvport7", "hport7", "contivh0", "contivdns0", "inb01")
OTHER: Final = "other0"
EVERYTHING: Final = (
    "[Match]\nName=*\n\n[Network]\nAddress=198.51.100.7/24\nLinkLocalAddressing=no\n"
)
DEVICES: Final = "[main]\nno-auto-default=\n[device]\nmatch-device=*\nmanaged=1\n"


@dataclass(frozen=True)
class ManagedMachine:
    """A machine, its network, and where the other ends of its links are."""

    machine: Machine
    network: Namespace
    away: Namespace

    def add(self, *names: str) -> None:
        for name in names:
            peer = ("peer", "name", name, "netns", self.away.name)
            self.network.run(["ip", "link", "add", name, "type", "veth", *peer])
            self.network.run(["ip", "link", "set", name, "up"])
            self.away.run(["ip", "link", "set", name, "up"])

    def add_all(self) -> None:
        self.add(*OURS, OTHER)


@pytest.fixture
def managed(bed_dir: Path) -> Iterator[ManagedMachine]:
    """Boot a machine that has both, before either was told anything."""
    with ExitStack() as undo:
        network, away = (Namespace(fresh_name(name)).create() for name in ("managed", "away"))
        undo.callback(network.delete)
        undo.callback(away.delete)
        overlay = bed_dir / "overlay"
        overlay.mkdir()
        root = undo.enter_context(overlaid(overlay))
        root.run("apt-get", "update", "-q")
        root.run("apt-get", "install", "-y", "-q", "--no-install-recommends", "network-manager")
        machine = Machine(root, network, bed_dir / "systemd.log", [])
        undo.callback(machine.end)
        machine.boot()
        # without udev they wait for nobody else to name links
        machine.run("mount", "-o", "remount,ro", "/sys")
        (root.path / "etc/systemd/network").mkdir(exist_ok=True)
        (root.path / "etc/systemd/network/99-all.network").write_text(EVERYTHING)
        (root.path / "etc/NetworkManager/conf.d/all.conf").write_text(DEVICES)
        yield ManagedMachine(machine, network, away)


def addressed(machine: Machine) -> set[str]:
    lines = machine.run("ip", "-br", "-4", "address").stdout.splitlines()
    found = {line.split()[0].partition("@")[0] for line in lines if "198.51.100.7" in line}
    return found - {"lo"}


def unmanaged(machine: Machine) -> dict[str, bool]:
    """Return what NetworkManager says of each link, when it has looked at all of them."""
    listed = machine.run("nmcli", "-t", "-f", "DEVICE,STATE", "device", check=False).stdout
    found = dict(line.split(":", 1) for line in listed.splitlines())
    return {name: found[name] == "unmanaged" for name in (*OURS, OTHER) if name in found}


def write_files(machine: Machine) -> None:
    for path, text in FILES.items():
        target = machine.root.path / "etc" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


@pytest.mark.timeout(600)
def test_networkd_leaves_links_alone(managed: ManagedMachine) -> None:
    machine = managed.machine
    managed.add_all()
    machine.systemctl("start", "dbus.service")
    machine.systemctl("start", "systemd-networkd.service")
    eventually(lambda: addressed(machine) == {*OURS, OTHER}, "without the files all are managed")
    # its socket would start it again when links go
    machine.systemctl("stop", "systemd-networkd.socket", "systemd-networkd.service")
    for name in (*OURS, OTHER):
        machine.run("ip", "link", "delete", name)

    write_files(machine)
    managed.add_all()
    machine.systemctl("start", "systemd-networkd.service")
    eventually(lambda: OTHER in addressed(machine), "networkd has configured the other link")
    managed.add("vvport8", "other1")
    eventually(lambda: "other1" in addressed(machine), "and one that came later")
    assert addressed(machine) == {OTHER, "other1"}
    listed = machine.run("networkctl", "--no-legend", "--no-pager", "list").stdout.splitlines()
    setup = {words[1]: words[-1] for words in map(str.split, listed) if len(words) > 3}
    assert {setup[name] for name in (*OURS, "vvport8")} == {"unmanaged"}


@pytest.mark.timeout(600)
def test_network_manager_leaves_links_alone(managed: ManagedMachine) -> None:
    machine = managed.machine
    write_files(machine)
    managed.add_all()
    machine.systemctl("start", "dbus.service")
    machine.systemctl("start", "NetworkManager.service")
    expected = dict.fromkeys(OURS, True) | {OTHER: False}
    eventually(lambda: unmanaged(machine) == expected, "ours are unmanaged, the other is not")
    # it is these lines that tell it, not the kind of the links
    (machine.root.path / "etc/NetworkManager/conf.d/90-contiv.conf").unlink()
    machine.systemctl("restart", "NetworkManager.service")
    expected = dict.fromkeys((*OURS, OTHER), False)
    eventually(lambda: unmanaged(machine) == expected, "without them all are managed")
