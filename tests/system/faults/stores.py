"""The stores the fault suite runs on: what it starts, tells masters, reads, and may harm.

In come a directory, the nodes and the fabric; out come the store's servers as one. Another kind
of store is another function like `etcd`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Final, NamedTuple

from tests.bed.consul import Consul
from tests.bed.etcd import Etcd
from tests.bed.hosts import Fabric
from tests.bed.store import Store
from tests.bed.waiting import eventually
from tests.system.faults.nodes import Node

CLIENT_PORT: Final = 2379
PEER_PORT: Final = 2380


class Reached(NamedTuple):
    """What a master is told of a store."""

    kind: str
    url: str


@dataclass(frozen=True, slots=True)
class Members:
    """A store under test: its servers, on the nodes in their order, or one beside them."""

    servers: Sequence[Store]

    @property
    def needed(self) -> int:
        """How many must live for the store to serve."""
        return len(self.servers) // 2 + 1

    def reached(self, place: int) -> Reached:
        """Return what the master on a node is told: it prefers the server beside it."""
        first = place % len(self.servers)
        order = [*self.servers[first:], *self.servers[:first]]
        return Reached(order[0].kind, ",".join(server.url for server in order))

    def entries(self, prefix: str) -> dict[str, bytes]:
        """Return all that is stored under a prefix, which is not nothing."""
        return eventually(lambda: self._read(prefix), "a server of the store answers")

    def delete(self, key: str) -> None:
        """Take a key away behind everybody's back."""
        self.servers[0].delete(key)

    def start(self) -> None:
        """Start every server, and wait for all of them."""
        for server in self.servers:
            server.spawn()
        for server in self.servers:
            server.await_ready()

    def stop(self) -> None:
        """End every server."""
        for server in self.servers:
            server.kill()

    def _read(self, prefix: str) -> dict[str, bytes]:
        for server in self.servers:
            try:
                return server.entries(prefix)
            except (OSError, HTTPException, RuntimeError):
                continue
        return {}


NewMembers = Callable[[Path, Sequence[Node], Fabric], Members]


def etcd(directory: Path, nodes: Sequence[Node], _: Fabric) -> Members:
    """Return an etcd with a member on each node."""
    peers = {node.label: f"http://{node.address}:{PEER_PORT}" for node in nodes}
    return Members(
        [
            Etcd(
                directory,
                node.namespace,
                node.address,
                CLIENT_PORT,
                member=node.label,
                peers=peers,
            )
            for node in nodes
        ]
    )


def consul(directory: Path, _: Sequence[Node], fabric: Fabric) -> Members:
    """Return a consul with one server, which no node takes with it."""
    return Members([Consul(directory, fabric.namespace, fabric.address)])


KINDS: Final[dict[str, NewMembers]] = {"etcd": etcd, "consul": consul}
