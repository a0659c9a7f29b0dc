"""What the store says of hosts, where a record of it makes no sense."""

import pytest

from core import keys
from core.ids import HostLabel
from netplugin.commands import store_checks
from netplugin.commands.findings import Note
from objdb.api import Change, Put
from objdb.memory import MemoryBackend
from state import codec
from state.records import HostRecord
from tests.unit.netplugin.commands.test_preflight import FLAGS
from tests.unit.netplugin.test_settings import settings_of


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
