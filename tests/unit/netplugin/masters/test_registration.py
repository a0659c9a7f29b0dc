"""What the store is told of this agent."""

from core import keys
from core.ids import HostLabel
from core.tasks import supervisor
from netplugin.masters.label_claim import claim_label
from netplugin.masters.registration import (
    host_record,
    instances,
    register,
)
from objdb.memory import MemoryBackend
from objdb.registration import TTL
from objdb.shared_lease import SharedLease
from state import schema
from state.records import HostRecord
from tests.unit.netplugin.agent import eventually
from tests.unit.netplugin.starts import SETTINGS


def test_the_host_record_names_both_addresses() -> None:
    assert host_record(SETTINGS, ["52:54:00:00:00:01"], "1.2", "id1") == HostRecord(
        label=HostLabel("label"),
        control_ip="192.0.2.1",
        vtep_ip="192.0.2.2",
        vxlan_port=4790,
        uplink_macs=("52:54:00:00:00:01",),
        version="1.2",
        host_id="id1",
        schema=schema.VERSION,
        answers_probes=True,
    )


def test_the_services_are_the_originals_with_the_ports_in_use() -> None:
    found = instances(SETTINGS, [40001, 40002], "1.2")
    assert [(i.service, i.address, i.port) for i in found] == [
        ("netplugin", "192.0.2.1", 40001),
        ("netplugin", "192.0.2.1", 40002),
        ("netplugin.vtep", "192.0.2.2", 4790),
    ]
    assert {(i.hostname, i.version, i.ttl) for i in found} == {("label", "1.2", 10)}


async def test_services_last_as_long_as_the_agent_and_the_host_record_longer() -> None:
    backend = MemoryBackend()
    prefixes = [keys.services(name) for name in ("netplugin", "netplugin.vtep")]

    def registered() -> set[str]:
        return {key for prefix in prefixes for key in backend.store.snapshot(prefix).entries}

    async with supervisor() as sup:
        await claim_label(backend, host_record(SETTINGS, [], "1", "id1"))
        lease = SharedLease(backend, TTL)
        found = register(backend, lease, instances(SETTINGS, [40001, 40002], "1"), sup)
        for one in found:
            await one.synced()
        assert len(backend.leases) == 1
        assert registered() == {
            "/contiv.io/service/netplugin/192.0.2.1:40001",
            "/contiv.io/service/netplugin/192.0.2.1:40002",
            "/contiv.io/service/netplugin.vtep/192.0.2.2:4790",
        }
        assert not sup.stopping
    await eventually(lambda: registered() == set())
    assert await backend.get(keys.host(HostLabel("label"))) is not None
    await backend.close()
