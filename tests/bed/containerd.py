"""A private containerd whose pods a test runs by CRI, as kubelet does, in a host's namespace.

In come a directory, a network configuration and the folder of a CNI plugin; out comes `client()`.
It has a process namespace of its own, so that its shims and containers end with it, and all it
mounts is below its directory.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.bed.busybox import write_image
from tests.bed.cri import Cri, CriError
from tests.bed.daemon import Daemon
from tests.bed.janitor import Keeper, detach_mounts, process_janitor, remove_cgroup
from tests.bed.netns import Namespace, fresh_name
from tests.bed.waiting import eventually

PLUGINS = Path("/usr/lib/cni")
"""Where Debian's package containernetworking-plugins has the reference plugins."""
IMAGE = "bed.test/pause:1"

# Propagation: the network namespaces that containerd mounts must be seen by the agent, outside; its
# /proc must not. So its directory is a shared mount before the mount namespaces part.
_ALONE = 'mount --make-rprivate /proc && mount -t proc proc /proc && exec containerd "$@"'

_CONFIG = """\
version = 2
root = "{dir}/root"
state = "{dir}/state"
[grpc]
  address = "{dir}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{dir}/bin"
    conf_dir = "{dir}/net.d"
    max_conf_num = 1
"""


class Containerd(Daemon):
    """One containerd; `plugin` is the CNI plugin beside those of Debian."""

    def __init__(
        self,
        dir: Path,  # noqa: A002 - the bed's word for it everywhere
        namespace: Namespace,
        plugin: Path,
        *,
        keeper: Keeper | None = None,
    ) -> None:
        self.dir = dir
        self.cgroup = fresh_name("pods")
        self.socket = dir / "containerd.sock"
        self._plugin = plugin
        self._watcher = keeper or process_janitor()
        super().__init__(
            [
                *("unshare", "--pid", "--fork", "--kill-child"),
                *("--mount", "--propagation", "unchanged", "sh", "-c", _ALONE, "containerd"),
                *("--config", dir / "containerd.toml"),
            ],
            log=dir.with_suffix(".log"),
            namespace=namespace,
            ready=self._answers,
            keeper=keeper,
        )

    def configure(self, conf: Mapping[str, Any]) -> None:
        """Set the network configuration list of the pods to come; it is read anew by itself."""
        file = self.dir / "net.d" / "10-bed.conflist"
        new = file.with_suffix(".new")
        new.write_text(json.dumps(conf))
        new.replace(file)

    def prepare(self, conf: Mapping[str, Any]) -> "Containerd":
        """Make its directory, with a first network configuration; then it can be started."""
        self._watcher.watch_dir(self.dir)
        self._watcher.watch_cgroup(self.cgroup)
        for part in ("bin", "net.d"):
            (self.dir / part).mkdir(parents=True)
        subprocess.run(["mount", "--bind", self.dir, self.dir], check=True)
        subprocess.run(["mount", "--make-shared", self.dir], check=True)
        for plugin in (*PLUGINS.iterdir(), self._plugin):
            (self.dir / "bin" / plugin.name).symlink_to(plugin)
        (self.dir / "containerd.toml").write_text(_CONFIG.format(dir=self.dir, image=IMAGE))
        self.configure(conf)
        return self

    def load_image(self) -> None:
        """Give a running containerd the image that pods are made of."""
        image = self.dir / "pause.tar"
        write_image(image, IMAGE)
        client = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io"]
        subprocess.run([*client, "images", "import", str(image)], check=True, capture_output=True)

    def client(self) -> Cri:
        """Return a new connection to it."""
        return Cri(self.socket, cgroup=self.cgroup)

    def namespaces(self) -> list[Path]:
        """Return the network namespaces of its pods."""
        return sorted(self.dir.glob("state/*/netns/*"))

    def destroy(self) -> None:
        """End it with all its pods, at once, and remove what is left of them."""
        self.kill()
        detach_mounts(self.dir)
        shutil.rmtree(self.dir, ignore_errors=True)
        eventually(self._cgroup_gone, f"cgroup {self.cgroup} gone")

    def _cgroup_gone(self) -> bool:
        remove_cgroup(self.cgroup)
        return not any(Path("/sys/fs/cgroup").glob(f"*/{self.cgroup}"))

    def _answers(self) -> bool:
        if not self.socket.exists():
            return False
        try:
            with self.client() as cri:
                return cri.network_ready()
        except CriError:
            return False
