"""The docker engine of a simulated host, with the command line and containers of a test.

In comes a host; out comes an engine whose plugin folder the host's agent serves. Containers outlive
an engine that is killed, so each one that a test knows of is registered with the bed's janitor.
"""

import json
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.bed.daemon import Daemon
from tests.bed.docker import Dockerd, Mounts
from tests.bed.hosts import Host
from tests.bed.images import IMAGE, write_image
from tests.bed.janitor import Keeper, process_janitor
from tests.bed.waiting import WITHIN

PLUGIN = "netplugin"
SWARM = "swarm-mode"
"""The mode in which agents serve a managed plugin."""


NAME_SERVER: Final = "192.0.2.53"
"""A name server that is nowhere: the agent hears what containers ask it."""
_ASKS_AS_HOST: Final = 26
"""From this docker on servers at loopback addresses are asked from the host, as 28 asks all."""


def named_servers(said: str) -> tuple[str, ...]:
    """Return flags of an engine whose version says this, by which its containers ask the agent.

    As docs/docker.md says, servers have to be named to docker itself then.
    """
    return ("--dns", NAME_SERVER) if release_in(said) >= _ASKS_AS_HOST else ()


def version() -> str:
    """Return what the engine says of its version."""
    done = subprocess.run(["dockerd", "--version"], check=True, capture_output=True, text=True)
    return done.stdout


def release_in(said: str) -> int:
    """Return the first number of a version, 0 if there is none."""
    found = re.search(r"version (\d+)", said)
    return int(found[1]) if found else 0


class _Containerd(Daemon):
    """The containerd of an engine."""

    def __init__(self, host: Host, mounts: Mounts, keeper: Keeper | None) -> None:
        self.socket = host.dir / "containerd.sock"
        self._mounts = mounts
        super().__init__(
            [
                *("containerd", "--address", self.socket),
                *("--root", host.dir / "containerd", "--state", host.dir / "containerd-state"),
            ],
            log=host.dir / "containerd.log",
            namespace=host.namespace,
            ready=self.socket.is_socket,
            keeper=keeper,
        )

    def prefix(self) -> list[str]:
        """Return what runs before the program."""
        return [*super().prefix(), *self._mounts.enter]


class Engine(Dockerd):
    """One docker engine of a host, and its client."""

    def __init__(
        self,
        host: Host,
        *,
        in_swarm: bool = False,
        flags: Sequence[str] = (),
        keeper: Keeper | None = None,
    ) -> None:
        self.label = host.label
        self.address_of_host = host.address
        self._in_swarm = in_swarm
        self._dir = host.dir
        self._watcher = keeper or process_janitor()
        self.mounts = Mounts(host.dir / "plugins", keeper=keeper)
        self._containerd = _Containerd(host, self.mounts, keeper)
        named = named_servers(version())
        more = ("--containerd", str(self._containerd.socket), *named, *flags)
        super().__init__(host.dir, host.namespace, mounts=self.mounts, flags=more, keeper=keeper)

    def spawn(self) -> None:
        """Start the engine, and once the containerd that outlives it, as on a real host."""
        if not self._containerd.running:
            self._containerd.start()
        super().spawn()

    def end(self) -> None:
        """Remove all containers, and end the engine, its containerd and its mounts."""
        if self._in_swarm and self.running:
            self.attempt("swarm", "leave", "--force")
        self.empty()
        self.kill()
        for process in self._processes() if self._in_swarm else ():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._containerd.kill()
        self.mounts.delete()

    @property
    def plugin_socket(self) -> Path:
        """Where the engine, or the managed plugin in it, looks for the agent."""
        if self._in_swarm:
            return self._dir / "docker-plugin.sock"
        return self.mounts.plugins / f"{PLUGIN}.sock"

    def install_plugin(self, built: Path) -> None:
        """Create and enable the managed plugin that `make docker-plugin` has built."""
        self.docker("plugin", "create", PLUGIN, str(built))
        self.docker("plugin", "set", PLUGIN, f"agent.source={self._dir}")
        self.docker("plugin", "enable", PLUGIN)
        self.watch()

    def watch(self) -> None:
        """Have all that runs in containers now end with the bed: a swarm makes its own."""
        for process in self._processes():
            self._watcher.watch_pid(process)

    def _processes(self) -> list[int]:
        """List the shims of this engine, which outlive it, each behind what it runs."""
        found: list[int] = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                command = (process / "cmdline").read_bytes()
                if b"containerd-shim" in command and bytes(self._containerd.socket) in command:
                    for children in process.glob("task/*/children"):
                        found += map(int, children.read_text().split())
                    found.append(int(process.name))
        return found

    def load_image(self) -> None:
        """Load the image of all containers."""
        archive = self._dir / "image.tar"
        write_image(archive)
        self.docker("load", "-q", "-i", str(archive))
        archive.unlink()

    def docker(self, *words: str, check: bool = True, within: float = WITHIN) -> str:
        """Run docker's command line; its output. `check` raises with what it says."""
        done = self.attempt(*words, within=within)
        if check and done.returncode:
            text = f"{self.label}: docker {' '.join(words)}: {done.stderr or done.stdout}"
            raise RuntimeError(text)
        return done.stdout.strip()

    def attempt(self, *words: str, within: float = WITHIN) -> subprocess.CompletedProcess[str]:
        """Run docker's command line, however it ends."""
        return subprocess.run(
            ["docker", "--host", f"unix://{self.socket}", *words],
            check=False,
            capture_output=True,
            text=True,
            timeout=within,
            env={**os.environ, "DOCKER_CONFIG": str(self._dir / "docker-config")},
        )

    def run(self, name: str, network: str, *words: str, command: Sequence[str] = ()) -> str:
        """Run a container that stays, with further words for `docker run`; return its id."""
        made = ["run", "-d", "--name", name, "--network", network, *words, IMAGE, *command]
        container = self.docker(*made)
        self._watch(container)
        return container

    def once(self, network: str, *command: str, flags: Sequence[str] = ()) -> str:
        """Run a command in a container of its own; return what it prints."""
        return self.docker("run", "--rm", "--network", network, *flags, IMAGE, *command)

    def remove(self, *names: str) -> None:
        """End containers and remove them."""
        self.docker("rm", "-f", *names)

    def inspect(self, what: str) -> Any:
        """Show a container or a network as docker does."""
        return json.loads(self.docker("inspect", what))[0]

    def address(self, container: str, network: str, *, family: int = 4) -> str:
        """Return a container's address on a network."""
        shown = self.inspect(container)["NetworkSettings"]["Networks"][network]
        return str(shown["IPAddress" if family == 4 else "GlobalIPv6Address"])

    def pings(self, container: str, target: str) -> bool:
        """Return whether a container reaches another one, by address or name."""
        words = ("exec", container, "ping", "-c", "1", "-W", "1", target)
        return self.attempt(*words).returncode == 0

    def empty(self) -> None:
        """Remove all containers of an engine that runs."""
        if self.running and (containers := self.docker("ps", "-aq").split()):
            self.docker("rm", "-f", *containers)

    def _watch(self, container: str) -> None:
        pid = int(self.docker("inspect", "--format", "{{.State.Pid}}", container))
        if pid:
            stat = Path(f"/proc/{pid}/stat").read_text()
            self._watcher.watch_pid(pid)
            self._watcher.watch_pid(int(stat.rpartition(")")[2].split()[1]))
