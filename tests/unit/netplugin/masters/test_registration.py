"""What the store is told of this agent."""

from dataclasses import replace
from ipaddress import IPv6Address

from core import keys
from core.ids import HostLabel
from core.tasks import supervisor
from netplugin.masters.label_claim import claim_label
from netplugin.masters.registration import AgentRegistrations, host_record, instances
from objdb.memory import MemoryBackend
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


def test_a_host_with_tunnels_of_both_families_names_both() -> None:
    settings = replace(SETTINGS, vtep_ip6=IPv6Address("fd77::1"))
    assert host_record(settings, [], "1", "id1").vtep_ips == ("192.0.2.2", "fd77::1")
    ends = [(one.service, one.address) for one in instances(settings, [], "1")]
    assert ends == [("netplugin.vtep", "192.0.2.2"), ("netplugin.vtep", "fd77::1")]


async def test_services_last_as_long_as_the_agent_and_the_host_record_longer() -> None:
    backend = MemoryBackend()
    prefixes = [keys.services(name) for name in ("netplugin", "netplugin.vtep")]

    def registered() -> set[str]:
        return {key for prefix in prefixes for key in backend.store.snapshot(prefix).entries}

    async with supervisor() as sup:
        await claim_label(backend, host_record(SETTINGS, [], "1", "id1"))
        services = AgentRegistrations(backend, sup)
        services.register(instances(SETTINGS, [40001, 40002], "1"))
        await eventually(lambda: services.states() == {"registered": 3, "all": 3})
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
