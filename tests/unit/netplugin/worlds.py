"""Worlds to build tests of, and what came of them."""

from core.ids import TenantName
from netplugin.world.builder import WorldBuilder
from netplugin.world.conversion import LocalPort
from netplugin.world.dns_records import DnsRecords
from netplugin.world.endpoint_table import EndpointTable
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
