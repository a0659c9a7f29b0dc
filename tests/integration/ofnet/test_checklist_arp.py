"""The original's tests of proxied ARP, on frames that pass a real switch.

Who is known is told by the switch itself, so that the counters the original bumps for it stay 0
here; the answers' content is looked at instead, which the original's tests do not.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import IPv4Address

import pytest

from ofnet.agent import BridgeAgent
from ofnet.openflow import packets
from ofnet.openflow.oxm import mac_bytes
from ofnet.openflow.packets import ARP_REPLY, ARP_REQUEST, Arp
from ofnet.world import Bridge, FwdMode, Uplink, World
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import Dialled, dialled, running_agent, until
from tests.integration.ofnet.outside import UPLINK, arps, behind_uplink
from tests.integration.ofnet.packets import pod
from tests.unit.ofnet import frames
from tests.unit.ofnet.worlds import PEER, address, local, mac, remote, vtep, world

pytestmark = pytest.mark.ovs

GATEWAY = IPv4Address("10.1.255.254")
VLAN = 1
OUTSIDER = 254
"""The number of the MAC of the requester from outside."""


@dataclass
class ArpNetwork:
    """Pods 1 and 2 here, 3 elsewhere, and a host beyond; `heard` is what that host receives."""

    agent: BridgeAgent
    pod: socket.socket
    ear: socket.socket

    def __post_init__(self) -> None:
        self.heard: list[tuple[Arp, int]] = []

    def ask(self, target: IPv4Address, *, of: bytes = frames.BROADCAST) -> None:
        """Send an ARP request of pod 1, broadcast or to one MAC."""
        self.pod.send(of + frames.arp(1, target.packed)[6:])

    def ask_from_outside(self, sender: IPv4Address, target: IPv4Address) -> None:
        frame = frames.arp(OUTSIDER, target.packed, sender_ip=sender.packed)
        self.ear.send(packets.tagged(frame, VLAN))

    async def told(self) -> Arp:
        """Return the next answer that pod 1 gets."""
        found: list[Arp] = []

        def answered() -> bool:
            found.extend(arp for arp, _, _ in arps(self.pod) if arp.operation == ARP_REPLY)
            return bool(found)

        await until(answered, "an answer")
        (answer,) = found
        return answer

    async def heard_outside(self, count: int) -> list[tuple[Arp, int]]:
        """Return the ARP packets received outside with their VLANs, once there are `count`."""

        def enough() -> bool:
            self.heard.extend((arp, vlan) for arp, _, vlan in arps(self.ear))
            return len(self.heard) >= count

        await until(enough, f"{count} ARP packets outside")
        return self.heard

    async def counted(self, counter: str, count: int = 1) -> None:
        await until(lambda: self.agent.stats[counter] == count, f"{counter} is {count}")


@asynccontextmanager
async def network(bridge: Dialled, kind: Bridge, of: World) -> AsyncIterator[ArpNetwork]:
    with pod(bridge, 1) as one, pod(bridge, 2), behind_uplink(bridge) as ear:
        async with running_agent(bridge, of, bridge_name=kind) as agent:
            with one.frames() as wire:
                yield ArpNetwork(agent, wire, ear)


PODS = replace(
    world(here=(local(1), local(2)), there=(remote(3),)),
    fwd_mode=FwdMode.BRIDGE,
    host_port=None,
    guard=True,
)
ON_VLAN = replace(PODS, vteps={}, uplinks=(Uplink(ofport=UPLINK, mac="52:54:00:00:00:0a"),))
ON_VXLAN = replace(PODS, vteps={PEER: vtep(ofport=UPLINK)})


@pytest.mark.parametrize(
    ("kind", "of", "vlan"), [(Bridge.VLAN, ON_VLAN, VLAN), (Bridge.VXLAN, ON_VXLAN, 0)]
)
async def test_requests_of_a_pod(ovs_module: OvsHost, kind: Bridge, of: World, vlan: int) -> None:
    async with dialled(ovs_module) as bridge, network(bridge, kind, of) as scenery:
        for destination in (frames.BROADCAST, mac_bytes(mac(2))):
            scenery.ask(address(2), of=destination)
            assert await scenery.told() == Arp(
                operation=ARP_REPLY,
                sender_mac=mac(2),
                sender_ip=address(2),
                target_ip=address(1),
            )
        assert scenery.agent.stats["PktRcvd"] == 0, "the switch answers by itself"
        scenery.ask(GATEWAY)
        await scenery.counted("ArpReqReinject")
        question = Arp(
            operation=ARP_REQUEST, sender_mac=mac(1), sender_ip=address(1), target_ip=GATEWAY
        )
        assert await scenery.heard_outside(1) == [(question, vlan)]


async def test_requests_from_outside(ovs_module: OvsHost) -> None:
    async with dialled(ovs_module) as bridge, network(bridge, Bridge.VLAN, ON_VLAN) as scenery:
        for sender, target, counter in (
            (GATEWAY, address(200), "ArpRequestUnknownSrcDst"),
            (address(1), address(200), "ArpReqUnknownDestFromUplink"),
            (address(1), address(3), "ArpReqNonLocalDestFromUplink"),
        ):
            scenery.ask_from_outside(sender, target)
            await scenery.counted(counter)
        scenery.ask_from_outside(GATEWAY, address(1))
        answer = Arp(
            operation=ARP_REPLY, sender_mac=mac(1), sender_ip=address(1), target_ip=GATEWAY
        )
        assert await scenery.heard_outside(1) == [(answer, VLAN)], "the others get no answer"
        assert scenery.agent.stats["ArpReqRcvd"] == 3
