"""`netplugin install-cni`, `keep-cni`, `remove-cni`: the files that a runtime reads, on a node.

In a cluster of Kubernetes (`deploy/kubernetes`) an init container installs `contivk8s` in the
runtime's directory of plugins, and the files that keep network managers off the agent's links
(`netplugin.commands.link_files`); a container beside the agent keeps the network configuration in
place while the agent is ready (`/readyz`). Without a configuration kubelet reports its node
NotReady, and no pod is given to it. A restart of the agent is shorter than the grace, so that it
changes nothing.

`netplugin.entry` runs these without loading the agent, so this module imports next to nothing of
it: it runs on each node for as long as the agent.
"""

import argparse
import http.client
import logging
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.end_signal import told_to_end
from core.net import tls_trust
from core.patience import patient
from netplugin.commands import link_files

INSTALL: Final = "install-cni"
KEEP: Final = "keep-cni"
REMOVE: Final = "remove-cni"
HELP: Final = {
    INSTALL: "install contivk8s in the runtime's directory of plugins",
    KEEP: "keep the network configuration in place while the agent is ready",
    REMOVE: "remove both from this host",
}

PLUGIN: Final = "contivk8s"
CONFLIST: Final = "10-contiv.conflist"
BIN_DIR: Final = Path("/opt/cni/bin")
CONF_DIR: Final = Path("/etc/cni/net.d")
GRACE: Final = 60.0
INTERVAL: Final = 1.0
ANSWER: Final = patient(5.0)
"""Seconds for the agent to answer; its checks take less (`daemons.health`)."""

log = logging.getLogger(__name__)


def source() -> Path:
    """Return the plugin that belongs to this agent: the static program where it was compiled.

    A wheel has the one that needs `/usr/bin/python3` alone.
    """
    folder = Path(__file__).parents[2] / PLUGIN
    compiled = folder / PLUGIN
    return compiled if compiled.exists() else folder / "main.py"


def place(content: bytes, target: Path, mode: int) -> bool:
    """Write a file at once, under a name that no runtime reads before; return whether it differed.

    A runtime may run or read the old one meanwhile.
    """
    if target.exists() and target.read_bytes() == content and target.stat().st_mode & 0o777 == mode:
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.new")
    new.write_bytes(content)
    new.chmod(mode)
    new.replace(target)
    return True


class Keeper:
    """Keeps the network configuration in place while the agent is ready, and removes it after."""

    def __init__(
        self,
        conflist: Path,
        target: Path,
        *,
        ready: Callable[[], str],
        clock: Callable[[], float],
        grace: float,
    ) -> None:
        self._conflist = conflist
        self._target = target
        self._ready = ready
        self._clock = clock
        self._grace = grace
        self._last_ready = clock()

    def step(self) -> None:
        """Ask the agent, once, and do what follows. Raises OSError if a file cannot be changed."""
        fault = self._ready()
        if not fault:
            self._last_ready = self._clock()
            # 0600, as runtimes and kubelet, which are root's, need no more
            if place(self._conflist.read_bytes(), self._target, 0o600):
                log.info("the agent is ready: %s is in place", self._target)
        elif self._clock() - self._last_ready >= self._grace and self._target.exists():
            self._target.unlink()
            log.warning(
                "the agent has not been ready for %g s: %s is removed, and the node becomes "
                "NotReady: %s",
                self._grace,
                self._target,
                fault,
            )


def fault_of(url: str, authorities: Path | None = None) -> str:
    """Ask an agent whether it is ready; return why it is not, "" if it is.

    `authorities` is the file with those that an agent with TLS has its certificate of. It is read
    each time, since it may be replaced.
    """
    try:
        trust = None if authorities is None else tls_trust.client_context(ca_file=str(authorities))
        with urllib.request.urlopen(  # noqa: S310 - a URL of the command line
            url, timeout=ANSWER, context=trust
        ):
            return ""
    except urllib.error.HTTPError as exc:
        return exc.read(4096).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as exc:
        return f"{url}: {exc}"


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one host."""

    plugin: Path
    configuration: Path
    links: Mapping[Path, str]
    """What network managers read, by path; empty without `--etc`."""


def run(arguments: Sequence[str]) -> int:
    """Run a command; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = _parser().parse_args(arguments)
    links = {} if options.etc is None else link_files.FILES
    files = Files(
        options.bin_dir / PLUGIN,
        options.conf_dir / CONFLIST,
        {options.etc / path: text for path, text in links.items()},
    )
    try:
        match options.command:
            case "install-cni":
                place(source().read_bytes(), files.plugin, 0o755)
                for path, text in files.links.items():
                    place(text.encode(), path, 0o644)
                for path in (files.plugin, *files.links):
                    log.info("%s is in place", path)
            case "remove-cni":
                for path in (files.configuration, files.plugin, *files.links):
                    path.unlink(missing_ok=True)
                    log.info("%s is removed", path)
            case _:
                _keep(options, files)
    except OSError as exc:
        sys.stderr.write(f"{exc.filename}: {exc.strerror}: is the directory mounted, writable?\n")
        return 1
    return 0


def _keep(options: argparse.Namespace, files: Files) -> None:
    told = told_to_end()
    keeper = Keeper(
        options.conflist,
        files.configuration,
        ready=lambda: fault_of(options.url, options.ca),
        clock=time.monotonic,
        grace=options.grace,
    )
    # The configuration stays when this process ends: an upgrade of the agent follows.
    while not told.is_set():
        keeper.step()
        told.wait(INTERVAL)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="netplugin", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in HELP.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--bin-dir", type=Path, default=BIN_DIR, help="plugins' directory")
        command.add_argument(
            "--conf-dir", type=Path, default=CONF_DIR, help="network configurations' directory"
        )
        command.add_argument(
            "--etc",
            type=Path,
            help="/etc or /run of the host, for files that keep NetworkManager and "
            "systemd-networkd off the agent's links; without it there are none",
        )
        if name == KEEP:
            command.add_argument(
                "--conflist", type=Path, required=True, help="the configuration to keep in place"
            )
            command.add_argument("--url", required=True, help="the agent's /readyz")
            command.add_argument(
                "--ca", type=Path, help="the authorities of an agent that is asked by https"
            )
            command.add_argument(
                "--grace",
                type=float,
                default=GRACE,
                help="seconds after which the configuration of an agent that is not ready goes",
            )
    return parser
