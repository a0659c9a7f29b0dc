"""BGP between hosts and a real router (BIRD) on the physical network, with real packets.

The first host speaks eBGP, the second iBGP with the same router. Whoever is behind it is reached by
the routes it tells of, and reaches pods by those it is told of.
"""

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.bed.bgp_router import ADDRESS, BEHIND, EXTRA, BgpRouter
from tests.bed.cluster import AGENT_PORT, Bed
from tests.bed.hosts import UPLINK, Host
from tests.bed.netns import http_request
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.conftest import unforeseen
from tests.system.planes import applied, planes

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.timeout(240)]

HOST_AS, ROUTER_AS = 65002, 500
ROUTERS = {"h1": ("50.1.1.1", HOST_AS), "h2": ("50.1.1.3", ROUTER_AS)}
BEHIND_SUBNET = "198.51.100.0/24"
FLAGS = {"netplugin": ["--audit-interval", "5"]}
SLOW = 60.0
"""Seconds within which sessions and routes come and go, on a busy machine."""


class Site(NamedTuple):
    """A cluster whose hosts have a router to speak with, and a pod each."""

    bed: Bed
    router: BgpRouter
    pods: list[Pod]


@pytest.fixture(scope="module")
def site(bed_dirs: Iterator[Path]) -> Iterator[Site]:
    """Run a cluster of two hosts and a router, all of them peers."""
    directory = next(bed_dirs)
    with planes(directory, "routing", cards=(UPLINK,), flags=FLAGS) as bed:
        router = BgpRouter(
            f"{bed.physical.namespace.name}-tor",
            directory / "tor",
            bed.physical,
            asn=ROUTER_AS,
            neighbours=dict(ROUTERS.values()),
        )
        try:
            router.start()
            pods = [bed.add_pod(host, f"on-{host.label}", network="vlan") for host in bed.hosts]
            site = Site(bed, router, pods)
            for host in bed.hosts:
                peer(site, host)
            yield site
            assert unforeseen(bed) == []
        finally:
            router.stop()


@pytest.fixture(autouse=True)
def at_peace(site: Site) -> None:
    """Begin each test with sessions, routes and all pods reachable."""
    for host, pod in zip(site.bed.hosts, site.pods, strict=True):
        in_session(site, host)
        eventually(partial(reaches, pod, BEHIND, EXTRA), f"{pod.name} reaches all", within=SLOW)


def peer(site: Site, host: Host, *, asn: int = ROUTER_AS) -> None:
    address, own = ROUTERS[host.label]
    words = [f"--router-ip={address}/24", f"--as={own}"]
    words += [f"--neighbor={ADDRESS}", f"--neighbor-as={asn}"]
    site.bed.netctl("bgp", "create", host.label, *words)


def shown(site: Site, host: Host) -> dict[str, Any]:
    """Return what netmaster says of a host's session."""
    said: dict[str, Any] = json.loads(site.bed.netctl("bgp", "inspect", host.label))
    return dict(said.get("Oper", {}))


def in_session(site: Site, host: Host) -> None:
    """Wait for both ends to say that there is a session."""
    address, _ = ROUTERS[host.label]
    eventually(lambda: site.router.established(address), f"{host.label}'s session", within=SLOW)
    eventually(
        lambda: shown(site, host).get("neighborStatus") == "established",
        f"netmaster knows of {host.label}'s session",
        within=SLOW,
    )


def reaches(pod: Pod, *addresses: str) -> bool:
    return all(pod.ping(address) is not None for address in addresses)


def flows(host: Host) -> str:
    return host.ovs.ofctl("--no-stats", "dump-flows", "contivVlanBridge")


def has_route(host: Host, subnet: str) -> bool:
    return f"nw_dst={subnet} " in flows(host)


def loses_route(host: Host, subnet: str) -> None:
    """Wait until nothing leads to a subnet."""
    eventually(lambda: not has_route(host, subnet), f"{subnet} is gone", within=SLOW)


def told(site: Site, host: Host, address: str) -> bool:
    """Tell whether a host has told the router of an address."""
    return f"{address}/32" in site.router.learned(ROUTERS[host.label][0])


def reported(site: Site, host: Host, what: str) -> bool:
    """Tell whether netmaster says something of a host."""
    return what in site.bed.netctl("host", "inspect", host.label)


def links(host: Host) -> set[str]:
    found = json.loads(host.namespace.run(["ip", "-json", "link", "show"]).stdout)
    return {str(link["ifname"]) for link in found}


@contextmanager
def pinging(pod: Pod, address: str, log: Path) -> Iterator[Callable[[], int]]:
    """Ping all the while; yield what ends it and counts the echoes that are missing."""
    log.unlink(missing_ok=True)
    process = pod.namespace.popen(["ping", "-q", "-n", "-i", "0.05", "-w", "200", address], log=log)

    def lost() -> int:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        said = log.read_text()
        counts = re.search(r"(\d+) packets transmitted, (\d+) received", said)
        assert counts, said
        assert int(counts[2]) > 10, said
        return int(counts[1]) - int(counts[2])

    try:
        yield lost
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=[0, 1], ids=["ebgp", "ibgp"])
def own(request: pytest.FixtureRequest, site: Site) -> tuple[Host, Pod]:
    """Pick a host, and its pod."""
    return site.bed.hosts[request.param], site.pods[request.param]


def test_the_router_is_told_of_pods_as_they_come_and_go(site: Site, own: tuple[Host, Pod]) -> None:
    host, pod = own
    assert told(site, host, pod.address)
    more = site.bed.add_pod(host, "more", network="vlan")
    eventually(lambda: told(site, host, more.address), "the new pod is told of", within=SLOW)
    eventually(partial(site.router.reaches, more.address), "and reached", within=SLOW)
    site.bed.delete_pod(more)
    eventually(lambda: not told(site, host, more.address), "it is taken back", within=SLOW)


def test_pods_reach_who_is_behind_the_router(site: Site, own: tuple[Host, Pod]) -> None:
    host, pod = own
    assert reaches(pod, BEHIND, EXTRA)
    assert site.router.reaches(pod.address)
    said = shown(site, host)
    assert set(said["routes"]) == {BEHIND_SUBNET, f"{EXTRA}/32"}
    assert said["numRoutes"] == 2
    assert f"priority=101,ip,nw_dst={EXTRA} " in flows(host)
    listening = host.namespace.run(["ss", "-Hltn"]).stdout
    assert ":179 " not in listening, "nobody is listened to"


def test_a_route_that_is_withdrawn_leads_nowhere(site: Site, own: tuple[Host, Pod]) -> None:
    host, pod = own
    site.router.withdraw()
    try:
        loses_route(host, EXTRA)
        assert not reaches(pod, EXTRA)
        assert reaches(pod, BEHIND)
    finally:
        site.router.restore()


@pytest.mark.parametrize("fate", ["killed", "frozen"])
def test_a_router_that_is_gone_takes_its_routes_along(site: Site, fate: str) -> None:
    """A killed one is given the time it asked for to come back, a silent one its hold time too."""
    host, daemon = site.bed.hosts[0], site.router.daemon
    daemon.kill() if fate == "killed" else daemon.pause()
    try:
        loses_route(host, BEHIND_SUBNET)
        eventually(lambda: reported(site, host, "no BGP session with"), "netmaster is told")
    finally:
        daemon.start() if fate == "killed" else daemon.resume()
    in_session(site, host)
    eventually(lambda: has_route(host, BEHIND_SUBNET), "the routes are back", within=SLOW)


def test_a_cable_that_is_pulled_ends_the_session_until_it_is_back(site: Site) -> None:
    host = site.bed.hosts[0]
    site.bed.physical.pull(host.label, UPLINK)
    try:
        loses_route(host, BEHIND_SUBNET)
    finally:
        site.bed.physical.push(host.label, UPLINK)
    in_session(site, host)
    eventually(lambda: has_route(host, BEHIND_SUBNET), "the routes are back", within=SLOW)


@pytest.mark.parametrize("done", [["set", "inb01", "down"], ["delete", "inb01"]], ids=" ".join)
def test_the_hosts_interface_is_mended(site: Site, done: list[str]) -> None:
    host = site.bed.hosts[0]
    host.namespace.run(["ip", "link", *done])
    shown = partial(host.namespace.run, ["ip", "route", "show", "dev", "inb01"], check=False)
    eventually(lambda: "50.1.1.0/24" in shown().stdout, "interface and route are back", within=SLOW)
    in_session(site, host)


def test_an_agent_that_is_killed_and_started_again_loses_nothing(site: Site) -> None:
    agent = site.bed.agents[0]
    with pinging(site.pods[0], BEHIND, site.bed.dir / "ping.log") as lost:
        agent.kill()
        agent.start()
        in_session(site, site.bed.hosts[0])
        applied(site.bed)
        assert lost() <= 1, "but for the one on its way"


def test_routes_withdrawn_while_the_agent_was_away_go(site: Site) -> None:
    agent, host = site.bed.agents[0], site.bed.hosts[0]
    agent.kill()
    site.router.withdraw()
    try:
        agent.start()
        loses_route(host, EXTRA)
        assert has_route(host, BEHIND_SUBNET)
    finally:
        site.router.restore()


def test_a_wrong_peering_is_reported_and_can_be_corrected(site: Site) -> None:
    host = site.bed.hosts[0]
    peer(site, host, asn=600)
    wrong = f"the peer is of AS {ROUTER_AS}, not 600"
    eventually(lambda: reported(site, host, wrong), "netmaster is told why", within=SLOW)
    loses_route(host, BEHIND_SUBNET)
    peer(site, host)
    in_session(site, host)
    eventually(lambda: not reported(site, host, wrong), "all is well again", within=SLOW)


def test_a_peering_that_is_deleted_leaves_nothing(site: Site) -> None:
    host, pod = site.bed.hosts[0], site.pods[0]
    address, _ = ROUTERS[host.label]
    assert "inb01" in links(host)
    site.bed.netctl("bgp", "rm", host.label)
    try:
        eventually(lambda: "inb01" not in links(host), "its interface is gone", within=SLOW)
        for subnet in (BEHIND_SUBNET, EXTRA, address, ADDRESS):
            loses_route(host, subnet)
        eventually(lambda: not site.router.learned(address), "the router forgot", within=SLOW)
        assert not site.router.established(address)
        assert not reaches(pod, BEHIND)
        url = f"http://127.0.0.1:{AGENT_PORT}/inspect/bgp"
        status, body = http_request(url, namespace=host.namespace)
        assert (status, json.loads(body)) == (200, {})
    finally:
        peer(site, host)
