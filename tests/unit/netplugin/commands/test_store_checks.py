"""What the store says of hosts, where a record of it makes no sense."""

import pytest

from core import keys
from core.ids import HostLabel
from core.version import VERSION
from netplugin.commands import store_checks
from netplugin.commands.findings import Note
from objdb.api import Change, Put
from objdb.memory import MemoryBackend
from state import codec
from state.records import HostRecord, ServiceInstance
from tests.unit.netplugin.commands.preflight import FLAGS
from tests.unit.netplugin.settings import settings_of


async def test_a_host_record_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    record = HostRecord(
        label=HostLabel("h2"), control_ip="192.0.2.3", vtep_ip="nowhere", vxlan_port=4789
    )
    store = MemoryBackend()
    await store.commit([Change((), (Put(keys.host(record.label), codec.encode(record)),))])
    monkeypatch.setattr(store_checks, "connect", lambda _place: store)
    found = await store_checks.paths(settings_of(FLAGS))
    assert isinstance(found, Note)
    assert "not looked at: record of host h2" in found.found


async def test_daemons_of_other_releases_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = settings_of(FLAGS)
    monkeypatch.setattr(store_checks, "connect", lambda _place: MemoryBackend())
    assert await store_checks.versions(wanted) == f"all daemons that run are of {VERSION}"
    store = MemoryBackend()
    monkeypatch.setattr(store_checks, "connect", lambda _place: store)
    for name, address, version in (
        ("netmaster", "192.0.2.1", "0.0.9"),
        ("netplugin", "192.0.2.2", VERSION),
        ("netplugin.vtep", "192.0.2.3", "0.0.9"),
        ("netplugin", "192.0.2.4", ""),
    ):
        key = keys.service(name, address, 1)
        value = codec.encode(
            ServiceInstance(service=name, address=address, port=1, version=version)
        )
        await store.commit([Change((), (Put(key, value),))])
    found = await store_checks.versions(wanted)
    assert isinstance(found, Note)
    assert found.found == (
        f"this program is of {VERSION}, others are not: "
        "netmaster at 192.0.2.1, netplugin at 192.0.2.3 of 0.0.9"
    )
