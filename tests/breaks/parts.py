"""Breaks of what is beside a cluster: consul, docker, a router that speaks BGP, another release.

As in `tests.breaks.plain`: each function breaks a site, and mends it at its end.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from core.version import VERSION
from tests.bed.bgp_router import ADDRESS, EXTRA, BgpRouter
from tests.bed.daemon import Daemon
from tests.bed.engines import Engine
from tests.bed.hosts import UPLINK
from tests.bed.release import claiming
from tests.bed.secured import SecuredConsul
from tests.breaks.beds import give_token, take_token
from tests.breaks.breakable_cluster import CONSUL, DOCKER, PEERS, PLAIN, BreakableCluster
from tests.breaks.plain import filtered
from tests.breaks.table import Break, adding
from tests.system.peers import RoutedCluster, peer

BREAKS: Final[dict[str, Break]] = {}
OLDER: Final = "0.1.0"
"""What a daemon says of itself that an upgrade has left out."""
breaks = adding(BREAKS)


# consul


def _consul(cluster: BreakableCluster) -> SecuredConsul:
    assert isinstance(cluster.bed.store, SecuredConsul)
    return cluster.bed.store


@breaks(
    CONSUL,
    "consul is dead",
    "netctl net create -s 10.44.0.0/24 n44",
    "store",
    "does not answer",
)
def consul_dead(cluster: BreakableCluster) -> Iterator[None]:
    _consul(cluster).kill()
    yield
    _consul(cluster).start()


@breaks(CONSUL, "the agent does not reach consul", "readyz h2", "store", "firewall")
def consul_filtered(cluster: BreakableCluster) -> Iterator[None]:
    with filtered(cluster, "-p tcp --dport 2379"):
        yield


@breaks(CONSUL, "consul does not know the daemons' token", "readyz h2", "consul", "token")
def token_lost(cluster: BreakableCluster) -> Iterator[None]:
    take_token(_consul(cluster))
    yield
    give_token(_consul(cluster))


# docker


def _engine(cluster: BreakableCluster) -> Engine:
    return cluster.bed.engines[1]


@breaks(
    DOCKER,
    "the docker engine is dead",
    "netctl host inspect h2",
    "Cannot connect to the Docker daemon",
)
def engine_dead(cluster: BreakableCluster) -> Iterator[None]:
    _engine(cluster).kill()
    yield
    _engine(cluster).start()


@breaks(
    DOCKER,
    "the socket by which docker calls the agent is gone",
    "netctl host inspect h2",
    "netplugin.sock",
    "restart netplugin",
)
def plugin_socket_gone(cluster: BreakableCluster) -> Iterator[None]:
    _engine(cluster).plugin_socket.unlink()
    yield
    cluster.agent("h2").restart()


# BGP


def _router(cluster: BreakableCluster) -> BgpRouter:
    assert cluster.router is not None
    return cluster.router


@breaks(PEERS, "the BGP peer is dead", "netctl host inspect h1", f"no BGP session with {ADDRESS}")
def peer_dead(cluster: BreakableCluster) -> Iterator[None]:
    _router(cluster).daemon.kill()
    yield
    _router(cluster).daemon.start()


@breaks(
    PEERS,
    "the BGP peer is of another AS",
    "netctl host inspect h1",
    "the peer is of AS 500, not 600",
)
def peer_of_another_as(cluster: BreakableCluster) -> Iterator[None]:
    found = RoutedCluster(cluster.bed, _router(cluster), [*cluster.pods.values()])
    peer(found, cluster.one, asn=600)
    yield
    peer(found, cluster.one)


@breaks(
    PEERS,
    "the BGP peer asks for a password",
    "netctl host inspect h1",
    "no BGP session",
    "--bgp-password-file",
)
def peer_with_password(cluster: BreakableCluster) -> Iterator[None]:
    router = _router(cluster)
    router.set_password("secret")
    yield
    router.set_password("")


@breaks(
    PEERS, "the BGP peer takes a route back", f"netctl trace on-h1 {EXTRA}", "BGP peer", "no route"
)
def route_withdrawn(cluster: BreakableCluster) -> Iterator[None]:
    _router(cluster).withdraw()
    yield
    _router(cluster).restore()


@breaks(
    PEERS,
    "an uplink is in another VLAN",
    "netctl trace --live on-h1 on-h2",
    "between",
    "h2",
)
def uplink_in_another_vlan(cluster: BreakableCluster) -> Iterator[None]:
    cluster.bed.physical.misplace("h2", UPLINK)
    yield
    cluster.bed.physical.place_back("h2", UPLINK)


# another release


@contextmanager
def _older(cluster: BreakableCluster, *daemons: tuple[str, Daemon]) -> Iterator[None]:
    """Run daemons, each by its program, as ones of another release during the body."""
    before = [list(daemon.command) for _, daemon in daemons]
    for _, daemon in daemons:
        daemon.stop()
    for program, daemon in daemons:
        daemon.command[0] = str(claiming(program, OLDER, cluster.bed.dir))
        daemon.start()
    try:
        yield
    finally:
        for _, daemon in daemons:
            daemon.stop()
        for (_, daemon), command in zip(daemons, before, strict=True):
            daemon.command = command
            daemon.start()


@breaks(
    PLAIN,
    "an upgrade has left an agent out",
    "netctl host ls",
    f"{OLDER} (netmaster {VERSION})",
)
def older_agent(cluster: BreakableCluster) -> Iterator[None]:
    with _older(cluster, ("netplugin", cluster.agent("h2"))):
        yield


@breaks(PLAIN, "an upgrade has left the masters out", "preflight h2", "netmaster at", f"of {OLDER}")
def older_masters(cluster: BreakableCluster) -> Iterator[None]:
    with _older(cluster, ("netmaster", cluster.bed.netmaster), ("netmaster", cluster.second)):
        yield
