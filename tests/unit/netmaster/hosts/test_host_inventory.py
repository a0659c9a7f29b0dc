"""Hosts come from their records, agents from what is registered under leases."""

from dataclasses import replace

import pytest

from core import keys
from core.errors import Invalid
from core.ids import HostLabel
from netmaster.hosts import host_inventory
from objdb.api import Change, Put
from objdb.memory import MemoryBackend
from ofnet.rpc.control import Node
from state import codec
from state.records import HostRecord, ServiceInstance

H1, H2, GONE = HostLabel("h1"), HostLabel("h2"), HostLabel("gone")


def at(label: HostLabel) -> str:
    """Return the address of a host."""
    return f"192.0.2.{[H1, H2, GONE].index(label) + 1}"


def record(label: HostLabel) -> HostRecord:
    own, further = at(label), (f"10.0.0.{ord(label[-1])}",)
    return HostRecord(label=label, control_ip=own, vtep_ip=own, vxlan_port=4789, addresses=further)


def host(label: HostLabel) -> Put:
    return Put(keys.host(label), codec.encode(record(label)))


def service(
    label: HostLabel, port: int, name: str = keys.SERVICE_NETPLUGIN, address: str = ""
) -> Put:
    instance = ServiceInstance(
        service=name, address=address or at(label), port=port, hostname=label
    )
    return Put(keys.service(name, instance.address, port), codec.encode(instance))


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
    assert found.agent_nodes(H1) == [Node(at(H1), 9002), Node(at(H1), 9003)]
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


REST = keys.SERVICE_AGENT_REST


def put(value: bytes, service_name: str = REST, address: str = at(H1), port: int = 1) -> Put:
    return Put(keys.service(service_name, address, port), value)


@pytest.mark.parametrize(
    "value",
    [
        b"garbage",
        b"",
        b"[" * 100_000,
        b'{"HostAddr":1e999}',
        b'{"Port":' + b"9" * 5000 + b"}",
        b'{"Hostname":"\\ud800"}',
        codec.encode(ServiceInstance(service=REST, address=at(H1), port=2, hostname=H1)),
        codec.encode(ServiceInstance(service=REST, address=at(H2), port=1, hostname=H2)),
        codec.encode(ServiceInstance(service="netplugin", address=at(H1), port=1, hostname=H1)),
        codec.encode(ServiceInstance(service=REST, address=at(H1), port=1, hostname=H2)),
        codec.encode(ServiceInstance(service=REST, address=at(H1), port=1, hostname="ghost")),
        codec.encode(ServiceInstance(service=REST, address=at(H1), port=1, hostname="")),
        codec.encode(ServiceInstance(service=REST, address=at(H1), port=1, hostname="h\n1")),
        codec.encode(ServiceInstance(service=REST, address=at(H1), port=1, hostname="h" * 254)),
        codec.encode(
            ServiceInstance(service=REST, address=at(H1), port=1, hostname=H1, role="x" * 65536)
        ),
    ],
)
async def test_a_wrong_registration_is_a_fault_of_the_host_at_its_address_alone(
    value: bytes,
) -> None:
    found = await inventory(host(H1), host(H2), service(H2, 9090, REST), put(value))
    assert {label: len(each) for label, each in found.faults.items()} == {H1: 1}
    assert at(H1) in found.faults[H1][0]
    assert [(label, one.address) for label, (one,) in found.services.items()] == [(H2, at(H2))]
    assert (found.absent, list(found.stray)) == ({}, [])


async def test_an_agent_registers_at_each_address_that_its_hosts_record_has() -> None:
    further = service(H1, 9090, REST, "10.0.0.49")
    found = await inventory(host(H1), further, service(H1, 9002))
    assert {one.address for one in found.services[H1]} == {at(H1), "10.0.0.49"}
    assert (found.faults, list(found.stray)) == ({}, [])


async def test_an_agent_may_register_its_rest_by_a_name() -> None:
    found = await inventory(host(H1), host(H2), service(H2, 9090, REST, "h2.example"))
    assert ([one.address for one in found.services[H2]], found.faults) == (["h2.example"], {})


async def test_what_a_hosts_record_confirms_comes_first() -> None:
    """Agents of an older release do not tell all of their addresses."""
    older = codec.encode(HostRecord(label=H2, control_ip=at(H2), vtep_ip=at(H2), vxlan_port=4789))
    elsewhere = service(H2, 9090, REST, "10.0.0.9")
    found = await inventory(Put(keys.host(H2), older), elsewhere, service(H2, 9090, REST))
    assert [one.address for one in found.services[H2]] == [at(H2), "10.0.0.9"]
    found = await inventory(Put(keys.host(H2), older), host(H1), service(H2, 1, REST, at(H1)))
    assert (found.services, list(found.faults)) == ({}, [H1])


async def test_an_agent_cannot_fill_the_registry() -> None:
    many = [service(H1, port) for port in range(1, 2 * host_inventory.MOST_OF_ADDRESS)]
    found = await inventory(host(H1), host(H2), *many, service(H2, 9002))
    assert len(found.services[H1]) == host_inventory.MOST_OF_ADDRESS
    assert (len(found.services[H2]), [len(one) for one in found.faults.values()]) == (1, [1])


async def test_what_no_host_can_be_blamed_for_is_not_hidden() -> None:
    found = await inventory(host(H1), put(b"garbage", address="198.51.100.1"))
    assert (found.faults, len(found.stray)) == ({}, 1)


async def test_an_unreadable_record_does_not_hide_other_hosts() -> None:
    found = await inventory(Put(keys.host(H1), b"?"), host(H2))
    assert set(found.absent) == {H1, H2}
    assert found.record(H2) == record(H2)
    with pytest.raises(Invalid, match="host/h1"):
        found.record(H1)


async def test_a_record_that_is_too_long_is_not_read() -> None:
    long = codec.encode(replace(record(H1), host_id="x" * host_inventory.LONGEST))
    found = await inventory(Put(keys.host(H1), long))
    with pytest.raises(Invalid, match="longer than"):
        found.record(H1)
