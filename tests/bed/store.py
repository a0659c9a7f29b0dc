"""The stores a test can run on: what `tests.bed.etcd` and `tests.bed.consul` have in common.

Both are daemons with `kind`, `url`, `revision`, `entries`, `delete` and `end_leases`.
"""

from typing import Final, Protocol

from objdb.api import Backend
from objdb.connect import connect, parse_store_url
from tests.bed.consul import Consul
from tests.bed.etcd import Etcd

Store = Etcd | Consul


class Reached(Protocol):
    """What a master is told of a store; the URLs of several members stand beside commas."""

    @property
    def kind(self) -> str:
        """The word that names such stores."""

    @property
    def url(self) -> str:
        """Where it is."""


STORES: Final[dict[str, type[Etcd] | type[Consul]]] = {"etcd": Etcd, "consul": Consul}


def store_url(store: Store) -> str:
    """Return a store as `--cluster-store` names it."""
    return store.url.replace("http://", f"{store.kind}://")


def client(store: Store) -> Backend:
    """Return a client of a store; close it. Call it inside a running event loop."""
    return connect(parse_store_url(store_url(store)))
