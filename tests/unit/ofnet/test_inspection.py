"""The report of a bridge has the shape and the values of the original's."""

import json
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

from core.ids import EndpointKey, NetworkId
from ofnet.inspection import AgentIdentity, bridge_report
from ofnet.tables import Mode
from ofnet.world import FwdMode, World
from tests.unit.ofnet.worlds import PEER, local, network, remote, vtep, world

IDENTITY = AgentIdentity(local_ip="10.77.0.1", port=9002, masters={"10.77.0.1": 9001})


def report(of: World, mode: Mode = Mode.VROUTER) -> dict[str, Any]:
    stats = {"PktRcvd": 2, "ArpPktRcvd": 1}
    made = bridge_report(of, mode, IDENTITY, connected=True, stats=stats, counters={})
    again: dict[str, Any] = json.loads(json.dumps(made))
    return again


def test_an_agent_as_recorded_from_the_original() -> None:
    blue = NetworkId("net.blue")
    full = world(here=(local(1),), there=(remote(2, v6=True),))
    full = replace(
        full,
        networks={**full.networks, blue: network(blue, vrf=2, number=6)},
        vteps={PEER: replace(vtep(), ip=IPv4Address("10.77.0.3"))},
    )
    seen = report(full)
    endpoints = seen.pop("EndpointDb")
    assert seen == {
        "LocalIp": "10.77.0.1",
        "MyPort": 9002,
        "MyAddr": "10.77.0.1",
        "IsConnected": True,
        "DpName": "vrouter",
        "Protopath": None,
        "MasterDb": {"10.77.0.1:9001": {"HostAddr": "10.77.0.1", "HostPort": 9001}},
        "VtepTable": {"10.77.0.3": 2},
        "VrfNameIdMap": {"blue": 2, "default": 1},
        "VrfDb": {
            "blue": {"VrfName": "blue", "VrfId": 2, "NumNetworks": 1},
            "default": {"VrfName": "default", "VrfId": 1, "NumNetworks": 1},
        },
        "FwdMode": "routing",
        "ArpMode": "proxy",
        "Stats": {"ArpPktRcvd": 1, "PktRcvd": 2},
        "ErrStats": {},
        "Datapath": {
            "PolicyAgent": {"Rules": {}},
            "SvcProxy": {
                "Catalogue": {"SvcMap": {}, "ProvMap": {}},
                "OperState": {},
                "EpStats": {},
            },
            "MyRouterMac": "AAARERER",
        },
    }
    assert sorted(endpoints) == [
        "10.1.0.1:default",
        "10.1.0.2:default",
        "10.1.255.254:default",
        "10.6.255.254:blue",
    ]
    assert endpoints["10.1.0.2:default"] == {
        "EndpointID": "10.1.0.2:default",
        "EndpointType": 2,
        "EndpointGroup": 0,
        "IpAddr": "10.1.0.2",
        "IpMask": "255.255.255.255",
        "Ipv6Addr": "2001:db8::2",
        "Ipv6Mask": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "Vrf": "default",
        "MacAddrStr": "02:02:0a:01:00:02",
        "Vlan": 1,
        "Vni": 10001,
        "EndpointGroupVlan": 1,
        "OriginatorIp": "10.77.0.3",
        "OriginatorMac": "",
        "Timestamp": "0001-01-01T00:00:00Z",
    }
    assert endpoints["10.1.0.1:default"]["OriginatorIp"] == "10.77.0.1"
    gateway = endpoints["10.6.255.254:blue"]
    assert (gateway["MacAddrStr"], gateway["EndpointGroupVlan"], gateway["Vlan"]) == ("", 0, 6)


def test_a_bridged_networks_gateway_is_not_reported() -> None:
    bridged = replace(world(here=(local(1),)), fwd_mode=FwdMode.BRIDGE)
    assert sorted(report(bridged, Mode.VLAN)["EndpointDb"]) == ["10.1.0.1:default"]


def test_an_endpoint_of_an_unknown_network_or_host_breaks_nothing() -> None:
    stray = replace(local(1), key=EndpointKey("x"), network=NetworkId("gone.default"))
    lost = replace(world(there=(remote(2),)), vteps={}, local={stray.key: stray})
    endpoints = report(lost)["EndpointDb"]
    assert endpoints["10.1.0.2:default"]["OriginatorIp"] == ""
    assert "10.1.0.1:default" not in endpoints


def test_only_the_vrouter_has_a_router_mac() -> None:
    seen = report(World(fwd_mode=FwdMode.ROUTING), Mode.VLROUTER)
    assert seen["Protopath"] == {}
    assert "MyRouterMac" not in seen["Datapath"]
