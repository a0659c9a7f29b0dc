"""A root as a machine of its own: mount, process, host name, IPC and network namespaces.

In comes a root (`tests.matrix.roots`); commands run in it, in its network or in this machine's,
which packages come by. All that runs in it ends with its first process.
"""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_START: Final = r"""
root=$1
hostname "$(basename "$root")"
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
for group in /sys/fs/cgroup; do mount --rbind "$group" "$root$group"; done
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts" "$root/dev/net"
for device in null zero full random urandom tty net/tun fuse kmsg; do
  [ -e "/dev/$device" ] || continue
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir "$root/run/lock"
cd "$root"
mkdir -p mnt
pivot_root . mnt
cd /
umount --lazy /mnt
mount --make-rshared /
ip link set lo up
# an address that is not loopback; no way leads anywhere, and names fail at once
ip link add host0 type veth peer name other0
ip address add 192.0.2.1/24 dev host0
ip link set host0 up
ip link set other0 up
echo up
trap exit TERM
while :; do sleep 3600 & wait $!; done
"""


class Box:
    """The machine; `start` before the first command, `stop` at the end."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._outer: subprocess.Popen[str] | None = None
        self._first = 0

    def start(self) -> None:
        """Make its namespaces and mounts."""
        kinds = ["--mount", "--pid", "--fork", "--uts", "--ipc", "--net", "--kill-child"]
        words = ["unshare", *kinds, "bash", "-euc", _START, "box", str(self.root)]
        self._outer = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._outer.stdout is not None
        if self._outer.stdout.readline() != "up\n":
            raise RuntimeError(f"{self.root} does not start")
        children = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        self._first = int(children.read_text().split()[0])

    def run(
        self, script: str, *, online: bool = False, output: IO[str] | int | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a script of bash in it; `online`: in this machine's network."""
        kinds: Sequence[str] = ("--mount", "--pid", "--uts", "--ipc", "--root", "--wdns=/")
        enter = ["nsenter", f"--target={self._first}", *kinds, *([] if online else ["--net"])]
        environ = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": _PATH, "TERM": "dumb"}
        environ |= {"PIP_CERT": "/etc/ssl/certs/ca-certificates.crt", "PIP_DEFAULT_TIMEOUT": "180"}
        # a machine that is slow needs it in here as well
        environ |= {name: os.environ[name] for name in ("BED_PATIENCE",) if name in os.environ}
        words = [f"{name}={value}" for name, value in environ.items()]
        return subprocess.run(
            [*enter, "--", "env", "-i", *words, "bash", "-c", script],
            stdout=output,
            stderr=subprocess.STDOUT if output is not None else None,
            text=True,
            check=False,
        )

    def stop(self) -> None:
        """End all that runs in it."""
        if self._outer is not None:
            self._outer.kill()  # its child, the first process inside, ends with it
            self._outer.wait()
