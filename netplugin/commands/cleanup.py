"""`netplugin cleanup`: removes the agent's objects from this host, and nothing else.

These are both bridges with their ports (uplink NICs are released, not removed), the links of pods,
marked iptables rules, the journal of endpoints and the CNI socket. The host's records in the store
stay until `netctl host rm`. The command may be repeated after an interruption; with `--dry-run` it
only prints what it would remove.
"""

import asyncio
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core.errors import Conflict, HostError
from core.version import VERSION
from daemons import flags
from daemons.flags import Flag, Values
from netplugin import settings
from netplugin.bridges import host_access, node_ports
from netplugin.cni.server import is_served
from netplugin.kernel.iptables import Iptables
from netplugin.kernel.netns import KernelLinks
from netplugin.ovsdb import Ovsdb
from netplugin.world import port_names
from ofnet.world import Bridge

NAME: Final = "cleanup"
OVSDB_WAIT: Final = 10.0

_DRY_RUN: Final = Flag(
    names=("dry-run",),
    env="DRY_RUN",
    help="say what would be removed",
    default="false",
    switch=True,
)
_FLAGS: Final = (*settings.FLAGS, _DRY_RUN)
"""All of the agent's, so that one list of flags serves every command; most have no effect here."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The agent's objects on this host."""

    bridges: tuple[str, ...]
    links: tuple[str, ...]
    rules: tuple[str, ...]
    paths: tuple[Path, ...]

    def __str__(self) -> str:
        lines = [
            *(f"bridge {name}" for name in self.bridges),
            *(f"link {name}" for name in self.links),
            *(f"rule {rule}" for rule in self.rules),
            *(f"path {path}" for path in self.paths),
        ]
        return "\n".join(lines)


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Clean this host up, or print what would be removed. Raises ContivError."""
    values = flags.read("netplugin", _FLAGS, arguments, environ, VERSION)
    if values is not None:
        asyncio.run(_clean_up(values))


async def _clean_up(values: Values) -> None:
    cni_socket = settings.cni_socket(values)
    # First: a running agent would recreate everything while it is being removed.
    _refuse_beside_an_agent(cni_socket)
    firewall = Iptables((*host_access.CHAINS, *node_ports.CHAINS))
    async with await Ovsdb.connect(values["ovsdb"], wait=OVSDB_WAIT) as ovsdb:
        with closing(KernelLinks()) as links:
            rules = await firewall.found()
            found = await _find(ovsdb, links, rules, (cni_socket, settings.journal_dir(values)))
            sys.stdout.write(f"{found}\n" if str(found) else "nothing of contiv is on this host\n")
            if not values.on("dry-run"):
                await _remove(ovsdb, links, firewall, found)


def _refuse_beside_an_agent(cni_socket: Path) -> None:
    """Raise Conflict while an agent serves the CNI socket."""
    if is_served(cni_socket):
        raise Conflict(f"an agent answers at {cni_socket}: stop netplugin first")


async def _find(
    ovsdb: Ovsdb, links: KernelLinks, rules: Sequence[str], paths: Sequence[Path]
) -> Leftovers:
    present = await links.links()
    return Leftovers(
        bridges=tuple(sorted(ovsdb.bridges() & set(Bridge))),
        links=tuple(sorted(name for name in present if port_names.pod_number(name) is not None)),
        rules=tuple(rules),
        paths=tuple(path for path in paths if path.exists()),
    )


async def _remove(ovsdb: Ovsdb, links: KernelLinks, firewall: Iptables, found: Leftovers) -> None:
    if found.rules:
        await firewall.keep(())
    for bridge in found.bridges:
        await ovsdb.delete_bridge(bridge)
    await links.delete_links(found.links)
    for path in found.paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        except OSError as exc:
            raise HostError(f"cannot remove {path}: {exc}") from exc
