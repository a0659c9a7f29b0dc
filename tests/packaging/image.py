"""The image, by a containerd without a registry: both daemons run from it, and nothing is left.

Run by `make image-check`, which builds the image.
"""

import json
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from core.version import VERSION
from tests.bed.containerd import Containerd
from tests.bed.etcd import Etcd
from tests.bed.hosts import Fabric, Host
from tests.bed.metrics import parsed
from tests.bed.netns import answers, fresh_name, http_request
from tests.bed.plugin import compiled
from tests.bed.waiting import eventually
from tests.packaging.kinds import ROOT

IMAGE: Final = f"docker.io/contiv/netplugin:{VERSION}"
TAR: Final = ROOT / "build/image/netplugin.tar"
NOT_IN_IT: Final = frozenset(
    {"sh", "bash", "dash", "apt-get", "dpkg", "perl", "mount", "cp", "rm", "cat", "env", "pip"}
)
"""Programs that an intruder would look for, and that no container of ours needs."""
LOOPBACK: Final = {"cniVersion": "1.0.0", "name": "lo", "plugins": [{"type": "loopback"}]}
CAPABILITIES: Final = (
    *("CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_NET_BIND_SERVICE"),
    *("CAP_DAC_OVERRIDE", "CAP_SYS_ADMIN"),
)
"""Those of the agent in deploy/kubernetes."""
MODES: Final = ("--mode", "kubernetes", "--netmode", "vxlan", "--fwdmode", "routing")


@dataclass(frozen=True)
class ImageHost:
    """A host with a store, an Open vSwitch and a containerd that has the image."""

    host: Host
    store: Etcd
    containerd: Containerd

    def ctr(self, *words: str) -> str:
        """Run containerd's client beside it; fails if it does."""
        client = ["ctr", "--address", str(self.containerd.socket), *words]
        done = self.host.namespace.run(client, timeout=300)
        return done.stdout

    def run(self, name: str, *command: str, wait: bool = False) -> None:
        """Run a container of the image on the host's network; its own end is waited for."""
        directory = self.host.dir
        shared = f"type=bind,src={directory},dst={directory},options=rbind:rw"
        added = [word for one in CAPABILITIES for word in ("--cap-add", one)]
        how = ["--rm"] if wait else ["--detach"]
        group = ("--cgroup", f"/{self.containerd.cgroup}/{name}")
        self.ctr(
            *("run", *how, "--net-host", "--snapshotter", "native", "--mount", shared, *added),
            *(*group, IMAGE, name, *command),
        )

    def settings_are_writable(self, name: str) -> bool:
        """Tell whether a container may make settings of the kernel; it has Python to ask by."""
        script = "import os; print(os.statvfs('/proc/sys').f_flag & os.ST_RDONLY)"
        words = ("tasks", "exec", "--exec-id", f"{name}-asked", name, "python3", "-c", script)
        return self.ctr(*words).strip() == "0"

    def agent_flags(self) -> list[str]:
        """Return the flags of the host's agent."""
        host = self.host
        return [
            *(*MODES, "--etcd", self.store.url, "--host", host.label),
            *("--ctrl-ip", host.address, "--vtep-ip", host.address),
            *("--run-dir", str(host.dir / "run"), "--data-dir", str(host.dir / "data")),
            *("--ovsdb", f"unix:{host.ovs.db_socket}"),
        ]


@pytest.fixture
def image_host(bed_dir: Path) -> Iterator[ImageHost]:
    """Make the host, and give its containerd the image."""
    with ExitStack() as undo:
        fabric = Fabric(fresh_name("fabric"))
        undo.callback(fabric.stop)
        fabric.start()
        host = Host(1, fresh_name("h1"), bed_dir / "h1")
        undo.callback(host.stop)
        host.start(fabric)
        store = Etcd(bed_dir, fabric.namespace, fabric.address, 2379)
        undo.callback(store.kill)
        store.start()
        plugin = compiled()
        containerd = Containerd(bed_dir / "cd", host.namespace, plugin).prepare(LOOPBACK)
        undo.callback(containerd.destroy)
        containerd.start(within=60)
        image_host = ImageHost(host, store, containerd)
        image_host.ctr("images", "import", "--snapshotter", "native", str(TAR))
        yield image_host


def files_of(image: Path) -> set[str]:
    """Return the paths in all layers of a docker archive."""
    with tarfile.open(image) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        (described,) = json.load(manifest)
        found: set[str] = set()
        for name in described["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(name)) as layer:
                found |= {member.name.removeprefix("./") for member in layer}
    return found


def test_the_image_has_no_shell_and_no_package_manager() -> None:
    files = files_of(TAR)
    folders = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "opt/contiv/bin")
    programs = {path.rpartition("/")[2] for path in files if path.rpartition("/")[0] in folders}
    assert {"netplugin", "netmaster", "netctl", "python3", "iptables", "ip6tables-save", "nft"} <= (
        programs
    )
    assert not programs & NOT_IN_IT
    # as scanners look for them
    assert {f"var/lib/dpkg/status.d/{name}" for name in ("libc6", "iptables")} <= files


@pytest.mark.timeout(900)
def test_the_image_runs_and_leaves_nothing(image_host: ImageHost) -> None:
    host = image_host.host
    master = f"{host.address}:9999"
    image_host.run(
        "netmaster",
        "netmaster",
        *MODES,
        "--etcd",
        image_host.store.url,
        "--internal-address",
        master,
    )
    leads = f'"leader-ip":"{master}"'.encode()
    eventually(
        lambda: answers(f"http://{master}/info", namespace=host.namespace, text=leads),
        "a leader",
        within=60,
    )
    image_host.run("netplugin", "netplugin", *image_host.agent_flags())
    agent = f"http://{host.address}:9090"
    eventually(lambda: answers(f"{agent}/readyz", namespace=host.namespace), "the agent", within=60)
    assert image_host.settings_are_writable("netplugin")
    assert not image_host.settings_are_writable("netmaster"), "as the runtime has made it"
    _, page = http_request(f"{agent}/metrics", namespace=host.namespace)
    assert parsed(page).value("contiv_netplugin_build_info", version=VERSION) == 1
    for name in ("netplugin", "netmaster"):
        image_host.ctr("tasks", "rm", "--force", name)
        image_host.ctr("containers", "rm", name)
    image_host.run("cleanup", "netplugin", "cleanup", *image_host.agent_flags(), wait=True)
    assert host.ovs.vsctl("list-br").split() == ["br-phy"]
    image_host.ctr("images", "rm", "--sync", IMAGE)
    for kind in ("containers", "images", "tasks"):
        assert image_host.ctr(kind, "ls", "-q") == "", kind
    assert len(image_host.ctr("snapshots", "--snapshotter", "native", "ls").splitlines()) == 1
