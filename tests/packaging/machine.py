"""A machine of its own: systemd as the first process of a root, in the network of a host.

In come a root (`tests.packaging.root`) and a network namespace; out comes a running systemd with
no unit but its journal, whose processes, mounts and cgroup end with the machine. No unit of this
machine's packages is started, and nothing of it is reached but the directories that are shared.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.bed.janitor import CGROUPS, process_janitor, remove_cgroup
from tests.bed.netns import Namespace, fresh_name
from tests.bed.waiting import eventually
from tests.packaging.root import Root

UNITS: Final = ("usr/lib/systemd/system", "etc/systemd/system")
TARGET: Final = """[Unit]
Description=Nothing but the journal
DefaultDependencies=no
Wants=systemd-journald.service
AllowIsolate=yes
"""
BOOT: Final = r"""
set -eu
root=$1; cgroup=$2; shift 2
echo $$ >"$cgroup/cgroup.procs"
exec unshare --mount --pid --fork --uts --ipc --cgroup --kill-child -- sh -euc '
root=$1; shift
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts" "$root/dev/net"
for device in null zero full random urandom tty net/tun; do
  [ -e "/dev/$device" ] || continue
  # nodes of its own: crun gives /dev/null, the input of a container, to the user that it runs as
  cp -a "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
for shared in "$@"; do
  mkdir -p "$root$shared"
  mount --bind "$shared" "$root$shared"
done
# not chroot: who is in one may make no user namespace, which PrivateUsers= needs
cd "$root"
pivot_root . mnt
cd /
umount --lazy /mnt
# systemd makes credentials of services in a mount namespace that must pass its mounts on
mount --make-rshared /
exec env -i container=contiv-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=contiv-test.target --show-status=no
' sh "$root" "$@"
"""


class Machine:
    """A systemd that runs. `shared` are directories that it has at the same paths."""

    def __init__(self, root: Root, network: Namespace, log: Path, shared: Sequence[Path]) -> None:
        self.root = root
        self._network = network
        self._log = log
        self._shared = [str(path) for path in shared]
        self._cgroup = fresh_name("machine")
        self._first = ""

    def boot(self) -> "Machine":
        """Start systemd; it is up when it takes orders."""
        for folder in UNITS:
            # what packages of this machine have enabled
            for wants in (self.root.path / folder).glob("*.wants"):
                shutil.rmtree(wants)
        (self.root.path / UNITS[1] / "contiv-test.target").write_text(TARGET)
        process_janitor().watch_cgroup(self._cgroup)
        group = cgroup2() / self._cgroup
        group.mkdir()
        words = ["sh", "-c", BOOT, "sh", str(self.root.path), str(group), *self._shared]
        self._process = self._network.popen(words, log=self._log)
        self._first = eventually(self._first_process, "systemd started")
        eventually(lambda: self.systemctl("is-active", "contiv-test.target", check=False), "booted")
        return self

    def _first_process(self) -> str:
        pid = self._process.pid
        if self._process.poll() is not None:
            raise RuntimeError(f"no systemd: {self._log.read_text()}")
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        # before its last exec it is a shell, without the machine's root
        return next((x for x in children if "systemd" in Path(f"/proc/{x}/comm").read_text()), "")

    def end(self) -> None:
        """End everything in it."""
        self._process.kill()
        self._process.wait()
        eventually(self._is_gone, f"cgroup {self._cgroup} gone")

    def _is_gone(self) -> bool:
        remove_cgroup(self._cgroup)
        return not (cgroup2() / self._cgroup).exists()

    @property
    def enter(self) -> list[str]:
        """The words that, put before a command, run it inside."""
        kinds = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--root", "--wdns=/")
        return ["nsenter", "--target", self._first, *kinds, "--"]

    def run(
        self, *words: str, check: bool = True, text: str = ""
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command inside, `text` its input; `check` raises with what it said."""
        done = subprocess.run(
            [*self.enter, *words],
            input=text,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done

    def systemctl(self, *words: str, check: bool = True) -> str:
        """Return what systemctl prints; "" if it fails and need not succeed."""
        done = self.run("systemctl", *words, check=False)
        if check and done.returncode:
            raise RuntimeError(f"systemctl {' '.join(words)}: {done.stderr}{self.journal()}")
        return done.stdout.strip() if done.returncode == 0 else ""

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.systemctl("show", "--value", f"--property={name}", unit)

    def journal(self) -> str:
        """Return the last lines of all units."""
        return self.run("journalctl", "--no-pager", "--output=cat", "--lines=100").stdout


def cgroup2() -> Path:
    """Return where this machine has its cgroups of version 2."""
    unified = CGROUPS / "unified"
    return unified if unified.is_dir() else CGROUPS
