"""Pods that another agent has connected: which are adopted, and what becomes of the others."""

import logging

import pytest

from core.errors import HostError
from netplugin.cni.interface_spec import Delivery
from netplugin.kernel.links.pod_links import PodLink
from netplugin.kernel.links.pod_places import PodPlace
from netplugin.ovsdb import PortSpec
from netplugin.pods.adoption import MarkedPort, adopted
from netplugin.pods.registry.journal_entry import EntryState
from netplugin.world.bridges import port_names
from ofnet.world import Bridge
from state.records import EndpointRecord
from tests.unit.netplugin.agent import Outside, eventually, request
from tests.unit.netplugin.records import HOST, PEER, endpoint, key, network
from tests.unit.netplugin.startup.resync import resync_of, starting, stored


async def connected(
    outside: Outside,
    record: EndpointRecord,
    number: int = 7,
    *,
    netns: str | None = "/run/netns/p7",
    bridge: Bridge = Bridge.VXLAN,
) -> None:
    """Connect a pod as the original does: its port's OpenFlow number is Open vSwitch's choice."""
    name = port_names.switch_name(number)
    ids = {port_names.ENDPOINT_ID: record.key}
    spec = PortSpec(name=name, ofport_request=3, tag=1, external_ids=ids)
    if netns is not None:
        link = PodLink(host_name=name, ifname="eth0", netns_path=netns, mtu=1450)
        outside.links.there[name] = link
    await outside.ovsdb.add_port(bridge, spec)


def here(number: int) -> EndpointRecord:
    """Return the record of container c<number> on this host."""
    return endpoint(number, host=HOST)


def known(outside: Outside, *records: EndpointRecord) -> None:
    outside.master.endpoints.update({record.key: record for record in records})


def flows(outside: Outside) -> str:
    return "\n".join(str(flow) for flow in outside.switches[Bridge.VXLAN].table.values())


async def test_a_pod_of_the_original_is_adopted_as_it_is(outside: Outside) -> None:
    record = here(1)
    await connected(outside, record)
    rows, links = dict(outside.ovsdb.ports()), dict(outside.links.there)
    async with starting(outside, await stored(record)) as agent:
        await resync_of(agent)
        entry = outside.journal.entries[record.key]
        assert (entry.state, entry.port, entry.netns, entry.spec.ifname) == (
            EntryState.PRESENT,
            7,
            "/run/netns/p7",
            "eth0",
        )
        assert entry.spec.container_id == record.endpoint_id
        port = agent.world.endpoints.port(record.key)
        assert port is not None
        assert (port.ofport, port.number) == (3, 7)
        assert f"nw_dst={record.ip_address} " in flows(outside)
        kept = {name: row for name, row in outside.ovsdb.ports().items() if name in rows}
        assert kept == rows
        assert {name: outside.links.there[name] for name in links} == links


async def test_an_adopted_pod_is_deleted_by_its_runtime(outside: Outside) -> None:
    record = here(1)
    known(outside, record)
    await connected(outside, record)
    async with starting(outside, await stored(record)) as agent:
        await resync_of(agent)
        await agent.pods.delete(request(record.endpoint_id))
        await eventually(lambda: "vvport7" not in outside.ovsdb.ports())
        await eventually(lambda: record.key not in outside.journal.entries)
        assert "vvport7" not in outside.links.there
        assert record.key not in outside.master.endpoints


async def test_new_pods_get_numbers_that_no_adopted_one_has(outside: Outside) -> None:
    record = here(1)
    await connected(outside, record, number=7)
    async with starting(outside, await stored(record)) as agent:
        await resync_of(agent)
        result = await agent.pods.add(request("c9"))
        assert result.host_ifname == "vvport8"


async def test_numbers_beyond_ours_are_adopted(outside: Outside) -> None:
    record = here(1)
    await connected(outside, record, number=65000)
    async with starting(outside, await stored(record)) as agent:
        await resync_of(agent)
        assert outside.journal.entries[record.key].port == 65000


async def test_a_running_pod_that_the_store_does_not_know_keeps_its_port(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    record = here(1)
    await connected(outside, record)
    async with starting(outside, await stored()) as agent:
        with caplog.at_level(logging.WARNING):
            await resync_of(agent)
        assert "port of a pod that the store does not know, left alone" in caplog.messages
        await agent.pod_ports.converge()
        assert "vvport7" in outside.ovsdb.ports()
        assert record.key not in outside.journal.entries
        assert f"nw_dst={record.ip_address} " not in flows(outside)
        del outside.links.there["vvport7"]
        await agent.pod_ports.converge()
        await eventually(lambda: "vvport7" not in outside.ovsdb.ports())


async def test_a_port_without_its_link_is_swept(outside: Outside) -> None:
    record = here(1)
    await connected(outside, record, netns=None)
    async with starting(outside, await stored(record)) as agent:
        await resync_of(agent)
        await eventually(lambda: "vvport7" not in outside.ovsdb.ports())
        assert record.key not in outside.journal.entries


@pytest.mark.parametrize("other", ["host", "bridge"])
async def test_an_endpoint_of_elsewhere_is_not_adopted(outside: Outside, other: str) -> None:
    record = endpoint(1, host=PEER) if other == "host" else here(1)
    bridge = Bridge.VLAN if other == "bridge" else Bridge.VXLAN
    await connected(outside, record, bridge=bridge)
    async with starting(outside, await stored(record)) as agent:
        await resync_of(agent)
        assert record.key not in outside.journal.entries
        assert "vvport7" in outside.ovsdb.ports()


async def test_nothing_is_removed_while_the_links_cannot_be_read(outside: Outside) -> None:
    record = here(1)
    await connected(outside, record)
    outside.faults.failing["pod places"] = HostError("netlink: too many open files")
    async with starting(outside, await stored(record)) as agent:
        agent.sup.supervise("resync", resync_of(agent))
        await eventually(lambda: agent.world.endpoint_records.get(record.key) is not None)
        assert "vvport7" in outside.ovsdb.ports()
        del outside.faults.failing["pod places"]
        await eventually(lambda: record.key in outside.journal.entries)


async def test_an_engines_interface_has_one_name_here(outside: Outside) -> None:
    record = here(1)
    await connected(outside, record)
    port = MarkedPort(7, outside.ovsdb.ports()["vvport7"], key("c1"))
    place = PodPlace("/run/docker/netns/x", "eth3", inside=True)
    entry = adopted(port, record, network(), place, Delivery.HANDED_OVER)
    assert (entry.spec.ifname, entry.netns, entry.spec.handed_over) == (
        "eth0",
        "/run/docker/netns/x",
        True,
    )
    assert adopted(port, record, network(), place, Delivery.INSIDE).spec.ifname == "eth3"
