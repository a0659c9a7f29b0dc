"""The original's tests of endpoints, networks and tunnels: the flows are these, to the last one.

They are compared as whole lines with what the switch prints. What comes goes twice, in either
order, and leaves exactly what was there before.
"""

from dataclasses import replace
from ipaddress import IPv4Address

import pytest

from core.ids import EndpointKey
from ofnet.world import Bridge, FwdMode, LocalEndpoint, Uplink
from tests.bed.ovs import OvsHost
from tests.integration.ofnet.three_hosts import (
    NET,
    NUMBERS,
    HostBridge,
    far,
    host_name,
    line,
    mac,
    pod,
    sites,
    tunnel,
)

pytestmark = pytest.mark.ovs

IN_VRF = "metadata=0x100000000/0xff00000000"
MARK = "write_metadata:0x100000000/0xff00000000"
FROM_TUNNEL = "write_metadata:0x100000001/0xff00000001"
NO_GROUP = ("write_metadata:0/0xfffe", "goto_table:5")
TAG = "push_vlan:0x8100,set_field:4097->vlan_vid"
FROM_ROUTER = "set_field:00:00:11:11:11:11->eth_src"
TO_ROUTER = "set_field:00:00:11:11:11:11->eth_dst"


def destinations(number: int) -> list[str]:
    """Return what a packet to a host's pod matches, in each family it has."""
    four, six = f"nw_dst=10.10.{number}.{number}", f"ipv6_dst=2016::{number}:{number}"
    return [f"ip,{IN_VRF},{four}", *([f"ipv6,{IN_VRF},{six}"] if number == 2 else [])]


def groups(number: int) -> set[str]:
    """Return the flows that mark what is sent to a host's pod with its group, which is none."""
    return {line(4, 100, to, *NO_GROUP) for to in destinations(number)}


def senders(number: int) -> set[str]:
    """Return the flows that have judged what another host's pod sends; the original has none."""
    arrived = "metadata=0x100000001/0xff00000001"
    four, six = f"nw_src=10.10.{number}.{number}", f"ipv6_src=2016::{number}:{number}"
    froms = [f"ip,{arrived},{four}", *([f"ipv6,{arrived},{six}"] if number == 2 else [])]
    return {line(2, 100, sender, "goto_table:4") for sender in froms}


def host_nat(node: HostBridge) -> set[str]:
    """Return the flows between a pod and its host."""
    port, n = 555 + node.number, node.number
    to_pod = (f"set_field:{mac(n)}->eth_dst", f"set_field:10.10.{n}.{n}->ip_dst", MARK)
    to_host = (f"set_field:00:11:22:33:44:{n:02x}->eth_dst", "set_field:172.20.20.5->ip_src")
    return {
        line(2, 100, f"ip,in_port={port},nw_dst=172.20.20.5", *to_pod, "goto_table:6"),
        line(8, 100, "ip,in_port=5", *to_host, f"output:{port}"),
    }


def of_host_port(node: HostBridge) -> set[str]:
    port = 555 + node.number
    return {
        line(0, 99, f"in_port={port}", "ct_clear", "goto_table:2"),
        line(0, 102, f"udp,in_port={port},tp_dst=53", "ct_clear", "goto_table:2"),
        line(7, 10, f"in_port={port}", "drop"),
        line(8, 101, "ip,nw_dst=172.20.0.0/16", "drop"),
    }


def questions(number: int) -> set[str]:
    """Return the flows of what a pod asks DNS by IPv6, which must come from its own addresses."""
    if number != 2:
        return set()
    sender = f"dl_src={mac(number)},ipv6_src=2016::{number}:{number},tp_dst=53"
    return {
        line(0, 98, f"udp6,in_port=5,{sender}", "CONTROLLER:65535"),
        line(0, 101, f"udp6,in_port=5,dl_vlan=4093,{sender}", "pop_vlan", "goto_table:1"),
    }


def routed(node: HostBridge, number: int, *, at: int = 0) -> set[str]:
    """Return the flows by which a routed host reaches the pod of a host, or where it is now."""
    if (at or number) == node.number:
        way = (FROM_ROUTER, f"set_field:{mac(number)}->eth_dst", "output:5")
        own = {line(1, 10, "in_port=5", MARK, "goto_table:3")} | questions(number)
    else:
        way = ("set_field:0x1->tun_id", TO_ROUTER, f"output:{tunnel(at or number)}")
        own = senders(number)
    ways = {line(7, 100, to, *way) for to in destinations(number)}
    return own | ways | groups(number)


async def test_vroute_add_delete(ovs_module: OvsHost) -> None:
    """Twice: the hosts' ports come before the pods, then after them."""
    async with sites(ovs_module, Bridge.VXLAN, FwdMode.ROUTING) as hosts:
        before = {node.number: node.routes() for node in hosts}
        for port_first in (True, False):
            for node in hosts:
                assert "table=7, priority=1 actions=goto_table:8" in node.routes()
                if port_first:
                    await node.has_host_port()
                await node.has_pods(NUMBERS)
                if not port_first:
                    await node.has_host_port()
                pods = set[str]().union(*(routed(node, number) for number in NUMBERS))
                wanted = pods | of_host_port(node) | host_nat(node)
                assert node.routes() - before[node.number] == wanted
                assert not before[node.number] - node.routes()
            for node in hosts:
                await node.has_pods(())
                assert node.routes() - before[node.number] == of_host_port(node)
                await node.becomes(replace(node.agent.world, host_port=None))
                assert node.routes() == before[node.number]


def bridged(node: HostBridge, number: int, *, at: int = 0) -> set[str]:
    """Return the flows by which a bridged host reaches the pod of a host, or where it is now."""
    to_mac = f"dl_vlan=1,dl_dst={mac(number)}"
    if (at or number) == node.number:
        own = {line(1, 10, "in_port=5", TAG, MARK, "goto_table:3")} | questions(number)
        return own | {line(9, 100, to_mac, "pop_vlan", "output:5")} | groups(number)
    into_tunnel = ("set_field:0x1->tun_id", "pop_vlan", f"output:{tunnel(at or number)}")
    return {line(9, 100, to_mac, *into_tunnel)} | groups(number) | senders(number)


def flooding(*, pods: bool, tunnels: list[int]) -> set[str]:
    """Return where a bridged host floods broadcast frames."""
    to_pods = ("pop_vlan", *(["output:5"] if pods else []))
    to_tunnels = ("set_field:0x1->tun_id", *(f"output:{port}" for port in tunnels))
    return {
        line(9, 10, "metadata=0/0x1,dl_vlan=1", *to_pods, *to_tunnels),
        line(9, 10, "metadata=0x1/0x1,dl_vlan=1", *to_pods),
    }


def tunnels_of(node: HostBridge) -> list[int]:
    return [tunnel(number) for number in NUMBERS if number != node.number]


async def test_vxlan_add_delete(ovs_module: OvsHost) -> None:
    async with sites(ovs_module, Bridge.VXLAN, FwdMode.BRIDGE) as hosts:
        before = {node.number: node.routes() for node in hosts}
        for _ in range(2):
            for node in hosts:
                await node.has_pods(NUMBERS)
                pods = set[str]().union(*(bridged(node, number) for number in NUMBERS))
                flood = flooding(pods=True, tunnels=tunnels_of(node))
                assert node.routes() - before[node.number] == pods | flood
                gone = before[node.number] - node.routes()
                assert gone == flooding(pods=False, tunnels=tunnels_of(node))
            for node in hosts:
                await node.has_pods(())
                assert node.routes() == before[node.number]


@pytest.mark.parametrize("fwd_mode", FwdMode)
async def test_delete_network_with_remote_endpoints(ovs_module: OvsHost, fwd_mode: FwdMode) -> None:
    """One host after the other loses its pod and the network while others keep theirs."""
    async with sites(ovs_module, Bridge.VXLAN, fwd_mode) as hosts:
        full, bare = {}, {}
        for node in hosts:
            await node.becomes(replace(node.agent.world, networks={}))
            bare[node.number] = node.routes()
            await node.becomes(replace(node.agent.world, networks={NET.id: NET}))
            await node.has_pods(NUMBERS)
            full[node.number] = node.routes()
        for _ in range(2):
            for node in hosts:
                await node.has_pods(set(NUMBERS) - {node.number})
                await node.becomes(replace(node.agent.world, networks={}))
                assert len(node.agent.world.remote) == 2
                assert not node.agent.desired.faults
                assert node.routes() == bare[node.number]
            for node in hosts:
                await node.becomes(replace(node.agent.world, networks={NET.id: NET}))
                await node.has_pods(NUMBERS)
                assert node.routes() == full[node.number]


@pytest.mark.parametrize("fwd_mode", FwdMode)
async def test_a_tunnel_goes_and_comes(ovs_module: OvsHost, fwd_mode: FwdMode) -> None:
    """What is behind it goes with it, and nothing else; then all is as it was."""
    async with sites(ovs_module, Bridge.VXLAN, fwd_mode) as hosts:
        node = hosts[0]
        await node.has_pods(NUMBERS)
        whole, before = node.agent.world, node.routes()
        vteps = {host: vtep for host, vtep in whole.vteps.items() if host != host_name(2)}
        await node.becomes(replace(whole, vteps=vteps))
        way = bridged if fwd_mode is FwdMode.BRIDGE else routed
        arrived = (TAG, FROM_TUNNEL) if fwd_mode is FwdMode.BRIDGE else (FROM_TUNNEL,)
        gone = way(node, 2) | {
            line(0, 102, "udp,in_port=12,tp_dst=53", "goto_table:1"),
            line(1, 100, "tun_id=0x1,in_port=12", *arrived, "goto_table:2"),
        }
        came = set[str]()
        if fwd_mode is FwdMode.BRIDGE:
            came = flooding(pods=True, tunnels=[13]) - flooding(pods=True, tunnels=[12, 13])
            gone |= flooding(pods=True, tunnels=[12, 13]) - flooding(pods=True, tunnels=[13])
        assert before - node.routes() == gone
        assert node.routes() - before == came
        await node.becomes(whole)
        assert node.routes() == before


def with_pod(node: HostBridge, bare: set[str], fwd_mode: FwdMode, at: int) -> set[str]:
    """Return all that a host has when the pod of host 2 is the only one, and is on a host."""
    if fwd_mode is FwdMode.ROUTING:
        return bare | routed(node, 2, at=at)
    before = flooding(pods=False, tunnels=tunnels_of(node))
    flood = flooding(pods=at == node.number, tunnels=tunnels_of(node))
    return bare - before | flood | bridged(node, 2, at=at)


@pytest.mark.parametrize("fwd_mode", FwdMode)
async def test_an_endpoint_moves_between_hosts(ovs_module: OvsHost, fwd_mode: FwdMode) -> None:
    """The pod of host 2 comes to host 1, which still has the record from before for a while."""
    async with sites(ovs_module, Bridge.VXLAN, fwd_mode) as hosts:
        bare = {node.number: node.routes() for node in hosts}
        key = pod(2).key
        moved = replace(far(2), host=host_name(1))
        for node in hosts:
            await node.has_pods({2})
            assert node.routes() == with_pod(node, bare[node.number], fwd_mode, at=2)
        here, *others = hosts
        await here.becomes(replace(here.agent.world, local={key: pod(2)}))
        assert here.routes() == with_pod(here, bare[1], fwd_mode, at=1) | senders(2)
        await here.becomes(replace(here.agent.world, remote={}))
        for node in others:
            await node.becomes(replace(node.agent.world, local={}, remote={key: moved}))
        for node in hosts:
            assert node.routes() == with_pod(node, bare[node.number], fwd_mode, at=1)


async def test_remote_endpoints_of_vlan_networks(ovs_module: OvsHost) -> None:
    """Bridged, they have a group and no way of their own; the physical switches know the way."""
    async with sites(ovs_module, Bridge.VLAN, FwdMode.BRIDGE) as hosts:
        node = hosts[0]
        on_vlan = replace(NET, vni=0)
        await node.becomes(replace(node.agent.world, networks={NET.id: on_vlan}, vteps={}))
        before = node.routes()
        await node.becomes(replace(node.agent.world, remote={far(n).key: far(n) for n in (2, 3)}))
        wanted = groups(2) | groups(3) | senders(2) | senders(3)
        assert node.routes() - before == wanted
        assert not before - node.routes()
        await node.has_pods(())
        assert node.routes() == before


async def test_vlroute_add_delete(ovs_module: OvsHost) -> None:
    async with sites(ovs_module, Bridge.VLAN, FwdMode.ROUTING) as hosts:
        node = hosts[0]
        network = replace(NET, vni=0, gateway=IPv4Address("20.20.20.254"))
        uplink = Uplink(ofport=30, mac="52:54:00:00:00:0a")
        await node.becomes(
            replace(node.agent.world, networks={NET.id: network}, vteps={}, uplinks=(uplink,))
        )
        before = node.routes()
        routed_pod = LocalEndpoint(
            key=EndpointKey("routed"),
            network=NET.id,
            ofport=6,
            mac="02:02:14:14:14:14",
            ip=IPv4Address("20.20.20.20"),
        )
        way = (FROM_ROUTER, "set_field:02:02:14:14:14:14->eth_dst")
        for _ in range(2):
            await node.becomes(replace(node.agent.world, local={routed_pod.key: routed_pod}))
            assert node.routes() - before == {
                line(1, 10, "in_port=6", MARK, "goto_table:3"),
                line(4, 100, f"ip,{IN_VRF},nw_dst=20.20.20.20", *NO_GROUP),
                line(7, 102, "ip,nw_dst=20.20.20.20", *way, "output:6"),
                line(7, 103, "ip,dl_vlan=1,nw_dst=20.20.20.20", *way, "pop_vlan", "output:6"),
            }
            await node.has_pods(())
            assert node.routes() == before
