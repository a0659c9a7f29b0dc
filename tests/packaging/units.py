"""The units under a real systemd: readiness, watchdog, sandbox, and the socket that holds calls.

The Debian package is installed into a root of its own, which boots in a namespace that has an Open
vSwitch and a store. Run by `make install-check`, which builds the package.
"""

import json
import re
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from core.metrics import Metric
from core.net import tls_trust
from netmaster import master_metrics as of_master
from netplugin.startup import metric_names as of_agent
from tests.bed.etcd import Etcd
from tests.bed.hosts import Fabric, Host
from tests.bed.metrics import Metrics, parsed
from tests.bed.netns import answers, fresh_name, http_request
from tests.bed.waiting import eventually
from tests.packaging.kinds import ROOT, debian_package
from tests.packaging.machine import Machine
from tests.packaging.root import IGNORED, overlaid
from tests.system.metrics import NOT_HERE

INSTALLATION: Final = ROOT / "docs" / "installation.md"
SOCKET: Final = "/run/contiv/contiv-cni.sock"
CONF: Final = {
    "cniVersion": "1.0.0",
    "name": "contiv-net",
    "type": "contivk8s",
    "contiv": {"tenant": "default", "network": "default-net", "group": ""},
}
FOLLOWERS: Final = "follower only."
"""How the text of a metric ends that a leader does not have."""
SHORT_WATCHDOG: Final = "[Service]\nWatchdogSec=2\n"
pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class SystemdHost:
    """A host whose systemd runs both daemons."""

    machine: Machine
    host: Host

    def call(self, verb: str, pod: str) -> dict[str, Any]:
        """Have the plugin add or remove a pod, as a runtime inside would; fails if it refuses."""
        words = [
            *("env", f"CNI_COMMAND={verb}", f"CNI_CONTAINERID={pod}", "CNI_IFNAME=eth0"),
            *(f"CNI_NETNS=/run/netns/{pod}", "CNI_PATH=/usr/lib/cni", "/usr/lib/cni/contivk8s"),
        ]
        done = self.machine.run(*words, text=json.dumps(CONF))
        found: dict[str, Any] = json.loads(done.stdout) if done.stdout else {}
        return found

    def add(self, pod: str) -> str:
        """Make a pod; return its address."""
        self.machine.run("ip", "netns", "add", pod)
        return str(self.call("ADD", pod)["ips"][0]["address"]).partition("/")[0]

    def delete(self, pod: str) -> None:
        """Remove a pod."""
        self.call("DEL", pod)
        self.machine.run("ip", "netns", "delete", pod)

    def reaches(self, pod: str, address: str) -> bool:
        """Tell whether a pod gets an answer to a ping."""
        ping = ("ip", "netns", "exec", pod, "ping", "-c", "1", "-W", "1", address)
        return self.machine.run(*ping, check=False).returncode == 0

    def agent(self) -> str:
        """Return the process id of the agent, "0" without one."""
        return self.machine.show("netplugin.service", "MainPID")

    def inode(self) -> str:
        """Return what tells one socket at a path from another."""
        return self.machine.run("stat", "--format=%i", SOCKET).stdout


@pytest.fixture(scope="module")
def systemd(bed_dirs: Iterator[Path]) -> Iterator[SystemdHost]:
    """Run a site that the tests share; each leaves it as it was."""
    directory = next(bed_dirs)
    directory.mkdir()
    with started(directory) as systemd:
        yield systemd


@contextmanager
def started(directory: Path) -> Iterator[SystemdHost]:
    """Install the package, boot, and start both services by their units."""
    with ExitStack() as undo:
        fabric = Fabric(fresh_name("fabric"))
        undo.callback(fabric.stop)
        fabric.start()
        host = Host(1, fresh_name("h1"), directory / "h1")
        undo.callback(host.stop)
        host.start(fabric)
        host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        store = Etcd(directory, fabric.namespace, fabric.address, 2379)
        undo.callback(store.kill)
        store.start()
        overlay = directory / "overlay"
        overlay.mkdir()
        root = undo.enter_context(overlaid(overlay))
        shutil.copy(debian_package(), root.path / "var/cache/contiv.deb")
        root.run("dpkg", "--install", "/var/cache/contiv.deb")
        for daemon in ("netmaster", "netplugin"):
            path = root.path / "etc/default" / daemon
            path.write_text(path.read_text() + settings(daemon, host, store))
        machine = Machine(root, host.namespace, directory / "systemd.log", [host.dir])
        undo.callback(machine.end)
        machine.boot()
        # returns when the manager was told that the daemon is ready
        machine.systemctl("enable", "--now", "netmaster.service")
        master = f"http://{host.address}:9999"
        leads = f'"leader-ip":"{host.address}:9999"'.encode()
        eventually(
            lambda: answers(f"{master}/info", namespace=host.namespace, text=leads), "a leader"
        )
        subnet = ("--subnet=10.20.0.0/16", "--gateway=10.20.0.1")
        machine.run("netctl", "--netmaster", master, "net", "create", *subnet, "default-net")
        machine.systemctl("enable", "--now", "netplugin.service")
        yield SystemdHost(machine, host)


def settings(daemon: str, host: Host, store: Etcd) -> str:
    """Return lines for the file of a daemon's settings: what differs from those of the package."""
    values = {"ETCD_ENDPOINTS": store.url}
    if daemon == "netmaster":
        values |= {"INTERNAL_ADDRESS": f"{host.address}:9999"}
    else:
        values |= {"CONTROL_IP": host.address, "VTEP_IP": host.address, "HOST": host.label}
        values |= {"OVSDB": f"unix:{host.ovs.db_socket}"}
    return "".join(f"CONTIV_{daemon.upper()}_{name}={value}\n" for name, value in values.items())


@pytest.mark.parametrize("daemon", ["netmaster", "netplugin"])
def test_a_service_is_started_when_it_has_said_so(systemd: SystemdHost, daemon: str) -> None:
    unit = f"{daemon}.service"
    assert systemd.machine.show(unit, "Type") == "notify"
    assert systemd.machine.show(unit, "ActiveState") == "active"
    assert systemd.machine.show(unit, "UnitFileState") == "enabled"
    pid = systemd.machine.show(unit, "MainPID")
    user = systemd.machine.run("stat", "--format=%u", f"/proc/{pid}").stdout.strip()
    assert (user == "0") == (daemon == "netplugin"), "netmaster has a user of its own"
    status = systemd.machine.run("cat", f"/proc/{pid}/status").stdout
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status


def test_metrics_and_health_are_whole_in_the_sandbox(systemd: SystemdHost) -> None:
    """What reads the process, the kernel and Open vSwitch for a figure is allowed to."""
    systemd.add("counted")
    try:
        whole(f"http://{systemd.host.address}:9999", systemd, of_master.METRICS)
        found = whole(f"http://{systemd.host.address}:9090", systemd, of_agent.METRICS)
        bridge = "contivVxlanBridge"
        flows = found.value(of_agent.WANTED.name, bridge=bridge)
        assert found.total(of_agent.INSTALLED.name, bridge=bridge) == flows > 0
        assert found.value(of_agent.ENDPOINTS.name, bridge=bridge, side="local") == 1
    finally:
        systemd.delete("counted")


def whole(url: str, systemd: SystemdHost, metrics: Iterable[Metric]) -> Metrics:
    """Return a daemon's metrics, which are those of a daemon to which nothing is forbidden."""
    namespace = systemd.host.namespace
    eventually(partial(answers, f"{url}/readyz", namespace=namespace), f"{url} is ready")
    status, page = http_request(f"{url}/metrics", namespace=namespace)
    assert status == 200
    found = parsed(page)
    expected = {one for one in metrics if not one.help.endswith(FOLLOWERS)}
    expected -= {*NOT_HERE, of_master.EXPIRY}
    assert set(found.kinds) >= {one.name.removesuffix("_total") for one in expected}
    assert found.value("process_resident_memory_bytes") > 0
    assert found.value("process_open_fds") > 0
    return found


def test_calls_wait_in_the_socket_while_the_agent_restarts(systemd: SystemdHost) -> None:
    address = systemd.add("first")
    inode, before = systemd.inode(), systemd.agent()
    systemd.machine.systemctl("stop", "netplugin.service")
    assert systemd.inode() == inode
    assert systemd.agent() == "0"
    # the call finds a socket without an agent behind it, and systemd starts one
    other = systemd.add("second")
    assert systemd.inode() == inode
    assert systemd.agent() not in {"0", before}
    assert systemd.reaches("second", address)
    answered = threading.Thread(target=systemd.machine.systemctl, args=("restart", "netplugin"))
    answered.start()
    systemd.delete("second")
    answered.join()
    assert systemd.inode() == inode
    assert systemd.add("third") != address
    systemd.delete("third")
    systemd.delete("first")
    assert other != address


def test_preflight_starts_no_agent(systemd: SystemdHost) -> None:
    systemd.machine.systemctl("stop", "netplugin.service")
    try:
        said = systemd.machine.run(
            "sh", "-ac", ". /etc/default/netplugin; netplugin preflight"
        ).stdout
        assert systemd.machine.show("netplugin.service", "ActiveState") == "inactive"
    finally:
        systemd.machine.systemctl("start", "netplugin.service")
    assert f"are free, the service manager listens at {SOCKET}" in said


def test_an_agent_that_was_killed_comes_back_and_its_pods_stay(systemd: SystemdHost) -> None:
    address, before = systemd.add("left"), systemd.agent()
    systemd.add("right")
    systemd.machine.systemctl("kill", "--signal=KILL", "netplugin.service")
    assert systemd.reaches("right", address)
    eventually(lambda: systemd.agent() not in {"0", before}, "systemd started it again")
    # waits in the socket until the new one serves
    systemd.delete("right")
    systemd.delete("left")


def test_a_package_that_replaces_another_restarts_what_runs(systemd: SystemdHost) -> None:
    units = ("netmaster.service", "netplugin.service")
    address, inode = systemd.add("left"), systemd.inode()
    systemd.add("right")
    before = [systemd.machine.show(unit, "MainPID") for unit in units]
    systemd.machine.run("dpkg", "--install", "/var/cache/contiv.deb")
    now = [systemd.machine.show(unit, "MainPID") for unit in units]
    assert {"0", *before}.isdisjoint(now)
    assert systemd.inode() == inode
    assert systemd.reaches("right", address)
    systemd.delete("right")
    systemd.delete("left")


@pytest.mark.parametrize("daemon", ["netmaster", "netplugin"])
def test_a_daemon_that_hangs_is_replaced(systemd: SystemdHost, daemon: str) -> None:
    unit = f"{daemon}.service"
    drop_in = systemd.machine.root.path / f"etc/systemd/system/{unit}.d/watchdog.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(SHORT_WATCHDOG)
    systemd.machine.systemctl("daemon-reload")
    systemd.machine.systemctl("restart", unit)
    before = systemd.machine.show(unit, "NRestarts")
    systemd.machine.systemctl("kill", "--signal=STOP", unit)
    eventually(lambda: systemd.machine.show(unit, "NRestarts") != before, "watchdog", within=30)
    eventually(lambda: systemd.machine.show(unit, "ActiveState") == "active", "ready", within=60)
    assert f"{unit}: Watchdog timeout" in systemd.machine.journal()
    drop_in.unlink()
    drop_in.parent.rmdir()
    systemd.machine.systemctl("daemon-reload")
    systemd.machine.systemctl("restart", unit)


def test_keys_of_root_are_handed_to_netmaster(systemd: SystemdHost) -> None:
    machine, address = systemd.machine, systemd.host.address
    (block,) = re.findall(r"```ini\n(.*?)```", INSTALLATION.read_text(), re.DOTALL)
    machine.run("netmaster", "ca", "init", "/root/contiv-ca")
    names = ("--role", "master", "--name", "m1", "--address", address, "--out", "/etc/contiv")
    machine.run("netmaster", "ca", "issue", "/root/contiv-ca", *names)
    assert machine.run("stat", "--format=%a %u", "/etc/contiv/key.pem").stdout == "600 0\n"
    drop_in = machine.root.path / "etc/systemd/system/netmaster.service.d/tls.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(block)
    machine.systemctl("daemon-reload")
    machine.systemctl("restart", "netmaster.service")
    context = tls_trust.client_context(ca_file=str(machine.root.path / "etc/contiv/ca.pem"))
    url = f"https://{address}:9999/healthz"
    assert answers(url, namespace=systemd.host.namespace, context=context)
    drop_in.unlink()
    drop_in.parent.rmdir()
    for path in ("/etc/contiv", "/root/contiv-ca"):
        machine.run("rm", "-r", path)
    machine.systemctl("daemon-reload")
    machine.systemctl("restart", "netmaster.service")


def test_a_removal_ends_the_services_and_leaves_nothing(bed_dir: Path) -> None:
    with started(bed_dir) as systemd:
        remove(systemd.machine)


def remove(machine: Machine) -> None:
    """Remove the package, and see that nothing is left of it."""
    machine.run("dpkg", "--purge", "contiv")
    for unit in ("netmaster.service", "netplugin.service", "netplugin.socket"):
        assert machine.show(unit, "LoadState") == "not-found"
        assert machine.show(unit, "ActiveState") == "inactive"
    assert machine.run("ls", "/run/contiv", check=False).returncode != 0
    found = {path for path in machine.root.written() if "contiv-test" not in path}
    ours = ("contiv", "netmaster", "netplugin", "netctl")
    assert {path for path in found if any(word in path for word in ours)} == set()
    assert not [path for path in IGNORED if (machine.root.path / path[1:] / "contiv").exists()]
