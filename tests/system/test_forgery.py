"""Forged packets change nothing and arrive nowhere, be they a pod's or another host's.

From a pod in each of the four modes: 1000 forged frames, against all hosts and the pods of another
tenant. By a tunnel or on a VLAN, from beyond a host: packets in the name of addresses that no pod
there has.
"""

import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from tests.bed.cluster import Bed
from tests.bed.hosts import Host
from tests.bed.netns import Namespace, http_request
from tests.bed.pods import Pod
from tests.bed.waiting import eventually
from tests.system.forging import (
    KINDS,
    MARK,
    ROUTER,
    VXLAN_PORT,
    Forgery,
    Party,
    Sniffer,
    Wire,
    ethernet,
    frames,
    ipv4,
    udp,
    vxlan,
)
from tests.system.planes import FWD_MODES, addresses, applied, planes

pytestmark = [pytest.mark.system, pytest.mark.ovs]

OF_EACH_KIND, SEED = int(os.environ.get("CONTIV_TEST_FRAMES", "200")), 1
"""Frames of each kind; `make adversary` sends more of them."""
BRIDGES = ("contivVxlanBridge", "contivVlanBridge")
CONTROL = b"sent as it should be"
IP_SOURCE, IP_DESTINATION = slice(2 * 26, 2 * 30), slice(2 * 30, 2 * 34)
"""Where the addresses of an IPv4 packet are, in the hexadecimal text of an untagged frame."""

OTHERS = {
    "vxlan": ("10.70.0.0/24", "10.70.0.1", "fd00:70::/64", "fd00:70::1", []),
    "vlan": ("10.71.0.0/24", "10.71.0.1", "fd00:71::/64", "fd00:71::1", ["--pkt-tag=71"]),
}
"""The networks of the tenant that is attacked."""


@pytest.fixture(scope="module", params=FWD_MODES)
def bed(request: pytest.FixtureRequest, bed_dirs: Iterator[Path]) -> Iterator[Bed]:
    """Run a cluster of two hosts that forward packets, with a second tenant."""
    with planes(next(bed_dirs), request.param) as bed:
        bed.netctl("tenant", "create", "blue")
        for name, (subnet, gateway, subnet6, gateway6, more) in OTHERS.items():
            words = [f"--subnet={subnet}", f"--gateway={gateway}", f"--encap={name}", *more]
            six = [f"--subnetv6={subnet6}", f"--gatewayv6={gateway6}"]
            bed.netctl("net", "create", "-t", "blue", *words, *six, name)
        for host in bed.hosts:
            host.namespace.run(["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])
        yield bed


@pytest.fixture
def victims(bed: Bed) -> Iterator[list[Pod]]:
    """Run pods of the tenant that is attacked on each host, on either network."""
    pods = [
        bed.add_pod(host, f"blue-{name}-{host.label}", tenant="blue", network=name)
        for name in OTHERS
        for host in bed.hosts
    ]
    applied(bed)
    yield pods
    for pod in pods:
        bed.delete_pod(pod)


@pytest.mark.parametrize("network", list(OTHERS))
def test_a_thousand_forged_packets(
    bed: Bed,
    network: str,
    victims: list[Pod],
    record_property: Callable[[str, object], None],
) -> None:
    """The finding of docs/notes/trust.md §3."""
    here = bed.hosts[0]
    forger = bed.add_pod(here, f"forger-{network}", network=network)
    try:
        applied(bed)
        forgery = Forgery(
            forger=party(forger),
            pods=tuple(map(party, victims)),
            hosts=tuple(map(host_party, bed.hosts)),
            vnis=vnis(bed),
        )
        with ExitStack() as doors:
            ears = {pod.name: doors.enter_context(Sniffer(pod.namespace)) for pod in victims}
            for host in bed.hosts:
                for link in ("br-phy", "contivh0"):
                    if has_link(host.namespace, link):
                        ear = Sniffer(host.namespace, link)
                        ears[f"{host.label} {link}"] = doors.enter_context(ear)
            hears_control(victims, ears)
            before = state(bed, victims)
            wire = doors.enter_context(Wire(forger.namespace))
            for kind in KINDS:
                for frame in frames(kind, OF_EACH_KIND, forgery, SEED):
                    wire.send(frame)
            hears_control(victims, ears, again=True)
            arrived = {name: [frame.hex() for frame in ear.heard()] for name, ear in ears.items()}
        # a host is on the way of what a pod sends to addresses outside its tenant, which pass
        to_hosts = {IPv4Address(host.address).packed.hex() for host in bed.hosts}
        # routed vlan networks of all tenants are one space of addresses: there a pod may send to
        # another tenant's, but in its own name
        flat = (bed.fwd_mode, network) == ("routing", "vlan")
        own = IPv4Address(forger.address).packed.hex()
        for name, got in arrived.items():
            if not name.startswith("blue"):
                got[:] = [frame for frame in got if frame[IP_DESTINATION] in to_hosts]
            elif flat and "vlan" in name:
                got[:] = [frame for frame in got if frame[IP_SOURCE] != own]
        sent, wrong = OF_EACH_KIND * len(KINDS), sum(map(len, arrived.values()))
        record_property("figures", f"{sent} frames, {wrong} where they must not be")
        assert {name: got[:3] for name, got in arrived.items() if got} == {}
        assert state(bed, victims) == before
    finally:
        bed.delete_pod(forger)


def hears_control(victims: list[Pod], ears: dict[str, Sniffer], *, again: bool = False) -> None:
    """Have the victims hear what they may, after everything that was sent before it."""
    control = CONTROL + b" again" * again
    for pod, other in zip(victims[::2], victims[1::2], strict=True):
        for sender, to in ((pod, other), (other, pod)):
            heard = partial(shouted, sender, to, ears[to.name], control)
            eventually(heard, f"{to.name} hears")


def shouted(sender: Pod, to: Pod, ear: Sniffer, control: bytes = CONTROL) -> bool:
    """Send a pod a datagram with a mark as a kernel does; say whether one was heard."""
    script = f"printf '{control.decode()}' > /dev/udp/{to.address}/5555"
    sender.namespace.run(["bash", "-c", script], check=False)
    return bool(ear.heard(control))


def test_a_host_speaks_for_its_own_pods_alone(bed: Bed, victims: list[Pod]) -> None:
    """What another host sends by the tunnel arrives if a pod there could have sent it.

    See docs/notes/trust.md §3.
    """
    near, far = victims[:2]
    own, other = bed.hosts[1], bed.fabric
    for namespace, host, source, arrives in (
        (own.namespace, own.address, far.address, True),
        (own.namespace, own.address, "10.70.0.77", False),
        (own.namespace, own.address, "192.0.2.1", False),
        (own.namespace, own.address, near.address, False),
        (other.namespace, other.address, far.address, False),
    ):
        assert arrived_by_tunnel(bed, namespace, near, source, far) is arrives, (host, source)


def arrived_by_tunnel(bed: Bed, sender: Namespace, near: Pod, source: str, control: Pod) -> bool:
    """Send VXLAN to the first host by hand; say whether a pod there got what was in it."""
    here = bed.hosts[0]
    to = near.mac if bed.fwd_mode == "bridge" else ROUTER
    inner = ethernet(to, control.mac, 0x0800, ipv4(source, near.address, 17, udp(9, 5555, MARK)))
    with Sniffer(near.namespace) as ear:
        for vni in vnis(bed):
            shout(sender, here, vxlan(vni, inner))
        eventually(partial(shouted, control, near, ear), "what is sent later is heard")
        return bool(ear.heard())


def shout(sender: Namespace, host: Host, payload: bytes) -> None:
    with sender.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as door:
        door.sendto(payload, (host.address, VXLAN_PORT))


def test_a_vlan_brings_nothing_in_the_name_of_addresses_that_no_pod_has(
    bed: Bed, victims: list[Pod]
) -> None:
    near, far = victims[2:]
    for source, arrives in (
        (far.address, True),
        ("192.0.2.1", True),
        ("10.71.0.1", True),
        ("10.71.0.77", False),
        (near.address, False),
    ):
        assert arrived_by_vlan(bed, near, source, far) is arrives, source


def arrived_by_vlan(bed: Bed, near: Pod, source: str, control: Pod) -> bool:
    """Send a frame on the VLAN by hand; say whether a pod got it."""
    packet = ipv4(source, near.address, 17, udp(9, 5555, MARK))
    tagged = b"\x00\x47\x08\x00" + packet  # VLAN 71
    with Sniffer(near.namespace) as ear, Wire(bed.fabric.namespace, "phys") as wire:
        wire.send(ethernet(near.mac, "02:77:00:00:00:01", 0x8100, tagged))
        eventually(partial(shouted, control, near, ear), "what is sent later is heard")
        return bool(ear.heard())


def party(pod: Pod) -> Party:
    four, six = addresses(pod)
    return Party(mac=pod.mac, ip=four, ip6=six)


def host_party(host: Host) -> Party:
    links = json.loads(host.namespace.run(["ip", "-json", "link", "show", "br-phy"]).stdout)
    return Party(mac=links[0]["address"], ip=host.address)


def has_link(namespace: Namespace, link: str) -> bool:
    return not namespace.run(["ip", "link", "show", link], check=False).returncode


def vnis(bed: Bed) -> tuple[int, ...]:
    """Return the VNIs that the first host's tunnels accept."""
    flows = bed.hosts[0].ovs.ofctl("dump-flows", BRIDGES[0], "table=1")
    return tuple(sorted({int(found, 16) for found in re.findall(r"tun_id=(0x[0-9a-f]+)", flows)}))


def state(bed: Bed, victims: list[Pod]) -> dict[str, Any]:
    """Return what no pod may change: flows, neighbours, where MACs are, records."""
    found: dict[str, Any] = {}
    macs = {pod.mac for pod in victims}
    for host, agent in zip(bed.hosts, bed.agents, strict=True):
        for bridge in BRIDGES:
            flows = host.ovs.ofctl("--no-stats", "dump-flows", bridge).splitlines()
            found[f"{host.label} {bridge}"] = sorted(line for line in flows if "cookie" in line)
        learned = host.ovs.appctl("fdb/show", BRIDGES[1]).split("\n")
        found[f"{host.label} learned"] = sorted(
            " ".join(line.split()[:3]) for line in learned if macs & set(line.split())
        )
        found[f"{host.label} tunnels"] = resolved(host)
        assert agent.log_text()
        _, body = http_request(f"{bed.agent_url()}/inspect/driver", namespace=host.namespace)
        found[f"{host.label} world"] = sorted(json.loads(body))
    for pod in victims:
        found[pod.name] = told(pod.namespace)
    found["records"] = bed.netctl("net", "inspect", "-t", "blue", "vxlan")
    found["groups"] = bed.netctl("host", "ls")
    return found


def resolved(host: Host) -> list[str]:
    """Return the neighbours that tunnels know, but for the host itself.

    Open vSwitch hears what the host announces, each minute, and forgets it after a while.
    """
    lines = host.ovs.appctl("tnl/neigh/show").splitlines()
    found = (line.split()[:2] for line in lines if line.startswith("192.168.77."))
    return sorted(" ".join(one) for one in found if one[0] != host.address)


def told(namespace: Namespace) -> list[tuple[str, str]]:
    """Return the MACs that a namespace has for its neighbours, but for the gateway's own.

    A victim resolves that to refuse what it may hear.
    """
    known = json.loads(namespace.run(["ip", "-json", "neigh", "show"]).stdout or "[]")
    found = {(one["dst"], one["lladdr"]) for one in known if "lladdr" in one}
    return sorted(found - {(of[1], ROUTER) for of in OTHERS.values()})
