"""`netplugin cleanup`: removes the agent's objects from this host, and nothing else.

These are both bridges with their ports (uplink NICs are released, not removed), the links of pods,
marked iptables rules, the rules of routing and their table, the namespaces of the name service, the
journal of endpoints, the CNI socket and those of OpenFlow. The host's records in the store stay
until `netctl host rm`. The command may be repeated after an interruption; with `--dry-run` it only
prints what it would remove. `--purge` empties the agent's directories besides, for a host that no
agent returns to.
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
from core.net.unix_socket import is_served
from core.patience import patient
from core.version import VERSION
from daemons import flags
from daemons.flags import Flag, Values
from netplugin import settings
from netplugin.bridges.guards import host_guard, pod_guard
from netplugin.bridges.host import host_access, host_names
from netplugin.bridges.openflow_listeners import left_sockets
from netplugin.bridges.services import service_access
from netplugin.kernel.firewall.families import each_family, raise_any
from netplugin.kernel.firewall.iptables import Iptables
from netplugin.kernel.firewall.iptables_chains import OwnChains
from netplugin.kernel.netns import KernelLinks
from netplugin.kernel.writable_settings import make_writable
from netplugin.ovsdb import Ovsdb
from netplugin.pods.host_port_mappings import mapping_rules
from netplugin.world.bridges import port_names
from ofnet.world import Bridge

NAME: Final = "cleanup"
OVSDB_WAIT: Final = patient(10.0)

_DRY_RUN: Final = Flag(
    names=("dry-run",),
    env="DRY_RUN",
    help="say what would be removed",
    default="false",
    switch=True,
)
_PURGE: Final = Flag(
    names=("purge",),
    env="PURGE",
    help="remove all files in the run directory and the data directory, too",
    default="false",
    switch=True,
)
_FLAGS: Final = (*settings.FLAGS, _DRY_RUN, _PURGE)
"""All of the agent's, so that one list of flags serves every command; most have no effect here."""

_CHAINS: Final = (
    *host_access.CHAINS,
    *service_access.CHAINS,
    *mapping_rules.CHAINS,
    *pod_guard.CHAINS,
    *host_guard.CHAINS,
    *host_names.CHAINS,
)


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The agent's objects on this host."""

    bridges: tuple[str, ...]
    links: tuple[str, ...]
    rules: tuple[str, ...]
    routing: tuple[str, ...]
    name_spaces: tuple[Path, ...]
    paths: tuple[Path, ...]

    def __str__(self) -> str:
        lines = [
            *(f"bridge {name}" for name in self.bridges),
            *(f"link {name}" for name in self.links),
            *(f"rule {rule}" for rule in self.rules),
            *(f"routing {line}" for line in self.routing),
            *(f"namespace {path}" for path in self.name_spaces),
            *(f"path {path}" for path in self.paths),
        ]
        return "\n".join(lines)


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> None:
    """Clean this host up, or print what would be removed. Raises ContivError."""
    values = flags.read("netplugin", _FLAGS, arguments, environ, VERSION, command=NAME)
    if values is not None:
        asyncio.run(_clean_up(values))


async def _clean_up(values: Values) -> None:
    cni_socket = settings.cni_socket(values)
    # First: a running agent would recreate everything while it is being removed.
    _refuse_beside_an_agent(cni_socket)
    firewall = Iptables(_CHAINS)
    chains = {
        OwnChains(): service_access.TABLES,
        OwnChains(mapping_rules.PREFIX): mapping_rules.TABLES,
        OwnChains(host_guard.PREFIX): host_guard.TABLES,
    }
    async with await Ovsdb.connect(values["ovsdb"], wait=OVSDB_WAIT) as ovsdb:
        with closing(KernelLinks()) as links:
            rules: list[str] = []

            async def find(version: int) -> None:
                rules.extend(await firewall.found((version,)))
                for own, tables in chains.items():
                    rules.extend(await own.found(tables, (version,)))

            async def withdraw(version: int) -> None:
                await firewall.keep((), (version,))
                for own, tables in chains.items():
                    await own.remove(tables, (version,))

            unread = await each_family(find)
            journal = settings.journal_dir(values)
            host_id = journal.parent / settings.HOST_ID
            paths = [cni_socket, *left_sockets(values["ovsdb"]), journal, host_id]
            if values.on("purge"):
                paths += _contents(values["run-dir"], values["data-dir"])
            name_spaces = port_names.name_spaces(Path(values["run-dir"])).values()
            found = await _find(ovsdb, links, rules, tuple(name_spaces), paths)
            sys.stdout.write(f"{found}\n" if str(found) else "nothing of contiv is on this host\n")
            if not values.on("dry-run"):
                _allow_settings()
                if found.rules:
                    raise_any(await each_family(withdraw))
                await _remove(ovsdb, links, found)
            raise_any(unread)


def _contents(*directories: str) -> list[Path]:
    """Return what is in directories; the directories themselves may be mounts of a container."""
    present = [Path(name) for name in directories if Path(name).is_dir()]
    return [path for directory in present for path in sorted(directory.iterdir())]


def _allow_settings() -> None:
    try:
        make_writable()
    except HostError as exc:
        sys.stderr.write(f"{exc}\n")


def _refuse_beside_an_agent(cni_socket: Path) -> None:
    """Raise Conflict while an agent serves the CNI socket."""
    if is_served(cni_socket):
        raise Conflict(
            f"an agent answers at {cni_socket}: stop netplugin first, and netplugin.socket "
            "where systemd listens for it"
        )


async def _find(
    ovsdb: Ovsdb,
    links: KernelLinks,
    rules: Sequence[str],
    name_spaces: Sequence[Path],
    paths: Sequence[Path],
) -> Leftovers:
    present = await links.links()
    spaces = tuple(path for path in name_spaces if path.exists())
    left = (path for path in paths if path.is_symlink() or path.exists())
    return Leftovers(
        bridges=tuple(sorted(ovsdb.bridges() & set(Bridge))),
        links=tuple(sorted(filter(_is_agents, present))),
        rules=tuple(rules),
        routing=tuple(await links.routing()),
        name_spaces=spaces,
        paths=tuple(path for path in dict.fromkeys(left) if path not in spaces),
    )


def _is_agents(link: str) -> bool:
    return port_names.pod_number(link) is not None or port_names.is_name_port(link)


async def _remove(ovsdb: Ovsdb, links: KernelLinks, found: Leftovers) -> None:
    for bridge in found.bridges:
        await ovsdb.delete_bridge(bridge)
    await links.withdraw_routing()
    await links.delete_links(found.links)
    for path in found.name_spaces:
        await links.remove_name_space(path)
    for path in found.paths:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        except OSError as exc:
            raise HostError(f"cannot remove {path}: {exc}") from exc
