"""A lane that ARP was lost on is named and heals, and so does one to a MAC that is no longer."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from ipaddress import IPv4Address

import pytest

from netplugin.bridges.vxlan.tunnel_neighbours import known_neighbours
from netplugin.world.bridges import port_names
from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.netns import answers
from tests.bed.pods import Pod
from tests.bed.waiting import eventually

pytestmark = [pytest.mark.system, pytest.mark.ovs, pytest.mark.usefixtures("no_pods_left")]

OTHER_MAC = "02:00:00:00:77:77"


@contextmanager
def arp_lost(bed: Bed, *hosts: Host) -> Iterator[None]:
    """Have the fabric lose what is broadcast to some hosts, as ARP requests are."""

    def flood(word: str) -> None:
        for host in hosts:
            slave = ["ip", "link", "set", host.link, "type", "bridge_slave", "bcast_flood", word]
            bed.fabric.namespace.run(slave)

    flood("off")
    try:
        yield
    finally:
        flood("on")


def mac_known(host: Host, peer: Host) -> str | None:
    """Return the MAC that the tunnels of a host send to for another."""
    known = known_neighbours(host.ovs.appctl("tnl/neigh/show"))
    return next((mac for (address, _), mac in known.items() if str(address) == peer.address), None)


def knows(host: Host, peer: Host) -> bool:
    """Say whether the tunnels of a host know another's MAC."""
    return mac_known(host, peer) is not None


def forget(host: Host, peer: Host) -> bool:
    """Have the tunnels of a host forget their neighbours; say whether they do not know a peer.

    The host's own stack forgets the peer too: it asks whom it knows by unicast, which passes, and
    Open vSwitch would learn from the answer.
    """
    host.namespace.run(["ip", "neigh", "flush", "to", peer.address])
    host.ovs.appctl("tnl/neigh/flush")
    return not knows(host, peer)


def named(bed: Bed, host: Host, peer: Host) -> bool:
    text = bed.netctl("host", "inspect", host.label)
    return f"tunnel to {peer.label}: Open vSwitch does not know the MAC of {peer.address}" in text


def test_a_closed_lane_is_named_and_heals(bed: Bed) -> None:
    """The finding of docs/notes/trust.md §5."""
    here, there = bed.hosts
    pods = [bed.add_pod(host, f"lane-{host.label}") for host in bed.hosts]
    near, far = pods
    eventually(partial(passes, near, far), "the lane is open")
    with arp_lost(bed, here, there):
        for one, other in ((there, here), (here, there)):
            eventually(partial(forget, one, other), "the tunnels forget")
        assert not passes(near, far)
        eventually(partial(named, bed, here, there), "the lane is named")
        assert not knows(here, there)
        assert not passes(near, far)
    # packets go on: it is they that keep the decision to drop alive
    eventually(partial(passes, near, far), "the lane heals")
    eventually(lambda: not named(bed, here, there), "the fault is gone")


def test_a_host_announces_itself_to_new_peers(bed: Bed) -> None:
    """An agent that starts tells the others where its host is, which heals their lanes.

    The agent there is paused: it asks for nothing itself.

    See docs/notes/trust.md §5.
    """
    here, there = bed.hosts
    bed.agents[1].pause()
    try:
        bed.agents[0].kill()
        eventually(partial(forget, there, here), "the tunnels forget")
        bed.agents[0].spawn()
        eventually(partial(knows, there, here), "the announcement is heard")
    finally:
        bed.agents[1].resume()
        for agent in bed.agents:
            agent.await_ready()


@contextmanager
def paused(bed: Bed, host: Host) -> Iterator[None]:
    """Freeze the agent of a host for a while; Open vSwitch may hang up, and connects again."""
    agent = bed.agents[bed.hosts.index(host)]
    agent.pause()
    try:
        yield
    finally:
        agent.resume()
        ready = partial(answers, f"{bed.agent_url()}/readyz", namespace=host.namespace)
        eventually(ready, "the agent is ready again")


@contextmanager
def another_mac(host: Host) -> Iterator[None]:
    """Give the bridge of a host's tunnel end another MAC, as when the address moves to another."""
    bridge = ["bridge", "br-phy"]
    host.ovs.vsctl("set", *bridge, f"other-config:hwaddr={OTHER_MAC}")
    try:
        yield
    finally:
        host.ovs.vsctl("remove", *bridge, "other-config", "hwaddr")


@contextmanager
def unasked(host: Host, peer: Host) -> Iterator[None]:
    """Keep a host's kernel from asking for a peer's MAC, by an entry that stays.

    Open vSwitch would learn from the answer. Connections between the hosts have the kernel ask, and
    keep it from asking, as they happen to stand.
    """
    shown = peer.namespace.run(["ip", "-j", "link", "show", "br-phy"]).stdout
    entry = [peer.address, "dev", "br-phy"]
    mac = ["lladdr", json.loads(shown)[0]["address"]]
    host.namespace.run(["ip", "neigh", "replace", *entry, *mac, "nud", "permanent"])
    try:
        yield
    finally:
        host.namespace.run(["ip", "neigh", "delete", *entry])


@contextmanager
def no_tunnels(host: Host) -> Iterator[None]:
    """Keep the packets of tunnels from a host: Open vSwitch learns their senders' MACs, too.

    Pods send of their own accord, with agents paused, as their kernels do by IPv6.
    """
    host.ovs.ofctl("add-flow", "br-phy", "priority=100,udp,tp_dst=4789,actions=drop")
    try:
        yield
    finally:
        host.ovs.ofctl("del-flows", "br-phy", "udp,tp_dst=4789")


def test_a_tunnel_end_that_moved_is_announced(bed: Bed) -> None:
    """Peers that do nothing themselves send to its new MAC: the agent here is paused."""
    here, there = bed.hosts
    near, far = (bed.add_pod(host, f"moved-{host.label}") for host in bed.hosts)
    opens = partial(eventually, partial(passes, near, far))
    opens("the lane is open")
    was = mac_known(here, there)
    with paused(bed, here), unasked(here, there), no_tunnels(here):
        with another_mac(there):
            eventually(lambda: mac_known(here, there) == OTHER_MAC, "the announcement is heard")
        eventually(lambda: mac_known(here, there) == was, "so is the next one")
    opens("the lane is open again")
    log = (there.dir / "netplugin.log").read_text()
    for mac in (OTHER_MAC, was):
        assert f"address={there.address} port=br-phy mac={mac}" in log


def test_a_mac_that_the_kernel_knows_better_is_asked_for(bed: Bed) -> None:
    """The kernel learns from what a peer asks too, of which Open vSwitch takes no note.

    The peer's agent is paused.
    """
    here, there = bed.hosts
    near, far = (bed.add_pod(host, f"asked-{host.label}") for host in bed.hosts)
    opens = partial(eventually, partial(passes, near, far))
    opens("the lane is open")
    with paused(bed, there), unasked(here, there):
        with paused(bed, here):
            here.ovs.appctl("tnl/neigh/set", "br-phy", there.address, OTHER_MAC)
            eventually(lambda: not passes(near, far), "packets go to another MAC")
        opens("the MAC is asked for")


def test_a_tunnel_port_in_error_is_named_and_tried_again(bed: Bed) -> None:
    """A port of somebody else has its address for a while.

    The row of that port goes before the tunnel itself does, and nothing in the database changes
    afterwards: Open vSwitch does not try again of its own accord.
    """
    here, there = bed.hosts
    near, far = (bed.add_pod(host, f"error-{host.label}") for host in bed.hosts)
    eventually(partial(passes, near, far), "the lane is open")
    error = f"no tunnel to {there.label}: could not add network device"
    with paused(bed, here):
        here.ovs.vsctl("del-port", port_names.vtep_name(IPv4Address(there.address), ()))
        other = ["set", "interface", "other", "type=vxlan", "options:key=flow"]
        other += [f"options:remote_ip={there.address}", "options:dst_port=4789"]
        here.ovs.vsctl("add-port", "br-phy", "other", "--", *other)
    eventually(lambda: error in bed.netctl("host", "inspect", here.label), "it is named")
    assert not passes(near, far)
    here.ovs.vsctl("del-port", "other")
    eventually(partial(passes, near, far), "it is tried again")
    eventually(lambda: error not in bed.netctl("host", "inspect", here.label), "it is well")


def passes(near: Pod, far: Pod) -> bool:
    return near.ping(far.address) is not None
