"""Hosts come from their records, agents from what is registered under leases."""

import pytest

from core import keys
from core.errors import Invalid
from core.ids import HostLabel
from netmaster import host_inventory
from objdb.api import Change, Put
from objdb.memory import MemoryBackend
from ofnet.rpc.control import Node
from state import codec
from state.records import HostRecord, ServiceInstance

H1, H2, GONE = HostLabel("h1"), HostLabel("h2"), HostLabel("gone")


def record(label: HostLabel) -> HostRecord:
    return HostRecord(label=label, control_ip="192.0.2.1", vtep_ip="192.0.2.1", vxlan_port=4789)


def host(label: HostLabel) -> Put:
    return Put(keys.host(label), codec.encode(record(label)))


def service(label: HostLabel, port: int, name: str = keys.SERVICE_NETPLUGIN) -> Put:
    instance = ServiceInstance(service=name, address="192.0.2.1", port=port, hostname=label)
    return Put(keys.service(name, "192.0.2.1", port), codec.encode(instance))


async def inventory(*puts: Put) -> host_inventory.HostInventory:
    backend = MemoryBackend()
    await backend.commit([Change((), puts)])
    found = await host_inventory.read(backend)
    await backend.close()
    return found


async def test_hosts_and_the_ends_of_their_agents() -> None:
    found = await inventory(
        host(H2), host(H1), service(H1, 9003), service(H1, 9002), service(GONE, 9009)
    )
    assert list(found.records) == [H1, H2]
    assert found.record(H1) == record(H1)
    assert found.agent_nodes(H1) == [Node("192.0.2.1", 9002), Node("192.0.2.1", 9003)]
    assert found.agent_nodes(H2) == []
    assert found.known == {H1, H2, GONE}
    assert found.absent == {H2: found.revision(H2)}
    assert (found.revision(H2), found.revision(GONE)) == (found.records[H2].rev, None)


@pytest.mark.parametrize("name", ["netplugin", "netplugin.vtep", "netplugin.rest"])
async def test_a_host_has_an_agent_while_any_of_its_services_is_there(name: str) -> None:
    found = await inventory(host(H1), service(H1, 9002, name))
    assert (set(found.services), found.absent) == ({H1}, {})


async def test_what_others_have_registered_is_not_read() -> None:
    master = service(H1, 9999, keys.SERVICE_NETMASTER)
    found = await inventory(host(H1), master, Put(keys.services("netplugin.else") + "x", b"?"))
    assert (found.services, set(found.absent)) == ({}, {H1})


async def test_an_unreadable_registration_is_an_error() -> None:
    with pytest.raises(Invalid, match="netplugin/192"):
        await inventory(
            host(H1), Put(keys.service(keys.SERVICE_NETPLUGIN, "192.0.2.1", 9002), b"?")
        )


async def test_an_unreadable_record_does_not_hide_other_hosts() -> None:
    found = await inventory(Put(keys.host(H1), b"?"), host(H2))
    assert set(found.absent) == {H1, H2}
    assert found.record(H2) == record(H2)
    with pytest.raises(Invalid, match="host/h1"):
        found.record(H1)
