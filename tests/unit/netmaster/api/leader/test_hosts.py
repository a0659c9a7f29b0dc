"""`/hosts`: what is shown of hosts, from records, registrations, reports and the leader's view."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from core import keys
from core.errors import Conflict, NotFound
from core.ids import HostLabel
from netmaster.api.leader.hosts import HostsApi
from netmaster.host_progress import NO_AGENT, NOT_REPORTED, ShownHost
from netmaster.hosts.cleanups import Cleanups
from netmaster.plan.change_log import LEADER
from netmaster.plan.endpoints import dead_hosts
from netmaster.plan.endpoints.dead_hosts import Observed
from objdb.api import Change, Put
from ofnet.rpc.control import AgentReport, Node
from state import codec
from state.records import EndpointRecord, HostRecord, ServiceInstance
from tests.unit.netmaster.term import Term, outcome, term

H1, H2 = HostLabel("h1"), HostLabel("h2")
NODES = [Node("192.0.2.1", 9002), Node("192.0.2.1", 9003)]
AHEAD = {keys.MASTER_CONFIG: 10**6, keys.NETWORKS: 10**6, keys.ENDPOINTS: 10**6}


async def no_agent(_: EndpointRecord) -> None:
    """Call no agent."""


@dataclass
class Leading:
    """A leader's answers about hosts."""

    lead: Term
    reports: dict[Node, AgentReport] = field(default_factory=dict)

    async def put(self, key: str, value: bytes) -> None:
        await self.lead.backend.commit([Change((), (Put(key, value),))])

    async def host(self, label: HostLabel, machine: str = "") -> None:
        address = f"192.0.2.{label[-1]}"
        record = HostRecord(
            label=label, control_ip=address, vtep_ip=address, vxlan_port=4789, host_id=machine
        )
        await self.put(keys.host(label), codec.encode(record))

    async def register(self, label: HostLabel, node: Node) -> None:
        end = ServiceInstance(
            service=keys.SERVICE_NETPLUGIN, address=node.host, port=node.port, hostname=label
        )
        await self.put(keys.service(end.service, node.host, node.port), codec.encode(end))

    def report(self, node: Node, label: HostLabel) -> None:
        self.reports[node] = AgentReport(node=node, host=label, revisions=AHEAD)

    @property
    def hosts(self) -> HostsApi:
        cleanups = Cleanups(self.lead.committer, no_agent)
        return HostsApi(
            self.lead.backend, self.lead.committer, cleanups, self.reports, now=lambda: 50.0
        )

    async def listed(self) -> list[ShownHost]:
        return await self.hosts.all()


@pytest.fixture
async def leader() -> AsyncIterator[Leading]:
    """Lead a cluster of two hosts without agents, the first with two endpoints."""
    async with term() as lead:
        leading = Leading(lead)
        await lead.network("n1")
        for container in ("a", "b"):
            await lead.endpoint(container, host=H1)
        for label in (H2, H1):
            await leading.host(label)
        yield leading


async def test_hosts_are_shown_in_order_with_their_endpoints(leader: Leading) -> None:
    found = await leader.listed()
    assert [(one["label"], one["endpoints"]) for one in found] == [("h1", 2), ("h2", 0)]
    assert await leader.hosts.one(H2) == found[1]
    with pytest.raises(NotFound, match="host h3 not found"):
        await leader.hosts.one(HostLabel("h3"))


async def test_each_registered_end_has_to_report(leader: Leading) -> None:
    for node in NODES:
        await leader.register(H1, node)
    leader.report(NODES[0], H1)
    leader.report(Node("192.0.2.1", 9004), H2)  # it is not registered
    first, second = await leader.listed()
    assert (first["registered"], first["ends"]) == (True, [str(node) for node in NODES])
    assert (first["behind"], second["behind"]) == (NOT_REPORTED, NO_AGENT)
    leader.report(NODES[1], H1)
    assert (await leader.listed())[0]["applied"]


async def test_a_drain_is_shown(leader: Leading) -> None:
    await leader.hosts.drain(H1, LEADER)
    assert [one["drained"] for one in await leader.listed()] == [True, False]
    await leader.hosts.undrain(H1, LEADER)
    assert [one["drained"] for one in await leader.listed()] == [False, False]


async def test_since_when_an_agent_is_missing_is_shown_until_it_is_back(leader: Leading) -> None:
    await leader.lead.committer.submit(
        lambda view: dead_hosts.update(
            view, Observed(absent={H1: 7}, confirmed={H1: 7}, seconds={}, now=40.0)
        )
    )
    first, second = await leader.listed()
    assert (first["missingSince"], "missingSince" in second) == (40.0, False)
    await leader.register(H1, NODES[0])
    assert "missingSince" not in (await leader.listed())[0]


async def test_a_pod_that_comes_while_its_host_is_removed_keeps_it(leader: Leading) -> None:
    async with leader.lead.held() as tasks:
        coming = tasks.create_task(leader.lead.endpoint("c", host=H2))
        removing = tasks.create_task(outcome(leader.hosts.remove(H2, force=False, origin=LEADER)))
    assert coming.result()
    assert isinstance(removing.result(), Conflict)
    assert [one["endpoints"] for one in await leader.listed()] == [2, 1]


async def test_a_record_that_cannot_be_read_hides_no_other(leader: Leading) -> None:
    await leader.put(keys.host(H1), b"{")
    first, second = await leader.listed()
    assert (first["label"], first["vtepIP"], second["vtepIP"]) == (H1, "", "192.0.2.2")
    (error,) = first["errors"]
    assert error.startswith(f"record {keys.host(H1)}: not JSON")
    assert second["errors"] == []


async def test_a_renamed_host_with_pods_is_removed_by_force_only(leader: Leading) -> None:
    renamed = HostLabel("renamed3")
    for label in (H1, renamed):
        await leader.host(label, "machine")
    await leader.register(renamed, Node("192.0.2.3", 9002))
    with pytest.raises(Conflict, match="host h1 goes on as host renamed3, with 2 endpoints"):
        await leader.hosts.remove(H1, force=False, origin=LEADER)
    removed = await leader.hosts.remove(H1, force=True, origin=LEADER)
    assert removed == {"label": "h1", "endpoints": 2}
