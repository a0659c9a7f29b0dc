"""Hosts come from their records, agents from the registry, what they said from their reports."""

from core import keys
from core.ids import HostLabel
from netmaster.api.hosts import Hosts
from netmaster.progress import KnownHost
from objdb.api import Change, Put
from objdb.memory import MemoryBackend
from ofnet.control import Node, Report
from state import codec
from state.records import HostRecord, ServiceInstance


def record(label: str) -> HostRecord:
    return HostRecord(
        label=HostLabel(label), control_ip="192.0.2.1", vtep_ip="192.0.2.1", vxlan_port=4789
    )


def end(label: str, port: int) -> ServiceInstance:
    return ServiceInstance(
        service=keys.SERVICE_NETPLUGIN, address="192.0.2.1", port=port, hostname=label
    )


async def test_what_is_known_of_hosts() -> None:
    backend = MemoryBackend()
    ends = [end("h1", 9003), end("h1", 9002), end("gone", 9009)]
    puts = [
        *(Put(keys.host(HostLabel(name)), codec.encode(record(name))) for name in ("h2", "h1")),
        *(Put(keys.service(e.service, e.address, e.port), codec.encode(e)) for e in ends),
    ]
    await backend.commit([Change((), tuple(puts))])
    nodes = [Node("192.0.2.1", port) for port in (9002, 9003, 9004)]
    said = [Report(node=node, host="h1") for node in nodes]
    reports = {nodes[0]: said[0], nodes[2]: said[2]}
    assert await Hosts(backend, reports).known() == [
        KnownHost(record=record("h1"), ends={nodes[0]: said[0], nodes[1]: None}),
        KnownHost(record=record("h2"), ends={}),
    ]
    await backend.close()
