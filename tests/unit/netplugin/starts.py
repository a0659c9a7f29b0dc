"""What a start finds: the command line's settings and a store with the cluster's."""

from ipaddress import IPv4Address
from pathlib import Path

from core.ids import HostLabel
from daemons.listen_address import ListenAddress
from netplugin.settings import AgentSettings
from objdb.api import Change, Put
from objdb.connect import StoreAddress, StoreKind
from objdb.memory import MemoryBackend
from ofnet.world import FwdMode
from state import codec
from state.records import GlobalRecord, Record

GLOBAL = GlobalRecord(
    infra_type="default", fwd_mode="routing", arp_mode="proxy", pvt_subnet="172.19.0.0/16"
)
SETTINGS = AgentSettings(
    mode="kubernetes",
    fwd_mode=FwdMode.ROUTING,
    store=StoreAddress(StoreKind.ETCD, ("e:1",), secure=False),
    host=HostLabel("label"),
    ctrl_ip=IPv4Address("192.0.2.1"),
    vtep_ip=IPv4Address("192.0.2.2"),
    uplinks=(),
    vxlan_port=4790,
    journal=Path("/data/endpoints"),
    run_dir=Path("/run"),
    cni_socket=Path("/run/cni.sock"),
    ovsdb="unix:/db.sock",
    rest=ListenAddress("0.0.0.0", 9090),
    vxlan_rpc_port=0,
    vlan_rpc_port=0,
    vxlan_openflow_port=0,
    vlan_openflow_port=0,
    k8s_config=None,
    mtu=None,
    probe_interval=300,
    leak_grace=600,
    audit_interval=60,
)


async def put(backend: MemoryBackend, name: str, record: Record) -> None:
    await backend.commit([Change((), (Put(name, codec.encode(record)),))])
