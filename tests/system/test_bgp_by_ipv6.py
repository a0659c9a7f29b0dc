"""IPv6 by BGP between hosts and real routers of three makes, with real packets.

Sessions are by IPv4 and by IPv6. The first host speaks eBGP, the second iBGP with the same router.
Pods of a network of both families and of one with IPv6 alone are told of; whoever is behind the
router is reached by the routes it tells of, and reaches the pods.
"""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bed.bgp_peers import MAKES, PREFIX, PREFIX6, ROUTER, ROUTER6, ROUTER_AS, Told
from tests.bed.bgp_router import BEHIND, BEHIND6, AnyRouter
from tests.bed.cluster import Bed
from tests.bed.hosts import UPLINK, Host
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.conftest import unforeseen
from tests.system.peers import FLAGS, pinging, reaches
from tests.system.planes import addresses, applied, planes
from tests.system.scans import register_master, scanning, unguarded

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.thorough]

HOSTS = {
    "h1": ("50.1.1.1", "2001:db8:50::1", 65002),
    "h2": ("50.1.1.3", "2001:db8:50::3", ROUTER_AS),
}
"""The router addresses of each host, and its AS."""


class Way(NamedTuple):
    """How hosts speak with their router.

    `own`: the families of the hosts' router addresses. `by`: that of the session. `extended`: IPv4
    routes have IPv6 next hops (RFC 8950).
    """

    own: tuple[int, ...]
    by: int
    extended: bool = False

    def told(self) -> Told:
        """Return what the router is told of the hosts."""
        neighbours = {ipv4 if self.by == 4 else ipv6: asn for ipv4, ipv6, asn in HOSTS.values()}
        return Told(neighbours=neighbours, extended=self.extended)

    def words(self, host: Host) -> list[str]:
        """Return the words by which netmaster is told of the router."""
        ipv4, ipv6, own = HOSTS[host.label]
        neighbour = f"--neighbor={ROUTER}" if self.by == 4 else f"--neighbor-ipv6={ROUTER6}"
        words = [f"--as={own}", f"--neighbor-as={ROUTER_AS}", neighbour]
        words += [f"--router-ip={ipv4}/24"] if 4 in self.own else []
        return words + ([f"--router-ipv6={ipv6}/64"] if 6 in self.own else [])


BY_IPV4 = Way((4,), by=4)
WITH_GLOBAL = Way((4, 6), by=4)
BY_IPV6 = Way((4, 6), by=6)
EXTENDED = Way((4, 6), by=6, extended=True)
ALONE = Way((6,), by=6, extended=True)
WAYS = {
    "bird-by-ipv4": ("bird", WITH_GLOBAL),
    "frr-by-ipv4": ("frr", BY_IPV4),
    "frr-by-ipv4-global": ("frr", WITH_GLOBAL),
    "gobgp-by-ipv4": ("gobgp", BY_IPV4),
    "gobgp-by-ipv4-global": ("gobgp", WITH_GLOBAL),
    "bird-by-ipv6": ("bird", BY_IPV6),
    "frr-by-ipv6": ("frr", BY_IPV6),
    "bird-by-ipv6-extended": ("bird", EXTENDED),
    "frr-by-ipv6-extended": ("frr", EXTENDED),
    "gobgp-by-ipv6": ("gobgp", EXTENDED),
    "bird-by-ipv6-alone": ("bird", ALONE),
    "frr-by-ipv6-alone": ("frr", ALONE),
    "gobgp-by-ipv6-alone": ("gobgp", ALONE),
}


@pytest.fixture(scope="module")
def bed(bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster with a network of both families, and one with IPv6 alone."""
    with planes(next(bed_dirs), "routing", cards=(UPLINK,), flags=FLAGS) as bed:
        six = ["--subnetv6=fd00:62::/64", "--gatewayv6=fd00:62::1", "--pkt-tag=62"]
        bed.netctl("net", "create", *six, "--encap=vlan", "six")
        yield bed
        assert unforeseen(bed) == []


@pytest.fixture(scope="module")
def pods(bed: Bed) -> list[Pod]:
    """Have a pod of each network on each host."""
    return [
        bed.add_pod(host, f"{network}-on-{host.label}", network=network)
        for host in bed.hosts
        for network in ("vlan", "six")
    ]


@pytest.fixture(params=list(WAYS.values()), ids=list(WAYS))
def site(
    bed: Bed, bed_dirs: Iterator[Path], request: pytest.FixtureRequest
) -> Iterator[tuple[AnyRouter, Way]]:
    """Have all hosts speak with a router."""
    make, way = request.param
    name = f"{bed.physical.namespace.name}-tor"
    router = AnyRouter(name, next(bed_dirs), bed.physical, MAKES[make], way.told())
    try:
        router.start()
        for host in bed.hosts:
            bed.netctl("bgp", "create", host.label, *way.words(host))
        yield router, way
        for host in bed.hosts:
            bed.netctl("bgp", "rm", host.label)
            eventually(partial(has_nothing_left, host), f"nothing is left on {host.label}")
    finally:
        router.stop()


def has_nothing_left(host: Host) -> bool:
    """Tell whether a host has neither interface nor flows of BGP."""
    links = host.namespace.run(["ip", "-json", "link", "show"]).stdout
    of_bgp = (PREFIX, PREFIX6, ROUTER, ROUTER6, *HOSTS[host.label][:2])
    return "inb01" not in links and is_gone(host, *of_bgp)


def learns(bed: Bed, host: Host, *prefixes: str) -> bool:
    """Tell whether a host has a session and these routes by it, as netmaster shows them."""
    shown = json.loads(bed.netctl("bgp", "inspect", host.label)).get("Oper", {})
    up = shown.get("neighborStatus") == "established"
    return up and set(shown.get("routes", ())) >= set(prefixes)


def forgotten(router: AnyRouter, address: str) -> bool:
    """Tell whether the router knows an address no more."""
    return address not in router.peer.learned()


def next_hop(router: AnyRouter, address: str) -> int:
    """Return the family of the next hop by which the router's kernel sends to a pod."""
    (route,) = json.loads(router.namespace.run(["ip", "-json", "route", "get", address]).stdout)
    hop = route["gateway"] if "gateway" in route else route["via"]["host"]
    return 6 if ":" in hop else 4


def told(router: AnyRouter, address: str) -> bool:
    """Tell whether the router has learned an address, and have it forward by that."""
    found = address in router.peer.learned()
    if found:
        router.peer.forward()
    return found


def test_pods_and_who_is_behind_the_router_reach_each_other(
    bed: Bed, pods: list[Pod], site: tuple[AnyRouter, Way]
) -> None:
    router, way = site
    for host in bed.hosts:
        eventually(partial(learns, bed, host, PREFIX, PREFIX6), "routes are learned")
    for pod in pods:
        for address in addresses(pod):
            six = ":" in address
            eventually(partial(told, router, address), f"the router is told of {address}")
            eventually(partial(reaches, pod, BEHIND6 if six else BEHIND), f"{address} gets out")
            eventually(partial(router.reaches, address), f"{address} is reached")
            assert next_hop(router, address) == (6 if six or way.extended else 4)
    for host in bed.hosts:
        more = bed.add_pod(host, "more", network="six")
        eventually(partial(told, router, more.address), f"the router is told of {more.address}")
        bed.delete_pod(more)
        eventually(partial(forgotten, router, more.address), "it is taken back")


by_frr = pytest.mark.parametrize("site", [WAYS["frr-by-ipv6-extended"]], indirect=True, ids=["frr"])


@by_frr
def test_a_trace_names_the_route(bed: Bed, pods: list[Pod], site: tuple[AnyRouter, Way]) -> None:
    router, _ = site
    pod = pods[0]
    eventually(partial(reaches, pod, BEHIND, BEHIND6), "the pod gets out")
    for address, prefix in ((BEHIND, PREFIX), (BEHIND6, PREFIX6)):
        found = json.loads(bed.netctl("trace", "--json", pod.name, address, check=False))
        assert found["outcome"] == "left", found["verdict"]
        assert found["hops"][-1]["steps"][-1]["why"] == f"the BGP route to {prefix}"
    told_of = bed.netctl("trace", pod.name, "2001:db8:ffff::1", check=False)
    assert "the BGP peer of host h1 has told it of no route there" in told_of
    router.peer.kill()
    eventually(partial(is_lost, bed), "netmaster is told")


def is_lost(bed: Bed) -> bool:
    """Tell whether netmaster says of the first host that it has no session."""
    return f"no BGP session with {ROUTER6}" in bed.netctl("host", "inspect", "h1")


@by_frr
def test_no_management_port_is_reached_by_the_routers_address(
    bed: Bed, pods: list[Pod], site: tuple[AnyRouter, Way]
) -> None:
    router, _ = site
    (host, _), (pod, *_) = bed.hosts, pods
    own = HOSTS[host.label][1]
    register_master(bed, BEHIND6)
    eventually(partial(reaches, pod, BEHIND6), "the pod gets out")
    with scanning(pod, {own: host.namespace, BEHIND6: router.behind}) as scan:
        eventually(lambda: scan.reached(own, BEHIND6) == set(), "both are known")
        with unguarded(bed):
            eventually(partial(reaches, pod, BEHIND6), "the pod gets out")
            found = scan.reached(own, BEHIND6)
            assert {f"tcp {one} 9090" for one in (own, BEHIND6)} <= found
            assert {f"udp {one} 9090" for one in (own, BEHIND6)} <= found
        eventually(lambda: scan.reached(own, BEHIND6) == set(), "both are guarded again")


@by_frr
def test_an_agent_that_is_killed_and_started_again_loses_nothing(
    bed: Bed, pods: list[Pod], site: tuple[AnyRouter, Way]
) -> None:
    router, _ = site
    host, agent = bed.hosts[0], bed.agents[0]
    eventually(partial(reaches, pods[0], BEHIND, BEHIND6), "the pod gets out")
    eventually(partial(router.reaches, pods[0].address), "and is reached")
    with pinging(pods[0], BEHIND6, bed.dir / "ping6.log") as lost:
        agent.kill()
        agent.start()
        eventually(partial(learns, bed, host, PREFIX, PREFIX6), "the session is back")
        applied(bed)
        assert lost() <= 1, "but for the one on its way"


@by_frr
def test_a_peering_that_changes_leaves_nothing_of_the_one_before(
    bed: Bed, pods: list[Pod], site: tuple[AnyRouter, Way]
) -> None:
    router, way = site
    host, (pod, *_) = bed.hosts[0], pods
    eventually(partial(learns, bed, host, PREFIX, PREFIX6), "routes are learned")
    for other in (ALONE, way):
        bed.netctl("bgp", "create", host.label, *other.words(host))
        eventually(partial(has_addresses, host, other), "its interface has its addresses alone")
        eventually(partial(learns, bed, host, PREFIX, PREFIX6), "routes are learned again")
        eventually(partial(reaches, pod, BEHIND, BEHIND6), "the pod gets out")
        eventually(partial(router.reaches, pod.address), "and is reached")
    bed.netctl("bgp", "create", host.label, *BY_IPV4.words(host))
    eventually(partial(has_addresses, host, BY_IPV4), "its interface has its addresses alone")
    eventually(partial(is_gone, host, PREFIX6), "the peer by IPv4 tells of nothing")


def has_addresses(host: Host, way: Way) -> bool:
    """Tell whether a host's interface for BGP has its addresses on the router's network alone."""
    shown = host.namespace.run(["ip", "-json", "address", "show", "inb01"], check=False).stdout
    held = {one["local"] for one in json.loads(shown or "[{}]")[0].get("addr_info", ())}
    ipv4, ipv6, _ = HOSTS[host.label]
    wanted = {ipv4 if family == 4 else ipv6 for family in way.own}
    return {one for one in held if not one.startswith("fe80:")} == wanted


def is_gone(host: Host, *prefixes: str) -> bool:
    """Tell whether a host's switch has no flow that leads to a prefix or an address."""
    flows = host.ovs.ofctl("--no-stats", "dump-flows", "contivVlanBridge")
    return not any(f"{one} " in flows for one in prefixes)
