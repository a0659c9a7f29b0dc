"""Worlds to build tests of, and what came of them."""

from collections.abc import Callable
from ipaddress import IPv4Address

from core.ids import TenantName
from netplugin.cni.results import PodResult
from netplugin.world.bridges.change_signal import ChangeSignal
from netplugin.world.bridges.conversion import LocalPort
from netplugin.world.builder import WorldBuilder
from netplugin.world.cluster_endpoints.endpoint_table import EndpointTable
from netplugin.world.dns.dns_records import DnsRecords
from ofnet.world import Bridge, FwdMode, World
from state.records import EndpointRecord, GlobalRecord
from tests.unit.netplugin.records import HOST


def built(**vrfs: int) -> WorldBuilder:
    return WorldBuilder(HOST, FwdMode.ROUTING, {TenantName(t): i for t, i in vrfs.items()})


def drain(builder: WorldBuilder) -> None:
    for bridge in Bridge:
        builder.take(bridge)


def altered(builder: WorldBuilder) -> set[Bridge]:
    """Take what changed; return the bridges of which something did."""
    return set(builder.take_changed())


def now(builder: WorldBuilder, bridge: Bridge = Bridge.VXLAN) -> World:
    return builder.take(bridge)[0]


def port(record: EndpointRecord, ofport: int = 5) -> LocalPort:
    return LocalPort(record=record, ofport=ofport)


def settings(arp_mode: str = "", pvt_subnet: str = "") -> GlobalRecord:
    return GlobalRecord(infra_type="", fwd_mode="routing", arp_mode=arp_mode, pvt_subnet=pvt_subnet)


def name_book() -> DnsRecords:
    """Return names that follow a table of endpoints of their own."""
    table = EndpointTable(HOST)
    book = DnsRecords(table)
    table.feed(book.update_endpoint)
    return book


def four_of(result: PodResult) -> IPv4Address:
    """Return the IPv4 address of a pod that has one."""
    assert result.ipv4 is not None
    return result.ipv4.ip


class EachChange(ChangeSignal):
    """A signal that tells of each change, not of the first alone."""

    def __init__(self, tell: Callable[[], object]) -> None:
        super().__init__()
        self._tell = tell

    def set(self) -> None:
        self._tell()
