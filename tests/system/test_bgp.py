"""BGP between hosts and a real router (BIRD) on the physical network, with real packets.

The first host speaks eBGP, the second iBGP with the same router. Whoever is behind it is reached by
the routes it tells of, and reaches pods by those it is told of.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from netplugin.kernel.routes.route_table import TABLE
from tests.bed.bgp_router import ADDRESS, BEHIND, BEHIND6, EXTRA
from tests.bed.cluster import AGENT_PORT
from tests.bed.hosts import UPLINK, Host
from tests.bed.netns import http_request
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.peers import (
    BEHIND_SUBNET,
    BEHIND_SUBNET6,
    ROUTER_AS,
    ROUTERS,
    RoutedCluster,
    all_at_peace,
    in_session,
    peer,
    peers,
    pinging,
    reaches,
    shown,
)
from tests.system.planes import addresses, applied
from tests.system.scans import register_master, scanning, unguarded

pytestmark = [pytest.mark.system, pytest.mark.ovs]


@pytest.fixture(scope="module")
def cluster(bed_dirs: Iterator[Path]) -> Iterator[RoutedCluster]:
    """Have all hosts speak with the router."""
    with peers(next(bed_dirs), (UPLINK,)) as cluster:
        for host in cluster.bed.hosts:
            peer(cluster, host)
        yield cluster


@pytest.fixture(autouse=True)
def at_peace(cluster: RoutedCluster) -> None:
    """Begin each test with sessions, routes and all pods reachable."""
    all_at_peace(cluster)


def flows(host: Host) -> str:
    return host.ovs.ofctl("--no-stats", "dump-flows", "contivVlanBridge")


def has_route(host: Host, subnet: str) -> bool:
    return f"nw_dst={subnet} " in flows(host)


def loses_route(host: Host, subnet: str) -> None:
    """Wait until nothing leads to a subnet."""
    eventually(lambda: not has_route(host, subnet), f"{subnet} is gone")


def told(cluster: RoutedCluster, host: Host, address: str) -> bool:
    """Tell whether a host has told the router of an address."""
    return f"{address}/32" in told_all(cluster, host)


def told_all(cluster: RoutedCluster, host: Host) -> set[str]:
    """Return all that a host has told the router of."""
    return cluster.router.learned(ROUTERS[host.label][0])


def reported(cluster: RoutedCluster, host: Host, what: str) -> bool:
    """Tell whether netmaster says something of a host."""
    return what in cluster.bed.netctl("host", "inspect", host.label)


def links(host: Host) -> set[str]:
    found = json.loads(host.namespace.run(["ip", "-json", "link", "show"]).stdout)
    return {str(link["ifname"]) for link in found}


@pytest.fixture(params=[0, 1], ids=["ebgp", "ibgp"])
def own(request: pytest.FixtureRequest, cluster: RoutedCluster) -> tuple[Host, Pod]:
    """Pick a host, and its pod."""
    return cluster.bed.hosts[request.param], cluster.pods[request.param]


def test_the_router_is_told_of_pods_as_they_come_and_go(
    cluster: RoutedCluster, own: tuple[Host, Pod]
) -> None:
    host, pod = own
    assert told(cluster, host, pod.address)
    more = cluster.bed.add_pod(host, "more", network="vlan")
    eventually(lambda: told(cluster, host, more.address), "the new pod is told of")
    eventually(partial(cluster.router.reaches, more.address), "and reached")
    cluster.bed.delete_pod(more)
    eventually(lambda: not told(cluster, host, more.address), "it is taken back")


def test_pods_reach_who_is_behind_the_router(cluster: RoutedCluster, own: tuple[Host, Pod]) -> None:
    host, pod = own
    eventually(partial(reaches, pod, BEHIND, EXTRA), "the pod reaches who is behind")
    eventually(partial(cluster.router.reaches, pod.address), "and is reached")
    said = shown(cluster, host)
    assert set(said["routes"]) == {BEHIND_SUBNET, BEHIND_SUBNET6, f"{EXTRA}/32"}
    assert said["numRoutes"] == 3
    assert f"priority=101,ip,nw_dst={EXTRA} " in flows(host)
    listening = host.namespace.run(["ss", "-Hltn"]).stdout
    assert ":179 " not in listening, "nobody is listened to"


def test_pods_and_who_is_behind_the_router_reach_each_other_by_ipv6(
    cluster: RoutedCluster, own: tuple[Host, Pod]
) -> None:
    host, pod = own
    _, address = addresses(pod)
    eventually(lambda: f"{address}/128" in told_all(cluster, host), "the pod is told of")
    eventually(partial(reaches, pod, BEHIND6), "the pod reaches the outside")
    eventually(partial(cluster.router.reaches, address), "and is reached")
    assert f"ipv6_dst={BEHIND_SUBNET6} " in flows(host)


def test_a_route_that_is_withdrawn_leads_nowhere(
    cluster: RoutedCluster, own: tuple[Host, Pod]
) -> None:
    host, pod = own
    cluster.router.withdraw()
    try:
        loses_route(host, EXTRA)
        assert not reaches(pod, EXTRA)
        eventually(partial(reaches, pod, BEHIND), "the others are reached")
    finally:
        cluster.router.restore()


@pytest.mark.parametrize("fate", ["killed", "frozen"])
def test_a_router_that_is_gone_takes_its_routes_along(cluster: RoutedCluster, fate: str) -> None:
    """A killed one is given the time it asked for to come back, a silent one its hold time too."""
    host, daemon = cluster.bed.hosts[0], cluster.router.daemon
    daemon.kill() if fate == "killed" else daemon.pause()
    try:
        loses_route(host, BEHIND_SUBNET)
        eventually(lambda: reported(cluster, host, "no BGP session with"), "netmaster is told")
    finally:
        daemon.start() if fate == "killed" else daemon.resume()
    in_session(cluster, host)
    eventually(lambda: has_route(host, BEHIND_SUBNET), "the routes are back")


def test_a_cable_that_is_pulled_ends_the_session_until_it_is_back(cluster: RoutedCluster) -> None:
    host = cluster.bed.hosts[0]
    cluster.bed.physical.pull(host.label, UPLINK)
    try:
        loses_route(host, BEHIND_SUBNET)
    finally:
        cluster.bed.physical.push(host.label, UPLINK)
    in_session(cluster, host)
    eventually(lambda: has_route(host, BEHIND_SUBNET), "the routes are back")


@pytest.mark.parametrize("done", [["set", "inb01", "down"], ["delete", "inb01"]], ids=" ".join)
def test_the_hosts_interface_is_mended(cluster: RoutedCluster, done: list[str]) -> None:
    host = cluster.bed.hosts[0]
    host.namespace.run(["ip", "link", *done])
    words = ["ip", "route", "show", "table", str(TABLE), "dev", "inb01"]
    shown = partial(host.namespace.run, words, check=False)
    eventually(lambda: "50.1.1.0/24" in shown().stdout, "interface and route are back")
    in_session(cluster, host)


def test_an_agent_that_is_killed_and_started_again_loses_nothing(cluster: RoutedCluster) -> None:
    agent = cluster.bed.agents[0]
    with pinging(cluster.pods[0], BEHIND, cluster.bed.dir / "ping.log") as lost:
        agent.kill()
        agent.start()
        in_session(cluster, cluster.bed.hosts[0])
        applied(cluster.bed)
        assert lost() <= 1, "but for the one on its way"


def test_the_session_of_a_killed_agent_is_back_in_time(cluster: RoutedCluster) -> None:
    """Also when it is killed in the middle of its start."""
    agent, host = cluster.bed.agents[0], cluster.bed.hosts[0]
    address, _ = ROUTERS[host.label]
    for _ in range(3):
        agent.kill()
        agent.spawn()
        agent.kill()
        eventually(lambda: not cluster.router.established(address), "the router knows")
        agent.start()
        eventually(lambda: cluster.router.established(address), "the session")


def test_routes_withdrawn_while_the_agent_was_away_go(cluster: RoutedCluster) -> None:
    agent, host = cluster.bed.agents[0], cluster.bed.hosts[0]
    agent.kill()
    cluster.router.withdraw()
    try:
        agent.start()
        loses_route(host, EXTRA)
        assert has_route(host, BEHIND_SUBNET)
    finally:
        cluster.router.restore()


def test_a_wrong_peering_is_reported_and_can_be_corrected(cluster: RoutedCluster) -> None:
    host = cluster.bed.hosts[0]
    peer(cluster, host, asn=600)
    wrong = f"the peer is of AS {ROUTER_AS}, not 600"
    eventually(lambda: reported(cluster, host, wrong), "netmaster is told why")
    loses_route(host, BEHIND_SUBNET)
    peer(cluster, host)
    in_session(cluster, host)
    eventually(lambda: not reported(cluster, host, wrong), "all is well again")


def test_a_peering_that_is_deleted_leaves_nothing(cluster: RoutedCluster) -> None:
    host, pod = cluster.bed.hosts[0], cluster.pods[0]
    address, _ = ROUTERS[host.label]
    assert "inb01" in links(host)
    cluster.bed.netctl("bgp", "rm", host.label)
    try:
        eventually(lambda: "inb01" not in links(host), "its interface is gone")
        for subnet in (BEHIND_SUBNET, EXTRA, address, ADDRESS):
            loses_route(host, subnet)
        eventually(lambda: not cluster.router.learned(address), "the router forgot")
        assert not cluster.router.established(address)
        assert not reaches(pod, BEHIND)
        url = f"http://127.0.0.1:{AGENT_PORT}/inspect/bgp"
        status, body = http_request(url, namespace=host.namespace)
        assert (status, json.loads(body)) == (200, {})
    finally:
        peer(cluster, host)


def test_no_management_port_is_reached_by_a_route_of_bgp(cluster: RoutedCluster) -> None:
    """A master may be behind the router; a host may be so for the other."""
    register_master(cluster.bed, BEHIND)
    pod, guarded = cluster.pods[0], f"nw_dst={BEHIND} actions=write_metadata:0x10000000000/"
    eventually(lambda: guarded in flows(pod.host), "the host knows of the master")
    with scanning(pod, {BEHIND: cluster.router.behind}) as scan:
        assert scan.reached(BEHIND) == set()
        with unguarded(cluster.bed):
            all_at_peace(cluster)
            open_ports = scan.reached(BEHIND)
            assert {f"tcp {BEHIND} 9090", f"udp {BEHIND} 9090"} <= open_ports
        all_at_peace(cluster)
        assert scan.reached(BEHIND) == set()
