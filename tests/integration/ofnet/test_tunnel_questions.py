"""Questions through a real tunnel: for a pod not known everywhere yet, and of probes.

Two hosts with an Open vSwitch each; the bridge of the first knows its own pod alone. The answer is
a claim by nobody known, so it arrives without the source guard alone (ADR 6). Probes are answered
by the other switch itself.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from core.ids import HostLabel
from ofnet.openflow.packets import ARP_REPLY, Arp
from ofnet.packets.packetin import PacketOut
from ofnet.pipelines.features import tunnel_probes as probes
from ofnet.world import FwdMode, Vtep, World
from tests.bed.hosts import Fabric, Host
from tests.bed.netns import fresh_name
from tests.integration.ofnet.dialled import Dialled, dialled, running_agent, until
from tests.integration.ofnet.outside import arps
from tests.integration.ofnet.packets import pod
from tests.unit.ofnet import frames
from tests.unit.ofnet.worlds import address, local, mac, world

pytestmark = pytest.mark.ovs

TUNNEL = 2
LONGEST = 1450 + 14
"""Bytes of a pod's longest packet with its Ethernet header, on links that carry 1500."""
RUN = 7


@pytest.fixture
def hosts(bed_dir: Path) -> Iterator[tuple[Host, Host]]:
    """Run two hosts that reach each other, and have resolved each other's addresses."""
    with ExitStack() as undo:
        fabric = Fabric(fresh_name("fabric"))
        undo.callback(fabric.stop)
        fabric.start()
        one, other = (Host(n, fresh_name(f"h{n}"), bed_dir / f"h{n}") for n in (1, 2))
        for host in (one, other):
            undo.callback(host.stop)
            host.start(fabric)
        one.namespace.run(["ping", "-q", "-c", "1", "-W", "5", other.address])
        yield one, other


def tunnel(bridge: Dialled, to: Host) -> Vtep:
    """Give a bridge its tunnel to another host."""
    bridge.ovs.vsctl(
        *("add-port", bridge.name, "vx0", "--", "set", "interface", "vx0", "type=vxlan"),
        *(f"options:remote_ip={to.address}", "options:key=flow", f"ofport_request={TUNNEL}"),
    )
    return Vtep(host=HostLabel(to.label), ip=IPv4Address(to.address), ofport=TUNNEL)


def bridged(number: int, vtep: Vtep, *, guard: bool) -> World:
    """Return the World of a host that knows its own pod and the tunnel."""
    of = replace(world(here=(local(number),)), fwd_mode=FwdMode.BRIDGE, host_port=None)
    return replace(of, vteps={vtep.host: vtep}, guard=guard)


async def test_a_pod_elsewhere_is_found_through_its_tunnel(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    async with dialled(here.ovs) as near, dialled(there.ovs) as far:
        own = bridged(1, tunnel(near, there), guard=False)
        other = bridged(2, tunnel(far, here), guard=False)
        async with running_agent(near, own) as asking, running_agent(far, other) as answering:
            with pod(near, 1) as one, one.frames() as wire:
                found: list[Arp] = []
                await until(lambda: asks(wire, found), "an answer")
                assert found[0] == Arp(
                    operation=ARP_REPLY,
                    sender_mac=mac(2),
                    sender_ip=address(2),
                    target_ip=address(1),
                )
            assert asking.stats["ArpReqReinject"] >= 1
            assert answering.stats["ArpReqRespSent"] >= 1


async def test_guarded_the_answer_waits_for_the_record(hosts: tuple[Host, Host]) -> None:
    here, there = hosts
    async with dialled(here.ovs) as near, dialled(there.ovs) as far:
        own = bridged(1, tunnel(near, there), guard=True)
        other = bridged(2, tunnel(far, here), guard=True)
        async with running_agent(near, own), running_agent(far, other) as answering:
            with pod(near, 1) as one, one.frames() as wire:
                found: list[Arp] = []
                answered = answering.stats
                await until(
                    lambda: asks(wire, found) or answered["ArpReqRespSent"] >= 3, "three answers"
                )
                assert found == []


@pytest.mark.parametrize("size", [probes.SHORTEST, LONGEST])
async def test_probes_come_back_without_the_other_agent(
    hosts: tuple[Host, Host], size: int
) -> None:
    here, there = hosts
    async with dialled(here.ovs) as near, dialled(there.ovs) as far:
        async with running_agent(far, bridged(2, tunnel(far, here), guard=True)):
            pass  # its flows stay
        own = bridged(1, tunnel(near, there), guard=True)
        async with running_agent(near, own) as asking:
            answers: list[tuple[int, int | None, int]] = []
            asking.set_probe_receiver(
                lambda port, frame: answers.append((port, probes.answer_of(RUN, frame), len(frame)))
            )
            out = PacketOut(data=probes.question(RUN, 3, size), actions=probes.actions(TUNNEL))
            await until(lambda: asking.send(out) and bool(answers), "an answer")
            assert answers[0] == (TUNNEL, 3, size)


def asks(wire: socket.socket, found: list[Arp]) -> bool:
    """Ask for pod 2 once more; return whether there has been an answer.

    The userspace switch drops what it has to send to a host it has not resolved yet.
    """
    wire.send(frames.arp(1, address(2).packed))
    found.extend(arp for arp, _, _ in arps(wire) if arp.operation == ARP_REPLY)
    return bool(found)
