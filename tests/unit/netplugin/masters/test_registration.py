"""What the store is told of this agent."""

import asyncio

import pytest

from core import keys
from core.errors import StoreDenied
from core.ids import HostLabel
from core.tasks import background, supervisor
from netplugin.masters.registration import (
    host_record,
    instances,
    keep_host_record,
    put_host_record,
    register,
)
from objdb.api import Change, Delete
from objdb.memory import LostAnswer, MemoryBackend
from state import codec
from state.records import HostRecord
from tests.unit.netplugin.agent import eventually, stays
from tests.unit.netplugin.starts import SETTINGS


def test_the_host_record_names_both_addresses() -> None:
    assert host_record(SETTINGS, ["52:54:00:00:00:01"], "1.2") == HostRecord(
        label=HostLabel("label"),
        control_ip="192.0.2.1",
        vtep_ip="192.0.2.2",
        vxlan_port=4790,
        uplink_macs=("52:54:00:00:00:01",),
        version="1.2",
    )


def test_the_services_are_the_originals_with_the_ports_in_use() -> None:
    found = instances(SETTINGS, [40001, 40002], "1.2")
    assert [(i.service, i.address, i.port) for i in found] == [
        ("netplugin", "192.0.2.1", 40001),
        ("netplugin", "192.0.2.1", 40002),
        ("netplugin.vtep", "192.0.2.2", 4790),
    ]
    assert {(i.hostname, i.version, i.ttl) for i in found} == {("label", "1.2", 10)}


async def test_the_host_record_is_written_when_the_store_is_there() -> None:
    backend = MemoryBackend()
    record = host_record(SETTINGS, [], "1")
    backend.faults.lost_answers.append(LostAnswer.NOT_APPLIED)
    backend.faults.reachable.clear()
    written = asyncio.gather(put_host_record(backend, record))
    await stays(lambda: not written.done(), 0.01)
    backend.faults.reachable.set()
    await written
    entry = await backend.get(keys.host(HostLabel("label")))
    assert entry is not None
    assert codec.decode(entry.key, entry.value) == record
    await backend.close()


async def test_a_host_record_that_was_removed_is_written_again() -> None:
    backend = MemoryBackend()
    record = host_record(SETTINGS, [], "1")
    where = keys.host(HostLabel("label"))

    def is_known() -> bool:
        return backend.store.get(where) is not None

    kept = keep_host_record(backend, record, is_known, interval=0.005)
    async with background("host record", kept):
        await eventually(is_known)
        written = backend.store.get(where)
        await stays(lambda: backend.store.get(where) == written, 0.02)
        await backend.commit([Change((), (Delete(where),))])
        await eventually(is_known)
    await backend.close()


async def test_a_store_that_refuses_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MemoryBackend()

    async def refuse(*_: object, **__: object) -> None:
        raise StoreDenied("no permission")

    monkeypatch.setattr(backend, "commit", refuse)
    with pytest.raises(StoreDenied):
        await put_host_record(backend, host_record(SETTINGS, [], "1"))


async def test_services_last_as_long_as_the_agent_and_the_host_record_longer() -> None:
    backend = MemoryBackend()
    prefixes = [keys.services(name) for name in ("netplugin", "netplugin.vtep")]

    def registered() -> set[str]:
        return {key for prefix in prefixes for key in backend.store.snapshot(prefix).entries}

    async with supervisor() as sup:
        await put_host_record(backend, host_record(SETTINGS, [], "1"))
        found = register(backend, instances(SETTINGS, [40001, 40002], "1"), sup)
        for one in found:
            await one.synced()
        assert registered() == {
            "/contiv.io/service/netplugin/192.0.2.1:40001",
            "/contiv.io/service/netplugin/192.0.2.1:40002",
            "/contiv.io/service/netplugin.vtep/192.0.2.2:4790",
        }
        assert not sup.stopping
    await eventually(lambda: registered() == set())
    assert await backend.get(keys.host(HostLabel("label"))) is not None
    await backend.close()
