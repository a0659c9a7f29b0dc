"""A recorder for tests, and a datapath whose dumps they write."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from core.ids import EndpointKey, HostLabel, TenantName
from netplugin.flow_records.recorder import DropCounter, FlowRecorder
from netplugin.flow_records.ring import Ring
from netplugin.ovsdb.rows import PortRow
from netplugin.world.cluster_endpoints.endpoint_table import EndpointRow
from netplugin.world.kubernetes.kube_policies import KubePolicies
from ofnet.agent import BridgeAgent
from ofnet.world import Bridge, Service
from state.flow_records import FlowRecord
from state.records import EndpointRecord
from tests.unit.netplugin.port_rows import port_row
from tests.unit.ofnet.fake_switch import FakeSwitch
from tests.unit.ofnet.worlds import NET, address, local, remote, vtep, world

WEB = Service(key="web:default", vrf=1, address=address(200), ports=())
WORLD = replace(
    world(here=(local(1), local(3)), there=(remote(2),)),
    vteps={vtep().host: vtep()},
    services={WEB.key: WEB},
)
VNI = next(iter(WORLD.networks.values())).vni
POD1, POD2, POD3, VIP = map(str, (address(1), address(2), address(3), address(200)))


def row(number: int) -> PortRow:
    return port_row(f"vvport{number}", ofport=100 + number)


def record(key: EndpointKey) -> EndpointRecord:
    name = key.rpartition("-")[2]
    return EndpointRecord(
        key=key,
        network=NET,
        endpoint_id=name,
        service_name="",
        group_id=1,
        group_key="front:default",
        ip_address="",
        ipv6_address="",
        mac_address="",
        homing_host=HostLabel("h1"),
        intf_name="",
        vtep_ip="",
        labels={"io.kubernetes.pod.namespace": "shop", "io.kubernetes.pod.name": name, "app": "x"},
        container_id=name,
        common_name="",
    )


def flow(
    port: str, ends: tuple[str, int, str, int], count: tuple[int, int], *, stage: str = "0"
) -> str:
    source, sport, destination, dport = ends
    tunnel = f"tunnel(tun_id={VNI:#x},src=1.1.1.1)," if port.startswith("vxlan") else ""
    return (
        f"{tunnel}recirc_id({stage}),in_port({port}),eth(),eth_type(0x0800),ipv4(src={source},"
        f"dst={destination},proto=6,frag=no),tcp(src={sport},dst={dport}), packets:{count[0]}, "
        f"bytes:{count[1]}, used:0.5s, flags:P., actions:1\n"
    )


class DumpRecorder:
    """A recorder with a datapath whose dumps the test writes."""

    def __init__(self, most: int = 100, *, drop_counter: DropCounter | None = None) -> None:
        self.now = 1000.0
        self.dump = ""
        self.recorder = FlowRecorder(
            self,
            self.ports,
            lambda key: EndpointRow(record(key), TenantName("default")),
            KubePolicies(),
            now=lambda: self.now,
            ring=Ring(most),
            drop_counter=drop_counter,
        )
        agent = BridgeAgent(FakeSwitch(), Bridge.VXLAN, WORLD)
        other = BridgeAgent(FakeSwitch(), Bridge.VLAN, replace(WORLD, local={}, remote={}))
        self.recorder.attach({Bridge.VXLAN: agent, Bridge.VLAN: other})

    def path(self) -> Path:
        return Path()

    async def call(self, _command: str, *_arguments: str) -> str:
        return self.dump

    def ports(self) -> Mapping[str, PortRow]:
        return {f"vvport{number}": row(number) for number in (1, 3)}

    def look(self, *lines: str) -> list[FlowRecord]:
        self.dump = "".join(lines)
        self.now += 5
        asyncio.run(self.recorder.look())
        return sorted(self.recorder.ring.records(), key=lambda one: one.number)
