"""A new pod is announced behind the uplink, on its VLAN."""

import socket
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from core.tasks import background
from ofnet.changes import Changes, ObjectKind
from ofnet.openflow import packets
from ofnet.packets.announcements import ROUNDS
from ofnet.world import Bridge, FwdMode, Uplink
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.dialled import dialled, running_agent, until
from tests.integration.ofnet.outside import UPLINK, arps, behind_uplink
from tests.unit.ofnet import frames
from tests.unit.ofnet.worlds import address, local, mac, world

pytestmark = pytest.mark.ovs

GROUP_VLAN = 700


def announced(ear: socket.socket) -> Iterator[tuple[IPv4Address, str, int]]:
    """Take the received announcements: address, MAC and VLAN."""
    for arp, destination, vlan in arps(ear):
        if arp.operation == packets.ARP_REQUEST:
            assert arp.sender_ip == arp.target_ip
            assert destination == frames.BROADCAST
            yield arp.sender_ip, arp.sender_mac, vlan


async def test_a_pod_is_announced_at_once_and_its_group_in_rounds(ovs_module: OvsHost) -> None:
    uplink = Uplink(ofport=UPLINK, mac="52:54:00:00:00:0a")
    empty = replace(world(), fwd_mode=FwdMode.BRIDGE, uplinks=(uplink,))
    member = replace(local(2), group_id=5, group_vlan=GROUP_VLAN)
    came = replace(empty, local={local(1).key: local(1), member.key: member})
    heard: list[tuple[IPv4Address, str, int]] = []
    async with dialled(ovs_module) as bridge:
        with behind_uplink(bridge) as ear:
            async with (
                running_agent(bridge, empty, bridge_name=Bridge.VLAN) as agent,
                background("announcements", agent.garp_sender.run(period=0.01)),
            ):
                await agent.update(came, Changes.of(ObjectKind.LOCAL, came.local))

                def count() -> int:
                    heard.extend(announced(ear))
                    return len(heard)

                await until(lambda: count() >= ROUNDS + 2, "all announcements")
    assert heard.count((address(1), mac(1), 1)) == 1
    assert heard.count((address(2), mac(2), 1)) == 1
    assert heard.count((address(2), mac(2), GROUP_VLAN)) == ROUNDS
    assert len(heard) == ROUNDS + 2


async def test_the_switch_forgets_that_a_new_pods_address_was_behind_the_uplink(
    ovs_module: OvsHost,
) -> None:
    """As when another host's pod had it. NORMAL would drop what comes for the pod by the uplink."""
    uplink = Uplink(ofport=UPLINK, mac="52:54:00:00:00:0a")
    empty = replace(world(), fwd_mode=FwdMode.BRIDGE, uplinks=(uplink,))
    came = replace(empty, local={local(1).key: local(1)})
    async with dialled(ovs_module) as bridge:
        with behind_uplink(bridge):
            port = f"pod{bridge.name}"
            ovs_module.vsctl(
                *("add-port", bridge.name, port, "tag=1", "--"),
                *("set", "interface", port, "type=internal", f"ofport_request={local(1).ofport}"),
            )

            def learned() -> list[str]:
                lines = ovs_module.appctl("fdb/show", bridge.name).splitlines()
                return [line.split()[0] for line in lines if mac(1) in line]

            tagged = packets.arp_announcement(mac(1), address(1)).hex()
            tagged = f"{tagged[:24]}81000001{tagged[24:]}"
            ovs_module.ofctl(
                "packet-out", bridge.name, f"in_port={UPLINK},packet={tagged},actions=NORMAL"
            )
            assert learned() == [str(UPLINK)]
            async with (
                running_agent(bridge, empty, bridge_name=Bridge.VLAN) as agent,
                background("announcements", agent.garp_sender.run()),
            ):
                await agent.update(came, Changes.of(ObjectKind.LOCAL, came.local))
                await until(
                    lambda: learned() == [str(local(1).ofport)], "the pod's port is learned"
                )
