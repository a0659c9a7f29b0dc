"""A machine of the cluster: namespaces of its own for network, mounts, processes and host name.

In come a number and a directory; out comes a machine whose /run, /var/lib, /var/log, /opt and
/etc/cni are its own, so that manifests with paths of hosts run unchanged, several on one machine.
What runs on it ends with its first process: `cut_power` is that. Open vSwitch, containerd and
kubelet are started as a distribution would, and told what `tests.e2e.programs` says. Next:
`tests.e2e.cluster`.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from core.addresses import url_host
from tests.bed.janitor import Keeper, process_janitor
from tests.bed.netns import Namespace, tx_checksum_off
from tests.bed.ovs import SCHEMA
from tests.bed.waiting import eventually
from tests.e2e.control_plane import version_of
from tests.e2e.images import PAUSE
from tests.e2e.programs import Machine, containerd_file

OWN = ("run", "var/lib", "var/log", "opt", "etc/cni")
CGROUPS = Path("/sys/fs/cgroup")
_INIT = (
    "import os, time\nwhile True:\n  try: os.wait()\n  except ChildProcessError: time.sleep(0.1)"
)


class Node:
    """One machine; `binaries` has kubelet, `kubeconfig` says where the API server is.

    `addresses` are in the order of the cluster's families. containerd and its runc are those of
    `RUNTIME_BIN`, a folder by its absolute path, or else of this machine.
    """

    def __init__(
        self,
        name: str,
        addresses: tuple[str, ...],
        directory: Path,
        *,
        binaries: Path,
        kubeconfig: Path,
        keeper: Keeper | None = None,
    ) -> None:
        self.name = name
        self.addresses = addresses
        self.directory = directory
        self._binaries = binaries
        self._kubeconfig = kubeconfig
        self._keeper = keeper or process_janitor()
        self.namespace = Namespace(f"e2e-{os.getpid()}-{name}", keeper=keeper)
        self._told = self._machine()
        self._first: subprocess.Popen[bytes] | None = None
        self._root = 0
        self._programs: list[subprocess.Popen[bytes]] = []

    def _machine(self) -> Machine:
        release = version_of(self._binaries / "kubelet")
        return Machine(release, self.name, self.addresses, self._kubeconfig, self.cgroup)

    @property
    def address(self) -> str:
        """The address that Kubernetes shows first."""
        return self.addresses[0]

    @property
    def in_url(self) -> str:
        """That address as it stands in a URL."""
        return url_host(self.address)

    # -- power -------------------------------------------------------------------------------------

    def make(self) -> None:
        """Make the directories, the network namespace and the cgroups."""
        self.namespace.create()
        for path in OWN:
            (self.directory / path).mkdir(parents=True, exist_ok=True)
        self._write_files()
        make_cgroup(self.cgroup)

    def _write_files(self) -> None:
        runtime = containerd_file(version_of(runtime_program("containerd")), PAUSE)
        for name, content in (
            ("containerd.toml", runtime),
            ("kubelet.yaml", json.dumps(self._told.kubelet_file())),  # JSON is YAML
        ):
            (self.directory / name).write_text(content)

    @property
    def cgroup(self) -> str:
        """The cgroup of its pods: kubelet removes what it does not know in its own."""
        return self.namespace.name

    def power_on(self) -> None:
        """Start the first process, and Open vSwitch with the machine's address on a bridge."""
        shutil.rmtree(self.directory / "run")  # as a reboot does
        (self.directory / "run").mkdir()
        script = ["mount --make-rprivate /", "mount --make-rshared /"]
        script += [f"mkdir -p /{path}" for path in OWN]
        script += [f"mount --bind {self.directory / path} /{path}" for path in OWN]
        script += ["mount -t proc proc /proc", f"hostname {self.name}"]
        script += [f"exec {sys.executable} -I -S -c '{_INIT}'"]
        with (self.directory / "init.log").open("ab") as log:
            self._first = subprocess.Popen(
                [
                    *self.namespace.enter,
                    *("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"),
                    *("sh", "-ec", "; ".join(script)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._keeper.watch_pid(self._first.pid)
        self._root = eventually(self._child, f"first process of {self.name}")
        eventually(
            lambda: "python" in Path(f"/proc/{self._root}/comm").read_text(),
            f"{self.name} has its directories",
        )
        self.start_switch()

    def cut_power(self) -> None:
        """End everything that runs on the machine, at once."""
        if self._first is not None:
            self._first.kill()
            self._first.wait()
            for process in self._programs:
                process.wait()
            self._programs.clear()
            eventually(lambda: not Path(f"/proc/{self._root}").exists(), f"{self.name} is off")
            self._first = None

    def remove(self) -> None:
        """Cut the power, and remove what `make` made."""
        self.cut_power()
        self.namespace.delete()
        remove_cgroup(self.cgroup)

    def _child(self) -> int:
        first = self._first
        if first is None or first.poll() is not None:
            raise RuntimeError(f"{self.name}: {(self.directory / 'init.log').read_text()}")
        found = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
        return int(found[0]) if found else 0

    # -- programs ----------------------------------------------------------------------------------

    @property
    def enter(self) -> list[str]:
        """The words that, put before a command, run it on the machine."""
        target = f"--target={self._root}"
        return ["nsenter", target, "--mount", "--uts", "--pid", "--net", "--wd=/", "--"]

    def run(self, *command: str, check: bool = True, timeout: float = 120) -> str:
        """Run a command on the machine; return its output."""
        done = subprocess.run(
            [*self.enter, *command],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode:
            raise RuntimeError(f"{self.name}: {' '.join(command)}: {done.stderr or done.stdout}")
        return done.stdout

    def spawn(self, name: str, command: Sequence[str]) -> None:
        """Start a program on the machine, its process id in /run/<name>.pid."""
        line = f'echo $$ >/run/{name}.pid; exec "$@"'
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self.enter, "sh", "-c", line, name, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true", "PATH": _path()},
                start_new_session=True,
            )
        self._keeper.watch_pid(process.pid)
        self._programs.append(process)

    def end(self, name: str, signal: str = "TERM") -> None:
        """End a program that `spawn` started."""
        self.run("sh", "-c", f"kill -{signal} $(cat /run/{name}.pid)", check=False)

    # -- services of the machine -------------------------------------------------------------------

    def start_switch(self) -> None:
        """Start Open vSwitch; the machine's address is on `br-ex`, for tunnels in user space."""
        database = "/var/lib/ovs.db"
        self.run("mkdir", "-p", "/run/openvswitch", "/var/log/openvswitch")
        self.run("sh", "-c", f"[ -e {database} ] || ovsdb-tool create {database} {SCHEMA}")
        common = ["--detach", "--no-chdir", "--log-file", "-vconsole:off", "--pidfile"]
        self.run("ovsdb-server", database, "--remote=punix:/run/openvswitch/db.sock", *common)
        self.run("ovs-vsctl", "--no-wait", "init")
        self.run("ovs-vswitchd", "unix:/run/openvswitch/db.sock", *common)
        self.bridge_card()

    def bridge_card(self) -> None:
        """Put the machine's card and its address on a bridge of the switch."""
        self.run(
            *("ovs-vsctl", "--timeout=30", "--may-exist", "add-br", "br-ex"),
            *("--", "set", "bridge", "br-ex", "datapath_type=netdev"),
            *("--", "--may-exist", "add-port", "br-ex", "eth0"),
        )
        self.run("ip", "address", "flush", "dev", "eth0")
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/eth0/arp_ignore")
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        self._address("br-ex")
        # without it kubelet waits for a cloud's metadata server
        self.run("ip", "route", "replace", "unreachable", "169.254.0.0/16")

    def _address(self, card: str) -> None:
        """Give a card the machine's addresses, and the ways out by it."""
        self.run("ip", "link", "set", card, "up")
        for address in self.addresses:
            if ":" in address:
                self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding")
                self.run("ip", "address", "replace", f"{address}/64", "dev", card, "nodad")
                self.run("ip", "route", "replace", "default", "via", "fd00:88::254")
            else:
                self.run("ip", "address", "replace", f"{address}/24", "dev", card)
                self.run("ip", "route", "replace", "default", "via", "10.88.0.254")

    def remove_switch(self) -> None:
        """End Open vSwitch for good."""
        self.release_card()
        for name in ("ovs-vswitchd", "ovsdb-server"):
            self.run("ovs-appctl", f"--target={name}", "exit")
        self.run("rm", "/var/lib/ovs.db")

    def release_card(self) -> None:
        """Put the machine's address back on its card, without the bridge."""
        self.run("ovs-vsctl", "--timeout=30", "del-br", "br-ex")
        self.run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/eth0/arp_ignore")
        self._address("eth0")

    def start_proxy(self, mode: str = "iptables") -> None:
        """Start kube-proxy."""
        self.spawn("kube-proxy", [str(self._binaries / "kube-proxy"), *self._told.proxy(mode)])

    def start_runtime(self) -> None:
        """Start containerd, which has the plugin `loopback`, as its packages bring it."""
        self.run("mkdir", "-p", "/opt/cni/bin")
        self.run("cp", "/usr/lib/cni/loopback", "/opt/cni/bin/")
        config = str(self.directory / "containerd.toml")
        self.spawn("containerd", [runtime_program("containerd"), "--config", config])
        eventually(
            lambda: "Server" in self.run(runtime_program("ctr"), "version", check=False),
            f"containerd of {self.name}",
            within=60,
        )

    @property
    def _ctr(self) -> tuple[str, str]:
        return runtime_program("ctr"), "--namespace=k8s.io"

    def load(self, images: Sequence[Path]) -> None:
        """Import images from their tars."""
        for image in images:
            self.run(*self._ctr, "images", "import", str(image), timeout=300)

    def tag(self, name: str, other: str) -> None:
        """Give an image another name."""
        self.run(*self._ctr, "images", "tag", "--force", name, other)

    def start_kubelet(self) -> None:
        """Start kubelet."""
        words = self._told.kubelet(self.directory / "kubelet.yaml")
        self.spawn("kubelet", [str(self._binaries / "kubelet"), *words])

    def upgrade(self, binaries: Path) -> None:
        """End kubelet, and start that of another release; containers run on."""
        self.end("kubelet")
        gone = ("sh", "-c", "kill -0 $(cat /run/kubelet.pid) 2>/dev/null || echo gone")
        eventually(lambda: self.run(*gone), f"kubelet of {self.name} is gone", within=60)
        self._binaries = binaries
        self._told = self._machine()
        self._write_files()
        self.start_kubelet()


def runtime_program(name: str) -> str:
    """Return the path of containerd or of what comes with it; its name, if it is this machine's."""
    folder = os.environ.get("RUNTIME_BIN")
    return str(Path(folder) / name) if folder else name


def _path() -> str:
    """Return where containerd finds its shim, and that one runc."""
    return ":".join(filter(None, (os.environ.get("RUNTIME_BIN"), os.environ["PATH"])))


def make_cgroup(name: str, root: Path = CGROUPS) -> None:
    """Make a cgroup below the root: in the one tree of version 2, or in each one of version 1."""
    if (root / "cgroup.controllers").exists():
        (root / name).mkdir(exist_ok=True)
        return
    for controller in root.glob("*/"):
        (controller / name).mkdir(exist_ok=True)
    for setting in ("cpus", "mems"):
        # a new one may use none, and would take no process
        value = (root / "cpuset" / f"cpuset.{setting}").read_text()
        (root / "cpuset" / name / f"cpuset.{setting}").write_text(value)


def remove_cgroup(name: str, root: Path = CGROUPS) -> None:
    """Remove what `make_cgroup` made, and what was made below it."""
    for top in (root / name, *root.glob(f"*/{name}")):
        if top.is_dir():
            below = [path for path in top.rglob("*/") if path.is_dir()]
            for path in (*sorted(below, reverse=True), top):
                path.rmdir()


def join(node: Node, fabric: Namespace) -> None:
    """Give a machine a card on the cluster's switch."""
    fabric.run(
        [
            *("ip", "link", "add", node.name, "type", "veth"),
            *("peer", "name", "eth0", "netns", node.namespace.name),
        ]
    )
    fabric.run(["ip", "link", "set", node.name, "master", "sw", "up"])
    node.namespace.run(["ip", "link", "set", "eth0", "up"])
    # Open vSwitch in user space neither makes nor checks checksums
    tx_checksum_off(fabric, node.name)
    tx_checksum_off(node.namespace, "eth0")
