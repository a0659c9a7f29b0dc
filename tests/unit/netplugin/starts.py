"""What a start finds: a store with settings, and doors to a host."""

from netplugin.bridges.host_ports import HostPorts
from netplugin.startup.clients import Clients
from objdb.api import Change, Put
from objdb.memory import MemoryBackend
from state import codec
from state.records import GlobalRecord, Record
from tests.unit.netplugin.agent import Outside

GLOBAL = GlobalRecord(
    infra_type="default", fwd_mode="routing", arp_mode="proxy", pvt_subnet="172.19.0.0/16"
)


async def put(backend: MemoryBackend, name: str, record: Record) -> None:
    await backend.commit([Change((), (Put(name, codec.encode(record)),))])


def doors_of(outside: Outside, store: MemoryBackend) -> Clients:
    host_ports = HostPorts(outside.ovsdb, outside.links)
    return Clients(store=store, ovsdb=outside.ovsdb, links=outside.links, host_ports=host_ports)
