"""The flows of a World equal what was recorded from the original on real switches.

Table, priority, match and actions are compared, with port numbers mapped by port name; cookies
are not. Every difference found is a line of docs/deviations.md: there is none for these steps.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address
from pathlib import Path

import pytest

from core.ids import EndpointKey, HostLabel, NetworkId
from ofnet.changes import EVERYTHING
from ofnet.desired import Desired
from ofnet.world import (
    Bridge,
    FwdMode,
    HostPort,
    LocalEndpoint,
    Network,
    RemoteEndpoint,
    Uplink,
    Vtep,
    World,
)

FLOWS = Path(__file__).parent / "flows"
PORT = re.compile(r"(?<=in_port=)\d+|(?<=output:)\d+")


@dataclass(frozen=True)
class Recording:
    """One dump: its lines with port names in place of numbers, and the ports."""

    lines: list[str]
    ports: dict[str, int]


def recording(name: str) -> Recording:
    text = (FLOWS / f"{name}.txt").read_text()
    ports = {
        port: int(number)
        for number, port in re.findall(r"^ (\d+)\((\w+)\): ?$", text, re.MULTILINE)
    }
    flows = re.findall(r"^ cookie=0x[0-9a-f]+, (.*)$", text, re.MULTILINE)
    assert flows
    return Recording(named(flows, ports), ports)


def named(lines: list[str], ports: dict[str, int]) -> list[str]:
    names = {number: name for name, number in ports.items()}
    return sorted(PORT.sub(lambda number: names[int(number[0])], line) for line in lines)


def flows_of(bridge: Bridge, world: World) -> list[str]:
    desired = Desired(bridge)
    desired.update(world, EVERYTHING)
    return [str(flow) for flow in desired.flows.values()]


NETWORK = Network(
    id=NetworkId("nvxlan.default"), vrf=1, vlan=1, vni=1, gateway=IPv4Address("10.1.1.254")
)
PODS = {"avxlan": 1, "bvxlan": 2, "cvxlan": 3}
HERE, THERE = HostLabel("node1"), HostLabel("node2")


def local(pod: str, ofport: int, private: int) -> LocalEndpoint:
    return LocalEndpoint(
        key=EndpointKey(f"{NETWORK.id}-{pod}"),
        network=NETWORK.id,
        ofport=ofport,
        mac=f"02:02:0a:01:01:{PODS[pod]:02x}",
        ip=IPv4Address(f"10.1.1.{PODS[pod]}"),
        nat_ip=IPv4Address(f"172.19.0.{private}"),
    )


def remote(pod: str) -> RemoteEndpoint:
    return RemoteEndpoint(
        key=EndpointKey(f"{NETWORK.id}-{pod}"),
        network=NETWORK.id,
        host=THERE,
        mac=f"02:02:0a:01:01:{PODS[pod]:02x}",
        ip=IPv4Address(f"10.1.1.{PODS[pod]}"),
    )


def vrouter_world(
    *, networks: int, here: list[str], there: list[str]
) -> tuple[World, dict[str, int]]:
    # port numbers of our own: the names tie them to the recorded ones
    ports = {"contivh0": 40, "vtep": 41}
    endpoints = []
    for index, pod in enumerate(here, 1):
        ports[f"vvport{index}"] = 50 + index
        endpoints.append(local(pod, 50 + index, index))
    world = World(
        fwd_mode=FwdMode.ROUTING,
        networks={NETWORK.id: NETWORK} if networks else {},
        local={endpoint.key: endpoint for endpoint in endpoints},
        remote={endpoint.key: endpoint for endpoint in map(remote, there)},
        vteps={THERE: Vtep(host=THERE, ip=IPv4Address("10.77.0.3"), ofport=41)},
        host_port=HostPort(ofport=40, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16")),
        complete=True,
    )
    return world, ports


@pytest.mark.parametrize(
    ("name", "vtep", "networks", "here", "there"),
    [
        ("01-empty-node1", "vxif107703", 0, [], []),
        ("01-empty-node2", "vxif107701", 0, [], []),
        ("02-network-node1", "vxif107703", 1, [], []),
        ("03-one-local-node1", "vxif107703", 1, ["avxlan"], []),
        ("04-one-local-one-remote-node1", "vxif107703", 1, ["avxlan"], ["bvxlan"]),
        ("04-one-local-one-remote-node2", "vxif107701", 1, ["bvxlan"], ["avxlan"]),
        ("05-two-local-one-remote-node1", "vxif107703", 1, ["avxlan", "cvxlan"], ["bvxlan"]),
    ],
)
def test_vxlan_routing_equals_the_recording(
    name: str, vtep: str, networks: int, here: list[str], there: list[str]
) -> None:
    recorded = recording(f"vxlan-routing-{name}")
    world, ports = vrouter_world(networks=networks, here=here, there=there)
    ports[vtep] = ports.pop("vtep")
    assert set(ports) == set(recorded.ports)
    assert named(flows_of(Bridge.VXLAN, world), ports) == recorded.lines


@pytest.mark.parametrize("node", ["node1", "node2"])
@pytest.mark.parametrize(
    ("mode", "bridge", "fwd_mode"),
    [
        ("vlan-routing", Bridge.VLAN, FwdMode.ROUTING),
        ("vlan-bridge", Bridge.VLAN, FwdMode.BRIDGE),
        ("vxlan-bridge", Bridge.VXLAN, FwdMode.BRIDGE),
    ],
)
def test_empty_bridge_equals_the_recording(
    mode: str, bridge: Bridge, fwd_mode: FwdMode, node: str
) -> None:
    recorded = recording(f"{mode}-01-empty-{node}")
    world = World(fwd_mode=fwd_mode, complete=True)
    if bridge is Bridge.VLAN:
        ports = {"up0": 9}
        uplink = Uplink(ofport=9, mac="52:54:00:00:00:0a")
        world = World(fwd_mode=fwd_mode, uplinks=(uplink,), complete=True)
    else:
        vtep = next(name for name in recorded.ports if name.startswith("vxif"))
        ports = {vtep: 5, "contivh0": 7}
        tunnel = Vtep(host=THERE, ip=IPv4Address("10.77.0.3"), ofport=5)
        # bridge mode has no flows for the host's port
        port = HostPort(ofport=7, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16"))
        world = World(fwd_mode=fwd_mode, vteps={THERE: tunnel}, host_port=port, complete=True)
    assert set(ports) == set(recorded.ports)
    assert named(flows_of(bridge, world), ports) == recorded.lines


def test_every_object_of_the_vrouter() -> None:
    """Group, DSCP, IPv6, host port: what the two-host recordings do not have."""
    text = (FLOWS / "vrouter-all-objects.txt").read_text()
    expected = [line.removeprefix("table=0, ") for line in text.splitlines() if "actions=" in line]
    network = Network(id=NetworkId("net.tenant1"), vrf=1, vlan=1, vni=10001)
    mine = LocalEndpoint(
        key=EndpointKey("net.tenant1-a"),
        network=network.id,
        ofport=14,
        mac="02:02:0a:01:01:01",
        ip=IPv4Address("10.1.1.1"),
        ip6=IPv6Address("2016::1:1"),
        group_id=100,
        dscp=10,
        nat_ip=IPv4Address("172.19.0.1"),
    )
    theirs = RemoteEndpoint(
        key=EndpointKey("net.tenant1-b"),
        network=network.id,
        host=THERE,
        mac="02:02:0a:01:01:02",
        ip=IPv4Address("10.1.1.2"),
        group_id=200,
    )
    world = World(
        fwd_mode=FwdMode.ROUTING,
        networks={network.id: network},
        local={mine.key: mine},
        remote={theirs.key: theirs},
        vteps={THERE: Vtep(host=THERE, ip=IPv4Address("192.168.2.11"), ofport=5)},
        host_port=HostPort(ofport=7, mac="02:02:ac:13:ff:fe", subnet=IPv4Network("172.19.0.0/16")),
    )
    assert sorted(flows_of(Bridge.VXLAN, world)) == sorted(expected)
