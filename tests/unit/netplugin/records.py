"""Records to build tests of: one network, endpoints by number, hosts by label."""

from dataclasses import replace
from typing import Any

from core.ids import (
    EndpointKey,
    GroupKey,
    GroupName,
    HostLabel,
    NetworkId,
    NetworkName,
    TenantName,
    endpoint_key,
    network_id,
)
from netplugin.cni.interface_spec import FIRST_INTERFACE, InterfaceSpec, endpoint_id
from netplugin.cni.request import PodRequest
from netplugin.pods.registry.journal_entry import EntryState, JournalEntry
from ofnet.world import Bridge
from state.records import (
    Encap,
    EndpointRecord,
    GroupRecord,
    HostRecord,
    NetworkRecord,
    NetworkType,
)

HOST = HostLabel("h1")
PEER = HostLabel("h2")
NET = NetworkId("n1.default")


def network(
    name: str = "n1",
    tenant: str = "default",
    *,
    encap: Encap = Encap.VXLAN,
    tag: int = 1,
    gateway: str = "10.1.255.254",
    v6: bool = False,
) -> NetworkRecord:
    return NetworkRecord(
        tenant=TenantName(tenant),
        name=NetworkName(name),
        type=NetworkType.DATA,
        encap=encap,
        pkt_tag=tag,
        ext_pkt_tag=10_000 + tag if encap is Encap.VXLAN else 0,
        subnet="10.1.0.0",
        subnet_len=16,
        gateway=gateway,
        first="10.1.0.0",
        last="10.1.255.255",
        ipv6_subnet="2001:db8::" if v6 else "",
        ipv6_subnet_len=64 if v6 else 0,
        ipv6_gateway="2001:db8::1" if v6 else "",
        network_tag=f"{name}.{tenant}",
    )


def endpoint(
    number: int = 1,
    *,
    host: HostLabel = HOST,
    nid: NetworkId = NET,
    group: str = "",
    group_id: int = 0,
    v6: bool = False,
    container: str = "",
) -> EndpointRecord:
    container = container or f"c{number}"
    return EndpointRecord(
        key=key(container, nid),
        network=nid,
        endpoint_id=container,
        service_name=group,
        group_id=group_id,
        group_key=GroupKey(f"{group}:{nid.rpartition('.')[2]}") if group else "",
        ip_address=f"10.1.{number >> 8}.{number & 255}",
        ipv6_address=f"2001:db8::{number:x}" if v6 else "",
        mac_address=f"02:02:0a:01:{number >> 8:02x}:{number & 255:02x}",
        homing_host=host,
        intf_name="",
        vtep_ip="",
        labels=None,
        container_id="",
        common_name=container,
    )


def group(
    name: str = "web",
    tenant: str = "default",
    *,
    dscp: int = 10,
    tag: int = 1,
    bandwidth: str = "",
    burst: int = 0,
) -> GroupRecord:
    return GroupRecord(
        tenant=TenantName(tenant),
        name=GroupName(name),
        network=NetworkName("n1"),
        group_id=7,
        encap=Encap.VXLAN,
        pkt_tag=tag,
        ext_pkt_tag=10_001,
        dscp=dscp,
        bandwidth=bandwidth,
        burst=burst,
        ip_pool="",
        group_tag=f"{name}.{tenant}",
    )


def host(label: str = PEER, vtep_ip: str = "192.0.2.2") -> HostRecord:
    return HostRecord(
        label=HostLabel(label), control_ip=vtep_ip, vtep_ip=vtep_ip, vxlan_port=4789, version="1"
    )


def key(container: str, nid: NetworkId = NET) -> EndpointKey:
    return endpoint_key(nid, container)


def nid_of(name: str, tenant: str = "default") -> NetworkId:
    return network_id(NetworkName(name), TenantName(tenant))


def interface(
    container: str = "c1", ifname: str = "eth0", network: str = "n1", netns: str = ""
) -> InterfaceSpec:
    """Return what a runtime asks for an interface of a pod."""
    return InterfaceSpec(
        container_id=container,
        endpoint=endpoint_id(container, ifname),
        netns=netns or f"/run/netns/{container}",
        ifname=ifname,
        tenant=TenantName("default"),
        network=NetworkName(network),
        default_route=ifname == FIRST_INTERFACE,
    )


def asking(asked: PodRequest, **changes: Any) -> PodRequest:
    """Return a request with some members of its interface changed."""
    spec = replace(asked.spec, **changes)
    endpoint = endpoint_id(spec.container_id, spec.ifname)
    return replace(asked, spec=replace(spec, endpoint=endpoint))


def journal_entry(container: str = "c1", number: int = 7) -> JournalEntry:
    """Return an endpoint of this host that is being added."""
    return JournalEntry(
        key=key(container),
        spec=interface(container),
        port=number,
        bridge=Bridge.VXLAN,
        state=EntryState.ADDING,
    )
