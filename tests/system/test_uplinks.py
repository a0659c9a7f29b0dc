"""Uplinks on a physical network: one card or a bond, on trunks of a VLAN switch, in both modes.

Beyond the switch there is a router on the VLANs and a host behind it. Packets are real all the way.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bed.cluster import AGENT_PORT, PROGRAMS, Bed
from tests.bed.hosts import Host
from tests.bed.netns import http_request
from tests.bed.physical import OUTSIDE
from tests.bed.pods import Pod
from tests.bed.waiting import WITHIN, eventually
from tests.system.planes import NETWORKS, addresses, planes
from tests.system.traffic import connects
from tests.system.uplinks import BOND, CARDS, aggregate, in_use, uses

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.thorough]

VLAN, OTHER_VLAN = 61, 62
OTHER_GATEWAY = "10.62.0.1"
SITES = [
    pytest.param(("bridge", CARDS[:1]), id="bridge-one-card"),
    pytest.param(("bridge", CARDS), id="bridge-bond"),
    pytest.param(("routing", CARDS[:1]), id="routing-one-card"),
    pytest.param(("routing", CARDS), id="routing-bond"),
]


class UplinkCluster(NamedTuple):
    """A cluster on a physical network, with a pod on each host."""

    bed: Bed
    near: Pod
    far: Pod

    @property
    def bonded(self) -> bool:
        return len(self.bed.cards) > 1

    @property
    def bridged(self) -> bool:
        return self.bed.fwd_mode == "bridge"


@pytest.fixture(scope="module", params=SITES)
def cluster(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[UplinkCluster]:
    """Run a cluster of two hosts on a physical network, with a router on two VLANs."""
    fwd_mode, cards = request.param
    with planes(next(bed_dirs), fwd_mode, cards=cards) as bed:
        _, gateway, _, gateway6, _ = NETWORKS["vlan"]
        bed.physical.route(
            {VLAN: [f"{gateway}/24", f"{gateway6}/64"], OTHER_VLAN: [f"{OTHER_GATEWAY}/24"]}
        )
        words = [f"--gateway={OTHER_GATEWAY}", "--encap=vlan", f"--pkt-tag={OTHER_VLAN}"]
        bed.netctl("net", "create", "--subnet=10.62.0.0/24", *words, "other")
        if len(cards) > 1:
            aggregate(bed)
        near, far = (bed.add_pod(host, f"on-{host.label}", network="vlan") for host in bed.hosts)
        yield UplinkCluster(bed, near, far)


def reach_each_other(cluster: UplinkCluster) -> None:
    """See that the pods reach each other, IPv4 and IPv6, there and back."""
    for source, target in ((cluster.near, cluster.far), (cluster.far, cluster.near)):
        for address in addresses(target):
            ping = partial(source.ping, address)
            eventually(ping, f"{source.name} reaches {address}")
        dial = partial(connects, source, target, target.address, 80)
        eventually(dial, f"{source.name} is connected to {target.name}")


def reaches_outside(pod: Pod) -> None:
    eventually(partial(pod.ping, OUTSIDE), f"{pod.name} reaches the outside")


def test_pods_reach_each_other_across_the_trunks(cluster: UplinkCluster) -> None:
    reach_each_other(cluster)
    physical = cluster.bed.physical
    for pod in (cluster.near, cluster.far):
        if cluster.bridged:
            assert physical.learnt(pod.mac) == {VLAN}
        else:
            assert VLAN in physical.learnt(card_mac(pod.host))
            assert not physical.learnt(pod.mac), "its host speaks for it"


def card_mac(host: Host) -> str:
    (card,) = json.loads(host.namespace.run(["ip", "-json", "link", "show", CARDS[0]]).stdout)
    return str(card["address"])


def test_the_router_brings_pods_to_the_outside_and_to_the_other_vlan(
    cluster: UplinkCluster,
) -> None:
    """Bridged; routed, the outside is for BGP to tell of."""
    if not cluster.bridged:
        assert cluster.near.ping(OUTSIDE) is None
        return
    other = cluster.bed.add_pod(cluster.bed.hosts[1], "other", network="other")
    for pod in (cluster.near, cluster.far, other):
        reaches_outside(pod)
        asked = partial(cluster.bed.physical.reached_from_outside, pod.address)
        eventually(asked, f"{pod.name} is reached from outside")
    dial = partial(connects, cluster.near, other, other.address, 80)
    eventually(dial, "from VLAN to VLAN through the router")
    assert cluster.bed.physical.learnt(other.mac) == {OTHER_VLAN}
    cluster.bed.delete_pod(other)


def pull_at_the_switch(cluster: UplinkCluster, card: str) -> None:
    cluster.bed.physical.pull("h1", card)


def push_at_the_switch(cluster: UplinkCluster, card: str) -> None:
    cluster.bed.physical.push("h1", card)


def pull_at_the_host(cluster: UplinkCluster, card: str) -> None:
    cluster.near.host.namespace.run(["ip", "link", "set", card, "down"])


def push_at_the_host(cluster: UplinkCluster, card: str) -> None:
    cluster.near.host.namespace.run(["ip", "link", "set", card, "up"])


def silence(cluster: UplinkCluster, card: str) -> None:
    cluster.bed.physical.forget("h1", card)


def speak(cluster: UplinkCluster, card: str) -> None:
    cluster.bed.physical.remember("h1", card)


Pull = Callable[[UplinkCluster, str], None]
WAYS = [
    pytest.param(pull_at_the_switch, push_at_the_switch, id="switch"),
    pytest.param(pull_at_the_host, push_at_the_host, id="host"),
    pytest.param(silence, speak, id="lacp"),
]


@pytest.mark.parametrize(("pull", "push"), WAYS)
def test_a_bond_lives_on_what_is_left_of_it(cluster: UplinkCluster, pull: Pull, push: Pull) -> None:
    """Cards are pulled one by one; the last that goes is the last that comes back."""
    if not cluster.bonded:
        pytest.skip("one card")
    host = cluster.near.host
    uses(host, *CARDS)
    for number, card in enumerate(CARDS[:-1], 1):
        pull(cluster, card)
        uses(host, *CARDS[number:])
        reach_each_other(cluster)
        eventually(partial(named, cluster, card), f"netmaster knows of {card}")
    for number in range(len(CARDS) - 1, 0, -1):
        push(cluster, CARDS[number - 1])
        uses(host, *CARDS[number - 1 :])
        reach_each_other(cluster)
    if cluster.bridged:
        reaches_outside(cluster.near)


def test_where_nobody_speaks_lacp_one_card_at_a_time_carries_all(cluster: UplinkCluster) -> None:
    """The switch has three trunks then, and would take frames by two of them for a loop."""
    if not cluster.bonded:
        pytest.skip("one card")
    host, physical = cluster.near.host, cluster.bed.physical
    physical.separate(host.label, CARDS)
    try:
        only = carries_alone(cluster, CARDS)
        reach_each_other(cluster)
        pull_at_the_switch(cluster, only)
        carries_alone(cluster, [card for card in CARDS if card != only])
        reach_each_other(cluster)
        push_at_the_switch(cluster, only)
    finally:
        physical.rejoin(host.label, CARDS)
    uses(host, *CARDS)
    reach_each_other(cluster)


def carries_alone(cluster: UplinkCluster, cards: Sequence[str]) -> str:
    """Wait until one of some cards is used alone, and what the pod sends comes by it."""
    host = cluster.near.host
    sender = cluster.near.mac if cluster.bridged else card_mac(host)

    def found() -> str:
        cluster.near.ping(cluster.far.address)
        seen = cluster.bed.physical.behind(sender, host.label, cards)
        return min(seen) if len(seen) == 1 and seen == in_use(host) else ""

    return eventually(found, f"{host.label} uses one of {cards}")


def named(cluster: UplinkCluster, card: str) -> bool:
    """Tell whether netmaster names a card as out of use on the first host."""
    return f"uplink card {card} is out of use" in cluster.bed.netctl("host", "inspect", "h1")


def announcements(host: Host) -> int:
    url = f"http://127.0.0.1:{AGENT_PORT}/inspect/driver"
    _, body = http_request(url, namespace=host.namespace)
    return int(json.loads(body)["vlan"]["Stats"].get("GarpPktSent", 0))


def test_without_a_card_nothing_passes_and_the_first_back_is_announced(
    cluster: UplinkCluster,
) -> None:
    host, cards = cluster.near.host, cluster.bed.cards
    reach_each_other(cluster)
    for card in cards:
        pull_at_the_switch(cluster, card)
    uses(host)
    assert cluster.near.ping(cluster.far.address) is None
    before = announcements(host)
    push_at_the_switch(cluster, cards[-1])
    uses(host, cards[-1])
    reach_each_other(cluster)
    if cluster.bridged:
        eventually(lambda: announcements(host) > before, "an announcement")
    for card in cards[:-1]:
        push_at_the_switch(cluster, card)
    uses(host, *cards)
    reach_each_other(cluster)


def numbers(host: Host) -> dict[str, str]:
    """Return the OpenFlow numbers of the cards on the vlan bridge."""
    cards = host.ovs.vsctl("list-ifaces", "contivVlanBridge").split()
    return {
        card: host.ovs.vsctl("get", "interface", card, "ofport").strip()
        for card in cards
        if card in CARDS
    }


def restart_with(cluster: UplinkCluster, *cards: str) -> None:
    agent = cluster.bed.agents[0]
    agent.command[agent.command.index("--vlan-uplinks") + 1] = ",".join(cards)
    agent.restart()


def test_a_restarted_agent_finds_its_uplink_again_and_converts_it_if_told(
    cluster: UplinkCluster,
) -> None:
    host, cards = cluster.near.host, cluster.bed.cards
    before = numbers(host)
    assert before.keys() == set(cards)
    restart_with(cluster, *cards)
    assert numbers(host) == before
    reach_each_other(cluster)
    host.ovs.vswitchd.restart()
    reach_each_other(cluster)
    assert numbers(host) == before
    if cluster.bonded:
        restart_with(cluster, cards[0])
        eventually(lambda: numbers(host).keys() == {cards[0]}, "the other card is let go")
        assert BOND not in host.ovs.vsctl("list-ports", "contivVlanBridge")
        restart_with(cluster, *cards)
        eventually(lambda: numbers(host).keys() == set(cards), "it is taken again")
        uses(host, *cards)
        reach_each_other(cluster)


def test_a_card_the_host_lives_on_is_refused(cluster: UplinkCluster) -> None:
    host = cluster.near.host
    host.namespace.run(["ip", "link", "add", "spare", "type", "veth", "peer", "name", "erapS"])
    host.namespace.run(["ip", "address", "add", "203.0.113.5/24", "dev", "spare"])
    agent = cluster.bed.agents[0]
    words = list(agent.command)
    words[words.index("--vlan-uplinks") + 1] = "spare"
    agent.kill()  # an Open vSwitch has one agent at a time
    done = host.namespace.run(words, check=False, timeout=WITHIN)
    assert done.returncode == 22
    assert "uplink spare has the address 203.0.113.5/24 of this host" in done.stderr
    assert "name another card with --vlan-uplinks" in done.stderr
    assert "spare" not in host.ovs.vsctl("list-ifaces", "contivVlanBridge")
    host.namespace.run(["ip", "link", "delete", "spare"])
    agent.start()
    reach_each_other(cluster)


def test_cleanup_lets_the_cards_go(cluster: UplinkCluster) -> None:
    host, agent = cluster.near.host, cluster.bed.agents[0]
    for pod in list(cluster.bed.pods):
        cluster.bed.delete_pod(pod)
    agent.kill()
    places = ["--ovsdb", f"unix:{host.ovs.db_socket}", "--data-dir", str(host.dir / "data")]
    places += ["--cni-socket", str(cluster.bed.cni_socket(host))]
    host.namespace.run([str(PROGRAMS / "netplugin"), "cleanup", *places])
    assert host.ovs.vsctl("list-br").split() == ["br-phy"]
    left = host.ovs.vsctl("--bare", "--columns=name", "list", "interface").split()
    assert sorted(left) == ["br-phy", "eth0"]
    links = json.loads(host.namespace.run(["ip", "-json", "link"]).stdout)
    assert set(cluster.bed.cards) <= {link["ifname"] for link in links}
    agent.start()
    eventually(lambda: numbers(host).keys() == set(cluster.bed.cards), "the cards are taken again")
