"""A machine of the cluster: namespaces of its own for network, mounts, processes and host name.

In come a number and a directory; out comes a machine whose /run, /var/lib, /var/log, /opt and
/etc/cni are its own, so that manifests with paths of hosts run unchanged, several on one machine.
What runs on it ends with its first process: `cut_power` is that. Open vSwitch, containerd and
kubelet are started as a distribution would. Next: `tests.e2e.cluster`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.bed.janitor import Keeper, process_janitor
from tests.bed.netns import Namespace, tx_checksum_off
from tests.bed.ovs import SCHEMA
from tests.bed.waiting import eventually
from tests.e2e.images import PAUSE

OWN = ("run", "var/lib", "var/log", "opt", "etc/cni")
CONTROLLERS = Path("/sys/fs/cgroup")
_INIT = (
    "import os, time\nwhile True:\n  try: os.wait()\n  except ChildProcessError: time.sleep(0.1)"
)

CONTAINERD = f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
    max_conf_num = 1
"""

KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {address}
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
cgroupDriver: cgroupfs
cgroupRoot: /{name}
kubeletCgroups: ""
enforceNodeAllocatable: []
failSwapOn: false
maxOpenFiles: 16384
oomScoreAdj: 0
makeIPTablesUtilChains: false
resolvConf: /dev/null
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {{memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}}
nodeStatusUpdateFrequency: 2s
syncFrequency: 5s
"""


class Node:
    """One machine; `binaries` has kubelet, `kubeconfig` says where the API server is."""

    def __init__(
        self,
        name: str,
        address: str,
        directory: Path,
        *,
        binaries: Path,
        kubeconfig: Path,
        keeper: Keeper | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self.directory = directory
        self._binaries = binaries
        self._kubeconfig = kubeconfig
        self._keeper = keeper or process_janitor()
        self.namespace = Namespace(f"e2e-{os.getpid()}-{name}", keeper=keeper)
        self._first: subprocess.Popen[bytes] | None = None
        self._root = 0
        self._programs: list[subprocess.Popen[bytes]] = []

    # -- power -------------------------------------------------------------------------------------

    def make(self) -> None:
        """Make the directories, the network namespace and the cgroups."""
        self.namespace.create()
        for path in OWN:
            (self.directory / path).mkdir(parents=True, exist_ok=True)
        for name, content in (
            ("containerd.toml", CONTAINERD),
            ("kubelet.yaml", KUBELET.format(name=self.cgroup, address=self.address)),
        ):
            (self.directory / name).write_text(content)
        self._make_cgroups()

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
        for controller in CONTROLLERS.glob(f"*/{self.cgroup}"):
            for path in sorted(controller.rglob("*/"), reverse=True):
                if path.is_dir():
                    path.rmdir()
            controller.rmdir()

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
                env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
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
        self.run("ip", "address", "replace", f"{self.address}/24", "dev", "br-ex")
        self.run("ip", "link", "set", "br-ex", "up")
        self.run("ip", "route", "replace", "default", "via", "10.88.0.254")
        # without it kubelet waits for a cloud's metadata server
        self.run("ip", "route", "replace", "unreachable", "169.254.0.0/16")

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
        self.run("ip", "address", "replace", f"{self.address}/24", "dev", "eth0")
        self.run("ip", "route", "replace", "default", "via", "10.88.0.254")

    def start_proxy(self) -> None:
        """Start kube-proxy."""
        self.spawn(
            "kube-proxy",
            [
                str(self._binaries / "kube-proxy"),
                *(f"--kubeconfig={self._kubeconfig}", f"--hostname-override={self.name}"),
                *("--proxy-mode=iptables", "--masquerade-all=false", "--v=1"),
                # these would be settings of the whole machine
                *("--conntrack-max-per-core=0", "--conntrack-min=0"),
                *(
                    "--conntrack-tcp-timeout-established=0s",
                    "--conntrack-tcp-timeout-close-wait=0s",
                ),
            ],
        )

    def start_runtime(self) -> None:
        """Start containerd, which has the plugin `loopback`, as its packages bring it."""
        self.run("mkdir", "-p", "/opt/cni/bin")
        self.run("cp", "/usr/lib/cni/loopback", "/opt/cni/bin/")
        self.spawn(
            "containerd", ["containerd", "--config", str(self.directory / "containerd.toml")]
        )
        eventually(
            lambda: "Server" in self.run("ctr", "version", check=False),
            f"containerd of {self.name}",
            within=60,
        )

    def load(self, images: Sequence[Path]) -> None:
        """Import images from their tars."""
        for image in images:
            self.run("ctr", "--namespace=k8s.io", "images", "import", str(image), timeout=300)

    def tag(self, name: str, other: str) -> None:
        """Give an image another name."""
        self.run("ctr", "--namespace=k8s.io", "images", "tag", "--force", name, other)

    def start_kubelet(self) -> None:
        """Start kubelet."""
        self.spawn(
            "kubelet",
            [
                str(self._binaries / "kubelet"),
                *(
                    f"--config={self.directory / 'kubelet.yaml'}",
                    f"--kubeconfig={self._kubeconfig}",
                ),
                *("--container-runtime=remote", f"--hostname-override={self.name}"),
                "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
                *(f"--node-ip={self.address}", "--v=2"),
            ],
        )

    def _make_cgroups(self) -> None:
        for controller in CONTROLLERS.glob("*/"):
            (controller / self.cgroup).mkdir(exist_ok=True)
        for setting in ("cpus", "mems"):
            name = f"cpuset.{setting}"
            value = (CONTROLLERS / "cpuset" / name).read_text()
            (CONTROLLERS / "cpuset" / self.cgroup / name).write_text(value)


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
