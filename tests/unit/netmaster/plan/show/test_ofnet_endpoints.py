"""The endpoints that `/debug/ofnet` shows."""

from core.ids import HostLabel
from netmaster.plan.show.ofnet_endpoints import endpoint_db
from tests.unit.netmaster.scene import Scene


def test_every_endpoint_is_shown_as_switches_know_it() -> None:
    scene = Scene()
    scene.network("n1")
    scene.network("n2", "10.1.2.0/24", encap="vlan", pkt_tag=7)
    scene.group("g1")
    scene.endpoint("c1", service_name="g1")
    scene.endpoint("c2", "n2")
    shown = endpoint_db(scene.view, {HostLabel("h1"): "10.77.0.1"})
    assert shown["10.1.1.1:default"] == {
        "EndpointID": "10.1.1.1:default",
        "EndpointType": 2,
        "EndpointGroup": 1,
        "IpAddr": "10.1.1.1",
        "IpMask": "255.255.255.255",
        "Ipv6Addr": "",
        "Ipv6Mask": "",
        "Vrf": "default",
        "MacAddrStr": "02:02:0a:01:01:01",
        "Vlan": 1,
        "Vni": 1,
        "EndpointGroupVlan": 1,
        "OriginatorIp": "10.77.0.1",
        "OriginatorMac": "",
        "Timestamp": "1970-01-01T00:16:40.000000Z",
    }
    other = shown["10.1.2.1:default"]
    assert (other["Vlan"], other["Vni"], other["EndpointGroup"]) == (7, 0, 0)
    assert endpoint_db(scene.view, {})["10.1.2.1:default"]["OriginatorIp"] == ""
