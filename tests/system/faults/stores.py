"""The stores the fault suite runs on: what it starts, tells masters, reads, and may harm.

In come a directory and the nodes; out comes a `Store`. Another kind of store is another function
like `etcd`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bed.daemon import Daemon
from tests.bed.etcd import Etcd
from tests.bed.waiting import WITHIN, eventually
from tests.system.faults.nodes import Node

CLIENT_PORT: Final = 2379
PEER_PORT: Final = 2380


@dataclass(frozen=True, slots=True)
class Store:
    """A store under test.

    `members` stand on the nodes, in their order, or beside them; all but `needed` of them may be
    harmed at a time without loss of service. `flags` name the store to the master on a node;
    `entries` reads all keys under a prefix, `remove` deletes one, at any member that answers.
    """

    members: Sequence[Daemon]
    needed: int
    flags: Callable[[int], tuple[str, ...]]
    entries: Callable[[str], dict[str, bytes]]
    remove: Callable[[str], None]

    def start(self) -> None:
        """Start every member, and wait for all of them."""
        for member in self.members:
            member.spawn()
        for member in self.members:
            member.await_ready(within=2 * WITHIN)

    def stop(self) -> None:
        """End every member."""
        for member in self.members:
            member.kill()


NewStore = Callable[[Path, Sequence[Node]], Store]


def etcd(directory: Path, nodes: Sequence[Node]) -> Store:
    """Return an etcd with a member on each node; a master prefers the one beside it."""
    peers = {node.label: f"http://{node.address}:{PEER_PORT}" for node in nodes}
    members = [
        Etcd(directory, node.namespace, node.address, CLIENT_PORT, member=node.label, peers=peers)
        for node in nodes
    ]

    def flags(place: int) -> tuple[str, ...]:
        order = [*members[place:], *members[:place]]
        return "--etcd", ",".join(member.url for member in order)

    def entries(prefix: str) -> dict[str, bytes]:
        return eventually(lambda: _read(members, prefix), "a member of etcd answers")[0]

    return Store(members, len(members) // 2 + 1, flags, entries, members[0].remove)


def _read(members: Sequence[Etcd], prefix: str) -> list[dict[str, bytes]]:
    """Return what the first member that answers has, if any does."""
    for member in members:
        try:
            return [member.entries(prefix)]
        except (OSError, RuntimeError):
            continue
    return []
