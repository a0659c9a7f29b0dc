"""The stores a benchmark can run on: how each is started, and how a netmaster finds it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from objdb.api import Backend
from objdb.connect import connect, parse_endpoints
from tests.bed.consul import Consul
from tests.bed.etcd import Etcd
from tests.bed.etcd_cluster import EtcdCluster
from tests.bed.master import Master
from tests.bed.store import Reached


class Server(Reached, Protocol):
    """A store of the bed: one process or several."""

    def start(self) -> None:
        """Start it and wait until it is ready."""

    def kill(self) -> None:
        """End it at once."""


@dataclass(frozen=True, slots=True)
class Store:
    """A kind of store, and how soon another netmaster must serve when one is killed."""

    name: str
    make: Callable[[Path], Server]
    within: float

    def master(self, directory: Path, server: Server, name: str) -> Master:
        """Return a netmaster on a server of this kind, not started."""
        return Master(directory, server, name=name, leads=False)

    def client(self, server: Server) -> Backend:
        """Return a client of a server of this kind."""
        return client(server.kind, server.url)


def client(kind: str, url: str) -> Backend:
    """Return a client of a store by its kind and its endpoints."""
    named = {"etcd": "", "consul": "", kind: url}
    return connect(parse_endpoints("bench", named["etcd"], named["consul"]))


ETCD: Final = Store("etcd", Etcd, 3.0)
ETCD_CLUSTER: Final = Store("etcd, 3 members", EtcdCluster, 5.0)
CONSUL: Final = Store("consul", Consul, 5.0)
STORES: Final = (ETCD, CONSUL)
"""What a benchmark that can run on any store runs on."""
