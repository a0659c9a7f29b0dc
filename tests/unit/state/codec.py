"""What tests of codec share."""

from core.ids import (
    EndpointKey,
    HostLabel,
    NetworkId,
    NetworkName,
    TenantName,
)
from state.records import (
    Encap,
    EndpointRecord,
    HostRecord,
    NetworkRecord,
    NetworkType,
)

NETWORK = NetworkRecord(
    tenant=TenantName("blue"),
    name=NetworkName("net.1"),
    type=NetworkType.DATA,
    encap=Encap.VXLAN,
    pkt_tag=3,
    ext_pkt_tag=1000,
    subnet="10.1.0.0",
    subnet_len=16,
    gateway="10.1.255.254",
    first="10.1.0.0",
    last="10.1.255.255",
    ipv6_subnet="2001:db8::",
    ipv6_subnet_len=64,
    ipv6_gateway="2001:db8::1",
    network_tag="net.1.blue",
)


ENDPOINT = EndpointRecord(
    key=EndpointKey("net.1.blue-a/b"),
    network=NetworkId("net.1.blue"),
    endpoint_id="a/b",
    service_name="web",
    group_id=7,
    group_key="web:blue",
    ip_address="10.1.0.5",
    ipv6_address="2001:db8::2",
    mac_address="02:02:0a:01:00:05",
    homing_host=HostLabel("h1"),
    intf_name="",
    vtep_ip="",
    labels={"app": "wäb"},
    container_id="c1",
    common_name="cn",
)


HOST = HostRecord(
    label=HostLabel("h1"),
    control_ip="192.168.77.1",
    vtep_ip="192.168.77.1",
    vxlan_port=4789,
    uplink_macs=("02:00:00:00:00:01",),
    version="1",
)
