"""Breaks of clusters beside Kubernetes, and of those with TLS between their daemons.

As in `tests.breaks.plain`: each function breaks a site, and mends it at its end.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from netplugin.world.kubernetes.policy_objects import NETWORK_POLICIES
from tests.bed.cluster import ADMIN, MASTER
from tests.bed.daemon import Daemon
from tests.bed.identities import Identities
from tests.bed.kubernetes import ApiServer, service
from tests.breaks.breakable_cluster import KUBERNETES, SECURE, BreakableCluster
from tests.breaks.table import Break, adding

BREAKS: Final[dict[str, Break]] = {}
EMPTY: Final = "10.96.0.7"

breaks = adding(BREAKS)


# Kubernetes


def _api(cluster: BreakableCluster) -> ApiServer:
    assert cluster.bed.api is not None
    return cluster.bed.api


@contextmanager
def _policy(cluster: BreakableCluster, name: str, **spec: Any) -> Iterator[None]:
    _api(cluster).put(NETWORK_POLICIES, "default", name, spec=spec)
    yield
    _api(cluster).delete(NETWORK_POLICIES, "default", name)


@breaks(
    KUBERNETES,
    "a NetworkPolicy lets nobody in",
    "netctl trace -l tcp -P 80 web1 db1",
    "NetworkPolicy default/closed",
    "ingress",
)
def policy_in(cluster: BreakableCluster) -> Iterator[None]:
    with _policy(cluster, "closed", podSelector={}, policyTypes=["Ingress"]):
        yield


@breaks(
    KUBERNETES,
    "a NetworkPolicy lets nothing out",
    "netctl trace -l tcp -P 80 web1 db1",
    "NetworkPolicy default/inside",
    "egress",
)
def policy_out(cluster: BreakableCluster) -> Iterator[None]:
    with _policy(cluster, "inside", podSelector={}, policyTypes=["Egress"]):
        yield


@breaks(
    KUBERNETES,
    "a service of Kubernetes has no endpoints",
    f"netctl trace -l tcp -P 80 web1 {EMPTY}",
    "empty",
    "no provider",
)
def no_endpoints(cluster: BreakableCluster) -> Iterator[None]:
    port = {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}
    _api(cluster).put("services", "default", "empty", **service(EMPTY, port, addresses=(EMPTY,)))
    yield
    _api(cluster).delete("services", "default", "empty")


@breaks(KUBERNETES, "the API server is not well", "journal h1", "503")
def api_failing(cluster: BreakableCluster) -> Iterator[None]:
    _api(cluster).failing = 503
    _api(cluster).hang_up()
    yield
    _api(cluster).failing = 0


@breaks(KUBERNETES, "the agent's token is not valid", "journal h1", "Unauthorized")
def token_refused(cluster: BreakableCluster) -> Iterator[None]:
    _api(cluster).token = "another"
    _api(cluster).hang_up()
    yield
    _api(cluster).token = ""


@breaks(
    KUBERNETES,
    "the agent may not read policies",
    "journal h1",
    "may not read networkpolicies",
)
def forbidden(cluster: BreakableCluster) -> Iterator[None]:
    _api(cluster).forbidden.add(NETWORK_POLICIES)
    _api(cluster).hang_up()
    yield
    _api(cluster).forbidden.discard(NETWORK_POLICIES)


# TLS


def _identities(cluster: BreakableCluster) -> Identities:
    assert cluster.bed.identities is not None
    return cluster.bed.identities


@contextmanager
def _other_files(cluster: BreakableCluster, name: str, make: Callable[[], None]) -> Iterator[None]:
    """Have a name another certificate during the body."""
    own = _identities(cluster).directory / name
    kept = own.with_name(f"{name}-kept")
    shutil.copytree(own, kept)
    try:
        make()
        yield
    finally:
        shutil.rmtree(own)
        kept.rename(own)


@contextmanager
def _restarted(agent: Daemon) -> Iterator[None]:
    agent.stop()
    agent.spawn()
    yield
    agent.kill()


@breaks(SECURE, "netctl trusts another authority", "netctl net ls", "x509")
def other_authority(cluster: BreakableCluster) -> Iterator[None]:
    identities = _identities(cluster)
    other = Identities(identities.directory / "other", lambda _what, _command: None)
    other.initialize()
    other.issue("admin", ADMIN)

    def make() -> None:
        for file in ("ca.pem", "cert.pem", "key.pem"):
            shutil.copy(other.directory / ADMIN / file, identities.directory / ADMIN / file)

    with _other_files(cluster, ADMIN, make):
        yield


@breaks(
    SECURE,
    "a reader wants to change something",
    "netctl net create -s 10.44.0.0/24 n44",
    "Access denied",
)
def reader(cluster: BreakableCluster) -> Iterator[None]:
    with _other_files(cluster, ADMIN, lambda: _identities(cluster).issue("reader", ADMIN)):
        yield


@breaks(SECURE, "netctl speaks plain HTTP to a secure master", "plain net ls", "https")
def plain_http(_site: BreakableCluster) -> Iterator[None]:
    yield


@breaks(SECURE, "the agent's certificate has expired", "journal h2", "certificate", "expired")
def expired(cluster: BreakableCluster) -> Iterator[None]:
    identities, two = _identities(cluster), cluster.two

    def make() -> None:
        identities.expire("agent", "h2", two.address, "127.0.0.1")

    with _other_files(cluster, "h2", make), _restarted(cluster.agent("h2")):
        yield
    cluster.agent("h2").start()


@breaks(
    SECURE,
    "the host's clock is an hour behind",
    "journal h2",
    "certificate is not yet valid",
    "by the clock of this machine",
    "is the clock right?",
)
def slow_clock(cluster: BreakableCluster) -> Iterator[None]:
    identities, two = _identities(cluster), cluster.two

    def make() -> None:
        # what was issued now is of the future there; no clock but the machine's can be set
        begins = timedelta(hours=1)
        identities.issue_for(begins, "agent", "h2", two.address, "127.0.0.1")

    with _other_files(cluster, "h2", make), _restarted(cluster.agent("h2")):
        yield
    cluster.agent("h2").start()


@breaks(SECURE, "the master's certificate has expired", "journal netmaster", "has expired")
def master_expired(cluster: BreakableCluster) -> Iterator[None]:
    master = cluster.bed.netmaster

    def make() -> None:
        _identities(cluster).expire("master", MASTER, cluster.bed.fabric.address)

    with _other_files(cluster, MASTER, make):
        master.stop()
        master.spawn()
        yield
        master.kill()
    # the other one leads meanwhile, so that it is not ready in the sense of a first master
    master.spawn()


@breaks(
    SECURE,
    "the agent's certificate is of another authority",
    "journal h2",
    "certificate",
    "authority",
)
def agent_of_another_authority(cluster: BreakableCluster) -> Iterator[None]:
    identities, two = _identities(cluster), cluster.two
    other = Identities(identities.directory / "elsewhere", lambda _what, _command: None)
    other.initialize()
    other.issue("agent", "h2", two.address, "127.0.0.1")

    def make() -> None:
        for file in ("ca.pem", "cert.pem", "key.pem"):
            shutil.copy(other.directory / "h2" / file, identities.directory / "h2" / file)

    with _other_files(cluster, "h2", make), _restarted(cluster.agent("h2")):
        yield
    cluster.agent("h2").start()
    shutil.rmtree(other.directory)


@breaks(SECURE, "the agent's certificate is of another host", "journal h2", "certificate", "h9")
def other_host(cluster: BreakableCluster) -> Iterator[None]:
    identities, two = _identities(cluster), cluster.two

    def make() -> None:
        identities.issue("agent", "h9", two.address, "127.0.0.1")
        for file in ("cert.pem", "key.pem"):
            shutil.copy(identities.directory / "h9" / file, identities.directory / "h2" / file)

    with _other_files(cluster, "h2", make), _restarted(cluster.agent("h2")):
        yield
    cluster.agent("h2").start()
