"""Cleaning up behind a test run, however it ends.

In come the names of things a run has made (process ids, network namespaces, directories, cgroups),
one line each; exactly these are removed when the run is over. Two keepers write the lines:
`Janitor`, a child process that sweeps as soon as its owner closes the pipe or dies, and `Ledger`, a
file that is swept on request (a demo that is left up). Must not know what the things are for. Run
as a program, this file is the janitor's child: it reads lines from its standard input and
therefore imports the standard library alone.
"""

import functools
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

NETNS_DIR = Path("/run/netns")
CGROUPS = Path("/sys/fs/cgroup")
PATIENCE = 10.0


class Keeper(Protocol):
    """Takes note of what a run makes, before it is made where the name is known."""

    dies_with_owner: bool

    def watch_pid(self, pid: int) -> None:
        """Kill this very process at the end (recognised by its start time)."""

    def watch_namespace(self, name: str) -> None:
        """Delete this network namespace at the end."""

    def watch_dir(self, path: Path) -> None:
        """Delete this directory at the end, after detaching what is mounted in it."""

    def watch_cgroup(self, name: str) -> None:
        """Delete this cgroup of every hierarchy at the end, with those in it."""


class _Lines:
    """The keepers' common part: what is watched becomes a line."""

    def watch_pid(self, pid: int) -> None:
        started = start_time(pid)
        if started is not None:
            self._write(f"pid {pid} {started}")

    def watch_namespace(self, name: str) -> None:
        self._write(f"namespace {name}")

    def watch_dir(self, path: Path) -> None:
        self._write(f"dir {path}")

    def watch_cgroup(self, name: str) -> None:
        self._write(f"cgroup {name}")

    def _write(self, line: str) -> None:
        raise NotImplementedError


class Janitor(_Lines):
    """A child in a session of its own that sweeps when its owner closes it or dies."""

    dies_with_owner = True

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def close(self) -> None:
        """Sweep now; return when all is gone."""
        if self._child.stdin is not None and not self._child.stdin.closed:
            self._child.stdin.close()
        self._child.wait()

    def _write(self, line: str) -> None:
        if self._child.stdin is None:
            raise RuntimeError("the janitor has no pipe")
        self._child.stdin.write(f"{line}\n".encode())
        self._child.stdin.flush()


class Ledger(_Lines):
    """A file of what was made, for things that outlive their maker; `sweep` it later."""

    dies_with_owner = False

    def __init__(self, path: Path) -> None:
        self.path = path

    def any_alive(self) -> bool:
        """Whether a process the file names still runs."""
        words = [line.split() for line in self.path.read_text().splitlines()]
        return any(start_time(int(word[1])) == word[2] for word in words if word[0] == "pid")

    def sweep(self) -> None:
        """Remove everything the file names, then the file."""
        sweep(self.path.read_text().splitlines())
        self.path.unlink()

    def _write(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{line}\n")


@functools.cache
def process_janitor() -> Janitor:
    """Return this process's janitor; whatever it watches goes when this process ends."""
    return Janitor()


def start_time(pid: int) -> str | None:
    """Say when a process started, in clock ticks since boot; None when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return stat.rpartition(")")[2].split()[19]


def sweep(lines: Iterable[str]) -> None:
    """Remove what the lines name: processes first, then namespaces, directories and cgroups."""
    things = [line.split(" ", 1) for line in lines]
    _kill([value for kind, value in things if kind == "pid"])
    for kind, value in things:
        if kind == "namespace" and (NETNS_DIR / value).exists():
            subprocess.run(["ip", "netns", "delete", value], check=False, stderr=subprocess.DEVNULL)
    for kind, value in things:
        if kind == "dir":
            detach_mounts(Path(value))
            shutil.rmtree(value, ignore_errors=True)
    for kind, value in things:
        if kind == "cgroup":
            remove_cgroup(value)


def detach_mounts(directory: Path) -> None:
    """Detach what is mounted at a directory and below; a container runtime leaves such mounts."""
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in reversed(mounts):
        if Path(mount).is_relative_to(directory):
            subprocess.run(["umount", "--lazy", mount], check=False, stderr=subprocess.DEVNULL)


def remove_cgroup(name: str) -> None:
    """Remove a cgroup and those in it; of version 1 each controller has a hierarchy."""
    for found in (*CGROUPS.glob(name), *CGROUPS.glob(f"*/{name}")):
        below = (path for path in found.rglob("*") if path.is_dir())
        for cgroup in (*sorted(below, reverse=True), found):
            with suppress(OSError):  # it is gone, or a process in it is still ending
                cgroup.rmdir()


def _kill(processes: list[str]) -> None:
    handles = [handle for process in processes if (handle := _killed(process)) is not None]
    deadline = time.monotonic() + PATIENCE
    for handle in handles:
        select.select([handle], [], [], max(0.0, deadline - time.monotonic()))
        os.close(handle)


def _killed(process: str) -> int | None:
    """Kill the process if it is still the same one; a handle that is readable once it is gone."""
    pid, started = process.split()
    try:
        handle = os.pidfd_open(int(pid))
    except OSError:  # gone; or its number is a thread's by now: ENOENT or EINVAL, by the kernel
        return None
    if start_time(int(pid)) != started:
        os.close(handle)
        return None
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    return handle


if __name__ == "__main__":
    sweep([line.rstrip("\n") for line in sys.stdin])
