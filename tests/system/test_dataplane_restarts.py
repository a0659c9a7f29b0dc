"""What passes goes on and what is denied stays denied, whatever is killed, frozen or tampered with.

In both forwarding modes, on both networks, for IPv4 and IPv6: datagrams go down open and forbidden
lanes all the while. Agents, netmaster and store may go without a loss; the userspace switch
forwards nothing while it is away, and what is measured is how soon after its return all is open.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bed.cluster import Bed
from tests.bed.daemon import Daemon
from tests.bed.hosts import Host
from tests.bed.waiting import PATIENCE, eventually
from tests.system.footprint import BRIDGES, eventually_same, steady
from tests.system.planes import FWD_MODES, NETWORKS, add_rules, addresses, applied, lasting, planes
from tests.system.watcher import Lane, Watcher, unbroken, watching

pytestmark = [pytest.mark.system, pytest.mark.thorough]

OPEN = 7000
FORBIDDEN = 7001
RULES = {
    "1": ["--action=deny", "--protocol=udp", "--priority=1"],
    "2": ["--action=allow", "--protocol=udp", f"--port={OPEN}", "--priority=10"],
}
AWAY = 12.0
"""Seconds the store is away."""
FLAGS = {"netplugin": ["--audit-interval", f"{5 * PATIENCE:g}"]}
"""In a slow guest an audit takes longer than five seconds: one would follow the other."""


class Lanes(NamedTuple):
    """The ways that are watched."""

    passing: list[Lane]
    forbidden: list[Lane]

    def without_agents(self, bed: Bed) -> "Lanes":
        """Return the ways without the open ones that close while an agent is away."""
        kept = set(lasting(bed, (lane.address for lane in self.passing)))
        return Lanes([lane for lane in self.passing if lane.address in kept], self.forbidden)


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts in a forwarding mode, with a network of either encapsulation."""
    with planes(next(bed_dirs), request.param, flags=FLAGS) as bed:
        yield bed


@pytest.fixture(scope="module")
def lanes(bed: Bed) -> Lanes:
    """Run pods, see that all lanes are open, then forbid some of them."""
    lanes = Lanes([], [])
    for network in NETWORKS:
        _lay(bed, network, lanes)
    with watching([*lanes.passing, *lanes.forbidden]):
        pass
    for network in NETWORKS:
        add_rules(bed, f"guard-{network}", RULES)
    return lanes


def _lay(bed: Bed, network: str, lanes: Lanes) -> None:
    """Lay lanes from a pod in no group into the group, on its host and on another, and back."""
    here, there = bed.hosts
    group = f"web-{network}"
    asker = bed.add_pod(here, f"a-{network}", network=network)
    near = bed.add_pod(here, f"b-{network}", network=network, group=group)
    far = bed.add_pod(there, f"c-{network}", network=network, group=group)
    for target in (near, far):
        for there_at, back_at in zip(addresses(target), addresses(asker), strict=True):
            lanes.passing.append(Lane(asker, target, there_at, OPEN))
            lanes.passing.append(Lane(target, asker, back_at, FORBIDDEN))
            lanes.forbidden.append(Lane(asker, target, there_at, FORBIDDEN))
    for address in addresses(near):
        lanes.forbidden.append(Lane(far, near, address, FORBIDDEN))


def test_killed_and_frozen_agents(bed: Bed, lanes: Lanes) -> None:
    with unbroken(*lanes.without_agents(bed)) as watcher:
        for agent in bed.agents:
            agent.kill()
        watcher.goes_on(1)
        for agent in bed.agents:
            agent.start()
            watcher.goes_on()
        for agent in bed.agents:
            agent.pause()
        watcher.goes_on(1)
        for agent in bed.agents:
            agent.resume()
        applied(bed)
    with watching(*lanes):
        pass  # those that closed are open again


def test_agents_killed_while_all_changes(bed: Bed, lanes: Lanes) -> None:
    """A rule and an endpoint come and go, each of them while an agent is away.

    What must not be lost stays within a host: between hosts the userspace switch itself drops a
    packet now and then when any link comes or goes, for it reads its routes anew.
    """
    here, there = bed.hosts
    passing = lanes.without_agents(bed).passing
    within = [lane for lane in passing if lane.source.host is lane.target.host]
    before = steady(bed)
    extra = ["--action=deny", "--protocol=tcp", "--port=99", "--priority=5"]
    with unbroken(within, lanes.forbidden) as watcher:
        for network in NETWORKS:
            bed.agents[0].kill()
            bed.netctl("policy", "rule-add", "-d", "in", *extra, f"guard-{network}", "9")
            come = bed.add_pod(there, "come", network=network, group=f"web-{network}")
            watcher.goes_on()
            bed.agents[0].start()
            asker = bed.add_pod(here, "asker", network=network)
            into = [
                (Lane(asker, come, to, OPEN), Lane(asker, come, to, FORBIDDEN))
                for to in lasting(bed, addresses(come))
            ]
            with watching([one for one, _ in into], [other for _, other in into]):
                bed.agents[0].kill()
                bed.netctl("policy", "rule-rm", f"guard-{network}", "9")
            bed.delete_pod(come)
            bed.agents[0].start()
            bed.delete_pod(asker)
    eventually_same(bed, before)


@pytest.mark.parametrize("network", list(NETWORKS))
@pytest.mark.parametrize("fate", ["killed", "frozen"])
def test_pods_that_never_talked_meet_while_agents_are_away(
    bed: Bed, network: str, fate: str
) -> None:
    here, there = bed.hosts
    asker, near, far = pods = [
        bed.add_pod(host, name, network=network)
        for host, name in ((here, "asker"), (here, "near"), (there, "far"))
    ]
    applied(bed)
    for agent in bed.agents:
        agent.kill() if fate == "killed" else agent.pause()
    try:
        for target in (near, far):
            for address in lasting(bed, addresses(target)):
                ping = partial(asker.ping, address)
                eventually(ping, f"{target.name} is reached at {address} while agents are {fate}")
    finally:
        for agent in bed.agents:
            agent.start() if fate == "killed" else agent.resume()
        for pod in pods:
            bed.delete_pod(pod)


def test_a_store_that_is_away(bed: Bed, lanes: Lanes) -> None:
    with unbroken(*lanes.without_agents(bed)) as watcher:
        bed.store.pause()
        watcher.goes_on(AWAY / 2)
        bed.store.resume()
        watcher.goes_on()
        bed.store.kill()
        bed.agents[0].kill()
        bed.agents[0].spawn()
        watcher.goes_on(AWAY / 2)
        bed.store.start()
        bed.agents[0].await_ready()
        bed.netmaster.await_ready()
        applied(bed)


@pytest.mark.parametrize("daemon", ["vswitchd", "server"])
def test_a_killed_switch(bed: Bed, lanes: Lanes, daemon: str) -> None:
    before = steady(bed)
    with watching(*lanes) as watcher:
        for host in bed.hosts:
            _returns(getattr(host.ovs, daemon), watcher)
    eventually_same(bed, before)


def test_a_switch_killed_with_its_agent(bed: Bed, lanes: Lanes) -> None:
    """As when a host loses its power: whoever comes up first, nothing denied passes."""
    before = steady(bed)
    with watching(*lanes) as watcher:
        host, agent = bed.hosts[0], bed.agents[0]
        for first, second in ((agent, host.ovs.vswitchd), (host.ovs.vswitchd, agent)):
            agent.kill()
            host.ovs.vswitchd.kill()
            first.spawn()
            second.spawn()
            first.await_ready()
            _open_again(second, watcher)
    eventually_same(bed, before)


def test_flows_and_ports_changed_by_hand(bed: Bed, lanes: Lanes) -> None:
    before = steady(bed)
    near, far = bed.hosts
    foreign = "cookie=0x77,table=5,priority=9,udp,tp_dst=4242,actions=drop"
    with watching(*lanes) as watcher:
        for bridge in BRIDGES:
            near.ovs.ofctl("del-flows", bridge)
            far.ovs.ofctl("add-flow", bridge, foreign)
            _delete_a_port(far, bridge)
        eventually_same(bed, before)
        watcher.goes_on()


def _delete_a_port(host: Host, bridge: str) -> None:
    ports = [
        port for port in host.ovs.vsctl("list-ports", bridge).split() if port.startswith("vvport")
    ]
    host.ovs.vsctl("del-port", bridge, ports[0])


def _returns(daemon: Daemon, watcher: Watcher) -> None:
    """Kill a part of a switch and start it again."""
    daemon.kill()
    daemon.spawn()
    _open_again(daemon, watcher)


def _open_again(daemon: Daemon, watcher: Watcher) -> None:
    """Wait for a part that was started; print how long after its return all lanes were open."""
    daemon.await_ready()
    watcher.back(f"the return of {daemon.name}")
