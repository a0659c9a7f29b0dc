"""deploy/quadlets: both daemons and Open vSwitch by podman, under a systemd with nothing else.

The root is a minimal Debian 13 with systemd and podman: no Python, no Open vSwitch, no iptables. It
boots, podman's generator makes units of our files, systemd starts them, and pods reach each other.
Run by `make image-check`, which builds the images; needs mmdebstrap, and Debian's archive once.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from core.version import VERSION
from tests.bed.etcd import Etcd
from tests.bed.hosts import Fabric
from tests.bed.netns import Namespace, answers, fresh_name, http_request
from tests.bed.waiting import eventually
from tests.matrix.releases import RELEASES
from tests.packaging.kinds import ROOT
from tests.packaging.machine import Machine
from tests.packaging.root import Root, overlaid

FILES: Final = ROOT / "deploy" / "quadlets"
UNITS: Final = ("openvswitch", "netmaster", "netplugin")
CACHE: Final = Path("/var/cache/contiv-matrix")
PACKAGES: Final = "ca-certificates,iproute2,iputils-ping,podman,procps,systemd"
ADDRESS: Final = "192.168.77.1"
MODES: Final = ("MODE=kubernetes", "NET_MODE=vxlan", "FORWARD_MODE=routing")
# layers are copied: an overlay in an overlay is none
STORAGE: Final = (
    '[storage]\ndriver = "vfs"\nrunroot = "/run/storage"\ngraphroot = "/var/lib/containers"\n'
)
# the machine may have no controllers in its cgroup, and has no D-Bus to ask systemd by
LIMITS: Final = '[containers]\npids_limit = 0\n[engine]\ncgroup_manager = "cgroupfs"\n'
SLOW: Final = 120
"""Seconds: layers are copied for each container."""


@pytest.mark.timeout(1200)
def test_the_units_run_both_daemons_on_a_host_with_podman_alone(bed_dir: Path) -> None:
    with booted(bed_dir) as (machine, host, store):
        settings(machine.root, store)
        for name in UNITS:
            source = FILES / f"{name}.container"
            shutil.copy(source, machine.root.path / "etc/containers/systemd")
        machine.systemctl("daemon-reload")
        for name in UNITS:
            assert machine.show(f"{name}.service", "LoadState") == "loaded"
        units = [f"/run/systemd/generator/{name}.service" for name in UNITS]
        said = machine.run("systemd-analyze", "verify", *units)
        assert not re.search(r"quadlet|netmaster|netplugin|openvswitch", said.stderr), said.stderr
        for name in UNITS[:2]:
            machine.systemctl("start", f"{name}.service")
        network = ("--subnet=10.20.0.0/16", "--gateway=10.20.0.1")
        netctl = ("podman", "exec", "netmaster", "netctl", "--netmaster", "http://127.0.0.1:9999")
        eventually(lambda: leads(host), "netmaster leads", within=SLOW)
        machine.run(*netctl, "net", "create", *network, "default-net")
        # the unit is active when the agent says that it is ready
        machine.systemctl("start", "netplugin.service")
        assert answers(f"http://{ADDRESS}:9090/readyz", namespace=host)
        _, page = http_request(f"http://{ADDRESS}:9090/metrics", namespace=host)
        assert f'version="{VERSION}"'.encode() in page
        machine.run("mkdir", "-p", "/opt/cni/bin")
        machine.run(*install_cni())
        addresses = [add(machine, pod) for pod in ("left", "right")]
        eventually(lambda: reaches(machine, "left", addresses[1]), "the pods' network")
        # another agent takes over what the first one left
        machine.systemctl("restart", "netplugin.service")
        eventually(lambda: reaches(machine, "left", addresses[1]), "the pods' network again")
        for pod in ("left", "right"):
            call(machine, "DEL", pod)
        machine.systemctl("stop", *(f"{name}.service" for name in reversed(UNITS)))
        for name in UNITS:
            assert machine.show(f"{name}.service", "ActiveState") == "inactive", machine.journal()
        assert machine.run("podman", "ps", "--all", "--quiet").stdout == ""
        assert machine.run("stat", "--format=%U", "/dev/null").stdout == "root\n"


@contextmanager
def booted(directory: Path) -> Iterator[tuple[Machine, Namespace, Etcd]]:
    """Boot the root in the network of a host, with a store in the fabric; yield the three."""
    with ExitStack() as undo:
        fabric = Fabric(fresh_name("fabric"))
        undo.callback(fabric.stop)
        fabric.start()
        host = Namespace(fresh_name("h1"))
        undo.callback(host.delete)
        host.create()
        fabric.join(host, "uh1")
        host.run(["ip", "address", "add", f"{ADDRESS}/24", "dev", "eth0"])
        host.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        store = Etcd(directory, fabric.namespace, fabric.address, 2379)
        undo.callback(store.kill)
        store.start()
        root = undo.enter_context(overlay(directory / "overlay", minimal()))
        machine = Machine(root, host, directory / "systemd.log", [])
        undo.callback(machine.end)
        machine.boot()
        for image in ("netplugin", "openvswitch"):
            inside = root.path / "var" / f"{image}.tar"
            shutil.copy(ROOT / "build/image" / inside.name, inside)
            machine.run("podman", "load", "--quiet", "--input", f"/var/{inside.name}")
            inside.unlink()
        yield machine, host, store


def minimal() -> Path:
    """Return the root, which is made once."""
    root, half = CACHE / "podman", CACHE / "podman.half"
    if not root.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["rm", "-rf", "--one-file-system", str(half)], check=True)
        suite = RELEASES["trixie"].suites[0]
        words = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}"]
        subprocess.run([*words, suite, str(half)], check=True)
        half.rename(root)
    return root


@contextmanager
def overlay(directory: Path, lower: Path) -> Iterator[Root]:
    """Mount a root of podman's, with its settings; its changes are gone at the end."""
    directory.mkdir()
    with overlaid(directory, lower) as root:
        (root.path / "etc/containers/systemd").mkdir(parents=True, exist_ok=True)
        (root.path / "etc/containers/storage.conf").write_text(STORAGE)
        (root.path / "etc/containers/containers.conf").write_text(LIMITS)
        yield root


def settings(root: Root, store: Etcd) -> None:
    """Write the files of settings, as docs/installation.md says."""
    (root.path / "etc/contiv").mkdir()
    own = {
        "NETMASTER": [f"INTERNAL_ADDRESS={ADDRESS}:9999"],
        "NETPLUGIN": ["HOST=h1", f"CONTROL_IP={ADDRESS}", f"VTEP_IP={ADDRESS}"],
    }
    for daemon, lines in own.items():
        values = [*MODES, f"ETCD_ENDPOINTS={store.url}", *lines]
        text = "".join(f"CONTIV_{daemon}_{value}\n" for value in values)
        (root.path / f"etc/contiv/{daemon.lower()}.env").write_text(text)


def install_cni() -> list[str]:
    """Return the command of docs/installation.md that puts the plugin on the host."""
    page = (ROOT / "docs/installation.md").read_text()
    found = re.search(r"^podman run --rm .*install-cni.*$", page, re.MULTILINE)
    assert found is not None
    return found[0].split()


def leads(host: Namespace) -> bool:
    """Tell whether netmaster leads."""
    text = f'"leader-ip":"{ADDRESS}:9999"'.encode()
    return answers(f"http://{ADDRESS}:9999/info", namespace=host, text=text)


def call(machine: Machine, verb: str, pod: str) -> dict[str, Any]:
    """Have the plugin on the host add or remove a pod, as a runtime would."""
    conf = {"cniVersion": "1.0.0", "name": "contiv-net", "type": "contivk8s"}
    words = [
        *("env", f"CNI_COMMAND={verb}", f"CNI_CONTAINERID={pod}", "CNI_IFNAME=eth0"),
        *(f"CNI_NETNS=/run/netns/{pod}", "CNI_PATH=/opt/cni/bin", "/opt/cni/bin/contivk8s"),
    ]
    said = machine.run(*words, text=json.dumps(conf)).stdout
    found: dict[str, Any] = json.loads(said) if said else {}
    return found


def add(machine: Machine, pod: str) -> str:
    """Make a pod; return its address."""
    machine.run("ip", "netns", "add", pod)
    return str(call(machine, "ADD", pod)["ips"][0]["address"]).partition("/")[0]


def reaches(machine: Machine, pod: str, address: str) -> bool:
    """Tell whether a pod gets an answer to a ping."""
    ping = ("ip", "netns", "exec", pod, "ping", "-c", "1", "-W", "1", address)
    return machine.run(*ping, check=False).returncode == 0
